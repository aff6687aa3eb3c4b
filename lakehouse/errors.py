"""What can go wrong with a table, by what the caller would do about it."""

from collections.abc import Mapping


class LakehouseError(Exception):
    """Something about a table; the message names the table and the reason."""


class LocationRefused(LakehouseError):
    """A name that would lead out of the warehouse: do not go there."""


class TableMissing(LakehouseError):
    """There is no table (yet): carry on without it."""


class TableUnreadable(LakehouseError):
    """Its owner made it something that this reader cannot read: tell, and wait."""


class ChunkTooLarge(LakehouseError):
    """The rows of a chunk take too much memory together: split it behind ``fits``, an
    offset up to which they do not, and read again."""

    def __init__(self, path: str, fits: int) -> None:
        super().__init__(f"{path}: rows above offset {fits} are read on their own")
        self.fits = fits


class HistoryTooLong(LakehouseError):
    """More log entries than anybody should wait for would have to be read."""


class LogDamaged(LakehouseError):
    """The Delta log itself is torn or has a hole: tell, and touch nothing."""


class FileVanished(LakehouseError):
    """A data file is not there any more: refresh the snapshot and look again."""


class CommitRefused(LakehouseError):
    """The table is not where the plan thought it was: plan again."""


class RowsInTheWay(CommitRefused):
    """The table has rows where records are to come: leave these partitions out."""

    def __init__(self, table: str, partitions: Mapping[int, str]) -> None:
        super().__init__(f"{table}: {'; '.join(partitions.values())}")
        self.partitions = partitions


class CommitLost(LakehouseError):
    """A commit that was made is not in the log when read back: tell, plan again."""
