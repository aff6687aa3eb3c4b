"""What happens to names in directories, in the order in which it does.

The problem: somebody else's files in a table say that he is about to commit, and to
list directories of a hundred thousand files at each look costs a second. The idea:
Linux tells who asks (inotify): one queue for all directories, in order, read without
waiting.

The price: a kilobyte of the kernel's memory for each directory; file systems of other
machines tell nothing of what others do there.

Source: inotify(7).
"""

import ctypes
import os
import struct
import weakref
from collections.abc import Iterator
from typing import Final, NamedTuple

DIRECTORIES_MAX: Final = 8_192
READ_BYTES: Final = 1 << 16

_CREATE: Final = 0x100
_MOVED_TO: Final = 0x80
_DELETE_SELF: Final = 0x400
_MOVE_SELF: Final = 0x800
_IGNORED: Final = 0x8000
_ONLYDIR: Final = 0x0100_0000
_DONT_FOLLOW: Final = 0x0200_0000
_IS_DIRECTORY: Final = 0x4000_0000
_CLOSE_WRITE: Final = 0x8
_MOVED_FROM: Final = 0x40
_DELETE: Final = 0x200
_OVERFLOW: Final = 0x4000
_DIRECTORY: Final = _DELETE_SELF | _MOVE_SELF | _ONLYDIR | _DONT_FOLLOW
APPEARS: Final = _CREATE | _MOVED_TO
"""A name comes."""
ANYTHING: Final = APPEARS | _CLOSE_WRITE | _MOVED_FROM | _DELETE
"""It comes, goes, or its file was written."""
_EVENT: Final = struct.Struct("iIII")


class Appeared(NamedTuple):
    """A name in a watched directory; ``name`` "": the directory itself went, and is
    watched no more; ``directory`` "": so much happened that some of it was lost."""

    directory: str
    name: str
    is_directory: bool = False


class Watch:
    """Directories that are watched, at the ``most`` so many. Raises OSError where the
    system cannot."""

    def __init__(self, asked: int = APPEARS, most: int | None = None) -> None:
        self._asked, self._most = asked | _DIRECTORY, most
        self._libc = ctypes.CDLL(None, use_errno=True)
        try:
            found = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except AttributeError as error:
            raise OSError("the system has no inotify") from error
        self._file = _checked(found)
        self._closes = weakref.finalize(self, os.close, self._file)
        self._paths: dict[int, str] = {}
        self._numbers: dict[str, int] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._numbers

    def add(self, path: str) -> bool:
        """Watch the directory that is there now from now on; False: they are too many.
        Raises OSError. One that is watched already stays so."""
        known = self._numbers.get(path)
        if known is None and len(self._paths) >= (self._most or DIRECTORIES_MAX):
            return False
        name = os.fsencode(path)
        number = _checked(self._libc.inotify_add_watch(self._file, name, self._asked))
        if number != known:
            self.remove(path)  # another one has its name now, and nothing told that
            self._forget(number)
            self._paths[number], self._numbers[path] = path, number
        return True

    def remove(self, path: str) -> None:
        """Watch a directory no more."""
        number = self._numbers.get(path)
        if number is not None:
            self._forget(number)
            self._libc.inotify_rm_watch(self._file, number)

    def below(self, path: str) -> list[str]:
        """The watched directories at and below a path."""
        inside = os.path.join(path, "")
        return [one for one in self._numbers if one == path or one.startswith(inside)]

    def take(self) -> list[Appeared]:
        """What appeared since the last call, the oldest first."""
        found: list[Appeared] = []
        while True:
            try:
                data = os.read(self._file, READ_BYTES)
            except BlockingIOError:
                return found
            found += self._parsed(data)

    def close(self) -> None:
        """Watch nothing any more."""
        self._closes()

    def _parsed(self, data: bytes) -> Iterator[Appeared]:
        at = 0
        while at < len(data):
            number, mask, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size
            name = os.fsdecode(data[at : at + length].rstrip(b"\0"))
            at += length
            path = self._paths.get(number)
            if mask & _OVERFLOW:
                yield Appeared("", "")
            elif path is None:
                continue  # it was removed
            elif mask & (_DELETE_SELF | _MOVE_SELF | _IGNORED):
                self.remove(path)
                yield Appeared(path, "", is_directory=True)
            else:
                yield Appeared(path, name, bool(mask & _IS_DIRECTORY))

    def _forget(self, number: int) -> None:
        path = self._paths.pop(number, None)
        if path is not None:
            self._numbers.pop(path, None)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
