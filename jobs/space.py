"""Whether a disk has little space left: one rule for all who step back then.

The broker refuses to write below its low mark (`broker.storage.space`). Whoever makes
room begins above that, and whoever takes some for a while ends above it, each at a mark
of its own; of a small disk a tenth is enough, twice what the broker's mark can be.
"""

import os
from typing import Final

SHARE: Final = 10
"""A mark is at most such a part of the disk."""


def is_little(free: int, total: int, mark_bytes: int) -> bool:
    """Whether ``free`` bytes are less than the mark."""
    return free < min(mark_bytes, total // SHARE)


def little_left(directory: str, mark_bytes: int) -> int | None:
    """The free bytes of the directory's disk, if these are little; None if there is
    enough, or if nobody can tell."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return None
    unit = found.f_frsize
    free, total = found.f_bavail * unit, found.f_blocks * unit
    return free if is_little(free, total, mark_bytes) else None
