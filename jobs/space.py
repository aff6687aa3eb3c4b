"""Whether a disk has little space left: one rule for all who step back then.

The broker refuses to write below its low mark (`broker.storage.space`). Whoever makes
room begins above that, and whoever takes some for a while ends above it, each at a mark
of its own; of a small disk a tenth is enough, twice what the broker's mark can be.
"""

import os
from typing import Final, NamedTuple

SHARE: Final = 10
"""A mark is at most such a part of the disk."""
LOW_SHARE: Final = 20
"""And that of tables on a disk of their own, as the log's (`broker.storage`)."""
_MIB: Final = 1 << 20


class Volume(NamedTuple):
    """A file system: which one, and how many of its bytes are free."""

    device: int
    free: int
    total: int


def is_little(free: int, total: int, mark_bytes: int) -> bool:
    """Whether ``free`` bytes are less than the mark."""
    return free < min(mark_bytes, total // SHARE)


def little_left(directory: str, mark_bytes: int) -> int | None:
    """The free bytes of the directory's disk, if these are little; None if there is
    enough, or if nobody can tell."""
    try:
        found = volume(directory)
    except OSError:
        return None
    return found.free if is_little(found.free, found.total, mark_bytes) else None


def low_mark(tables: Volume, log_: Volume, low_bytes: int) -> int:
    """So many bytes are kept free; 0 where tables lie on the log's disk."""
    is_own = tables.device != log_.device
    return min(low_bytes, tables.total // LOW_SHARE) if is_own else 0


def full_sentence(place: str, tables: Volume, mark: int) -> str | None:
    """Why nothing is added to tables at ``place``; None if there is space."""
    if tables.free >= mark:
        return None
    return (
        f"the disk of the tables, {place}, has {tables.free / _MIB:.1f} MiB left, and "
        f"{mark / _MIB:.1f} MiB are kept for what makes room: records wait in the log"
    )


def volume(directory: str | os.PathLike[str]) -> Volume:
    """Of a directory. Raises OSError."""
    found = os.statvfs(directory)
    unit = found.f_frsize
    return Volume(
        os.stat(directory).st_dev, found.f_bavail * unit, found.f_blocks * unit
    )
