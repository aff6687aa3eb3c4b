"""Files that are opened only if they are files.

Whoever opens a FIFO waits until somebody writes to it: the thread that follows all
tables, say, because of one name in one table's log. Directories, sockets and devices
are no files either, and each says so in another way. All of them are `NotAFile` here.

Source: open(2), O_NONBLOCK; fifo(7).
"""

import errno
import os
import stat
from typing import BinaryIO, Final

from lakehouse.errors import LogDamaged

_KINDS: Final = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFDIR: "a directory",
    stat.S_IFSOCK: "a socket",
}


class NotAFile(OSError):
    """Something else stands in the place of a file."""

    def __str__(self) -> str:
        return f"{self.filename} {self.strerror}"


def open_descriptor(path: str) -> int:
    """A descriptor to read a file by; it waits for nobody. Raises NotAFile, and OSError
    as ``open`` does."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:  # so a socket says it
            check_file(path)
        raise
    try:
        _check(os.fstat(descriptor).st_mode, path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def open_file(path: str) -> BinaryIO:
    """A file, to read its bytes. Raises as `open_descriptor`."""
    return os.fdopen(open_descriptor(path), "rb")


def open_entry(path: str) -> BinaryIO:
    """The same for a log entry: what is no file is LogDamaged."""
    try:
        return open_file(path)
    except NotAFile as error:
        raise LogDamaged(str(error)) from error


def check_file(path: str) -> None:
    """For who has a path opened by others. Raises NotAFile, and OSError as ``stat``."""
    _check(os.stat(path).st_mode, path)


def _check(mode: int, path: str) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "a device")
        raise NotAFile(errno.EINVAL, f"is no file but {kind}", path)
