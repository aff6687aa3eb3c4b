"""The three standard streams: there, whoever started us, and known when they fail.

A part may be started with one of them closed (``>&-``, some schedulers). The next file
that is opened then gets its number, and what is written for people goes into it; a loop
of libuv aborts the process where that is a file of its own.
"""

import io
import os
import sys
from contextlib import suppress
from typing import Any, cast


class OutputError(OSError):
    """Standard output takes no more: a disk that is full, a terminal that is gone."""


class _Output(io.FileIO):
    def write(self, data: Any, /) -> Any:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(error.errno, error.strerror) from error


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


def name_failed_writes() -> None:
    """Make what standard output does not take an OutputError: no other file's fault."""
    was = cast("io.TextIOWrapper", sys.stdout)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Output(was.fileno(), "w", closefd=False)),
        encoding=was.encoding,
        errors=was.errors,
        line_buffering=bool(was.line_buffering or was.write_through),
    )


def write_nowhere() -> None:
    """What is left in the buffer of standard output fails at the end no more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
