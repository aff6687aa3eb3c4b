"""Room on the disk: a merge takes none that the log may need.

The problem: below a low mark the broker refuses to write, and what a merge sorts or
writes may be tens of gigabytes, on the same disk. The idea: a merge stops well above
that mark, and is tried again later. The price: one statvfs for some megabytes.
"""

import shutil
from typing import Final

ROOM_BYTES: Final = 1 << 30
ROOM_SHARE: Final = 10
"""At least this, or a tenth of the disk if that is less: more than twice the mark where
a broker stops unless it was set."""


class NoRoom(Exception):
    """The disk is nearly full."""


def check_room(directory: str) -> None:
    """Raise NoRoom if a merge is to take no more of the disk of a directory."""
    total, _, free = shutil.disk_usage(directory)
    if free < min(ROOM_BYTES, total // ROOM_SHARE):
        raise NoRoom(f"only {free} bytes are free on the disk")
