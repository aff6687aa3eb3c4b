"""Whether the disk of the tables has little space left, so that nothing old is kept.

The broker refuses to write below its low mark (`broker.storage.space`). Whoever makes
room begins before that, at twice as much.
"""

import os
from typing import Final

SHARE: Final = 20
"""The mark is at most such a part of the disk."""


def is_little(free: int, total: int, low_bytes: int) -> bool:
    """Whether ``free`` bytes are less than twice the low mark."""
    return free < 2 * min(low_bytes, total // SHARE)


def is_short(directory: str, low_bytes: int) -> bool:
    """Whether the directory's disk has little space left; False if nobody can tell."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return False
    unit = found.f_frsize
    return is_little(found.f_bavail * unit, found.f_blocks * unit, low_bytes)
