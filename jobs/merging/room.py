"""Room on the disk: a merge takes none that the log may need.

The problem: below a low mark the broker refuses to write, and what a merge sorts or
writes may be tens of gigabytes, on the same disk. The idea: a merge stops well above
that mark, and is tried again later. The price: one statvfs for some megabytes.
"""

from typing import Final

from jobs.space import little_left

ROOM_BYTES: Final = 1 << 30
"""More than twice the mark where a broker stops, unless that was set."""


class NoRoom(Exception):
    """The disk is nearly full."""


def check_room(directory: str) -> None:
    """Raise NoRoom if a merge is to take no more of the disk of a directory."""
    free = little_left(directory, ROOM_BYTES)
    if free is not None:
        raise NoRoom(f"only {free} bytes are free on the disk of {directory}")
