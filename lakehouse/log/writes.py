"""How often a table's bytes were written: what commits of ours added, as its log tells.

The problem: many small files become few large ones by being written again, and whoever
pays for the disk wants to know how often; what a process counted is gone with it. The
idea: each entry says how large its files are, and whether they hold new rows or rows
that were there. What an owner wrote is his own, and is not counted.

The price: the entries are read, at most `ENTRIES_MAX` of the newest; of older ones, and
of those that the log has no more, nothing is known.
"""

from typing import Final, NamedTuple

from lakehouse.errors import LogDamaged
from lakehouse.log.actions import Commit, parse_commit
from lakehouse.log.delta_log import entry_versions, read_entry

ENTRIES_MAX: Final = 10_000
"""Some seconds of reading."""
SMALL_BYTES: Final = 16 << 20
"""What people call a small file: a scan opens more of them than it needs to."""


class Written(NamedTuple):
    """Bytes of files that commits since ``since_version`` added: of new rows, and of
    rows that were in other files before."""

    new_bytes: int = 0
    again_bytes: int = 0
    since_version: int | None = None

    @property
    def amplification_percent(self) -> int | None:
        """Bytes that were written for each hundred of new rows; None: there were no
        new rows, so nothing can be said."""
        if not self.new_bytes:
            return None
        return 100 * (self.new_bytes + self.again_bytes) // self.new_bytes


def written(path: str, entries_max: int = ENTRIES_MAX) -> Written:
    """What our commits wrote, of the newest entries that the table's log has.

    An entry that goes meanwhile or is damaged counts for nothing. Raises OSError.
    """
    versions = entry_versions(path)[-entries_max:]
    new_bytes = again_bytes = 0
    for version in versions:
        try:
            commit = parse_commit(version, read_entry(path, version))
        except (FileNotFoundError, LogDamaged, ValueError):
            continue
        size = sum(file.size for file in commit.adds)
        if commit.ranges:
            new_bytes += size
        elif _is_rewrite(commit):
            again_bytes += size
    return Written(new_bytes, again_bytes, versions[0] if versions else None)


def _is_rewrite(commit: Commit) -> bool:
    return bool(commit.merged or commit.cleaned or commit.erased)
