"""The three standard streams: there, whoever started us.

A part may be started with one of them closed (``>&-``, some schedulers). The next file
that is opened then gets its number, and what is written for people goes into it; a loop
of libuv aborts the process where that is a file of its own.
"""

import os
import sys
from contextlib import suppress


def open_closed() -> None:
    """Open nowhere in place of each that is closed; before any other file is opened.

    Programs that we start find it open as well.
    """
    for number in range(3):
        with suppress(OSError):
            os.fstat(number)
            continue
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)
