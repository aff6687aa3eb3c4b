"""The only opener of files: what storage asks of an operating system, and no more.

The problem. What a write-ahead log promises, it promises across power cuts, and no
test can cut the power ten thousand times. So everything that storage does to a disk
goes through this face of some fifteen calls; `tests/support/files.py` has a second
implementation of it, which forgets what was not synced.

The idea. Files are plain descriptors (integers). Writes are whole or raise; there are
no short writes above this line. Syncs are explicit, of data and of directories alike,
since a rename that was not synced may be undone by a power cut.

The price. One call more per write than ``os`` alone; nobody measured it.
"""

import contextlib
import ctypes
import fcntl
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

import numpy as np

Buffer = bytes | bytearray | memoryview

IOV_MAX: Final = 1024

_mincore = ctypes.CDLL(None).mincore
_mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


class MappedFile(Protocol):
    """A file as memory, for reading. What others write to it is seen at once."""

    @property
    def view(self) -> memoryview:
        """All of it, without copying; parts of it keep the mapping alive."""

    def forget(self) -> None:
        """Let the kernel take the pages back; touching them reads them again."""

    def is_resident(self, position: int, length: int) -> bool:
        """Whether these bytes can be read without waiting for a disk."""

    def close(self) -> None:
        """Unmap. Raises BufferError while a part of ``view`` is alive: try later."""


class Files(Protocol):
    """What storage does to a disk. All raise OSError; nothing is retried here."""

    def open(self, path: Path) -> int:
        """An existing file, for reading and writing."""

    def open_read(self, path: Path) -> int:
        """An existing file, for reading only."""

    def create(self, path: Path) -> int:
        """An empty file, for reading and writing; what was there is gone."""

    def close(self, file: int) -> None: ...

    def size(self, file: int) -> int: ...

    def pwritev(self, file: int, parts: Sequence[Buffer], position: int) -> None:
        """Write all parts, one after the other, from ``position`` on."""

    def pread(self, file: int, length: int, position: int) -> bytes:
        """Up to ``length`` bytes; fewer only at the end of the file."""

    def fdatasync(self, file: int) -> None:
        """Return when the file's data would survive a power cut."""

    def allocate(self, file: int, size: int) -> None:
        """Reserve ``size`` bytes that read as zeros, durably, without writing them."""

    def map(self, file: int, size: int) -> MappedFile: ...

    def rename(self, old: Path, new: Path) -> None: ...

    def unlink(self, path: Path) -> None: ...

    def listdir(self, path: Path) -> list[str]: ...

    def mkdir(self, path: Path) -> None:
        """Make the directory; fine if it is there."""

    def fsync_dir(self, path: Path) -> None:
        """Return when creations, renames and removals in it would survive."""

    def space(self, path: Path) -> tuple[int, int]:
        """Bytes that are free for us where ``path`` lies, and bytes in all."""

    def lock(self, path: Path) -> int | None:
        """The file, locked for this process until closed; None if another has it."""


class PosixMap:
    """``mmap`` of a file."""

    __slots__ = ("_address", "_map", "view")

    def __init__(self, file: int, size: int) -> None:
        self._map = mmap.mmap(file, size, prot=mmap.PROT_READ)
        self.view = memoryview(self._map)
        self._address: int = np.frombuffer(self.view, np.uint8).ctypes.data

    def forget(self) -> None:
        self._map.madvise(mmap.MADV_DONTNEED)

    def is_resident(self, position: int, length: int) -> bool:
        first = position // mmap.PAGESIZE
        pages = -(-(position + length) // mmap.PAGESIZE) - first
        found = bytearray(pages)
        vector = (ctypes.c_char * pages).from_buffer(found)
        start = self._address + first * mmap.PAGESIZE
        if _mincore(start, pages * mmap.PAGESIZE, vector) != 0:
            return False
        return found.count(1) == pages

    def close(self) -> None:
        self.view.release()
        self._map.close()


class PosixFiles:
    """A real file system. Source: POSIX, and Linux's fdatasync(2) and flock(2)."""

    def open(self, path: Path) -> int:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def open_read(self, path: Path) -> int:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def create(self, path: Path) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        return os.open(path, flags, 0o644)

    def close(self, file: int) -> None:
        os.close(file)

    def size(self, file: int) -> int:
        return os.fstat(file).st_size

    def pwritev(self, file: int, parts: Sequence[Buffer], position: int) -> None:
        for first in range(0, len(parts), IOV_MAX):
            some = parts[first : first + IOV_MAX]
            wanted = sum(map(len, some))
            written = os.pwritev(file, some, position)
            if written < wanted:
                self._write_rest(file, b"".join(some), written, position)
            position += wanted

    def _write_rest(self, file: int, data: bytes, written: int, position: int) -> None:
        view = memoryview(data)
        while written < len(view):
            more = os.pwrite(file, view[written:], position + written)
            if more == 0:
                raise OSError("the file takes no more bytes")
            written += more

    def pread(self, file: int, length: int, position: int) -> bytes:
        data = os.pread(file, length, position)
        while len(data) < length:
            more = os.pread(file, length - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def fdatasync(self, file: int) -> None:
        os.fdatasync(file)

    def allocate(self, file: int, size: int) -> None:
        os.posix_fallocate(file, 0, size)
        os.fsync(file)

    def map(self, file: int, size: int) -> MappedFile:
        return PosixMap(file, size)

    def rename(self, old: Path, new: Path) -> None:
        os.rename(old, new)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def listdir(self, path: Path) -> list[str]:
        return os.listdir(path)

    def mkdir(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def fsync_dir(self, path: Path) -> None:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def space(self, path: Path) -> tuple[int, int]:
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize

    def lock(self, path: Path) -> int | None:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        os.close(file)
        return None
