"""Making files durable: Delta itself never calls fsync.

A file is durable when its bytes and the directory entries on the way to it are. All of
this blocks; call it on a thread.

The problem: an fsync of ten megabytes puts them all before the disk at once, and the
small sync that a producer waits for stands behind them for as long as they take (20 ms
seen). The idea: they go to the disk a piece at a time before, each waited for, so that
others come between; the fsync then finds little to write.

The price: a second call of the system for each half megabyte. Where there is no
``sync_file_range`` (only Linux has it) the fsync does all of it.

Source: sync_file_range(2). It promises nothing by itself; the fsync does.
"""

import ctypes
import errno
import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any, Final

from lakehouse.regular import open_descriptor

PIECE_BYTES: Final = 512 << 10
_WRITE_AND_WAIT: Final = 7
"""WAIT_BEFORE, WRITE and WAIT_AFTER."""
_CANNOT: Final = (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.ESPIPE)
"""Not here, not allowed, or not for this file: the fsync does all of it."""
_sync_file_range: Any = getattr(
    ctypes.CDLL(None, use_errno=True), "sync_file_range", None
)
if _sync_file_range is not None:
    _sync_file_range.argtypes = (
        ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint,
    )  # fmt: skip


class SyncFailed(OSError):
    """An fsync failed: what was written may be lost, and a second try may say yes."""


def sync_file(path: str) -> None:
    """Flush the bytes of a file. Raises SyncFailed, or OSError if it cannot be opened:
    then nothing was lost, and it may be tried again."""
    _sync(open_descriptor(path), path, in_pieces=True)


def sync_directory(path: str) -> None:
    """Flush the entries of a directory. Raises as `sync_file`."""
    _sync(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), path)


def _sync(descriptor: int, path: str, *, in_pieces: bool = False) -> None:
    try:
        if in_pieces:
            _write_back(descriptor)
        os.fsync(descriptor)
    except OSError as error:
        raise SyncFailed(error.errno, error.strerror, path) from error
    finally:
        os.close(descriptor)


def put_in_place(path: str, write: Callable[[str], object]) -> None:
    """Have what ``write`` makes, which gets the name of a hidden file, in the place of
    a file, synced with its directory, or leave all as it was. Raises as `sync_file`,
    and what ``write`` does. Where the sync of the directory alone fails the new file is
    in the place already, and a power cut may bring the other back."""
    directory, name = os.path.split(path)
    written = os.path.join(directory, f".{name.lstrip('.')}.tmp")
    try:
        write(written)
        sync_file(written)
        os.replace(written, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(written)
        raise
    sync_directory(directory)


def write_anew(path: str) -> None:
    """Put a synced copy in the place of a file whose sync failed: the kernel may
    have dropped what was to be written, and would say yes to the next sync, anybody's.
    Its directory is to be synced then. Raises as `sync_file`."""
    copy = f"{path}.anew"
    try:
        shutil.copy(path, copy)
        sync_file(copy)
        os.replace(copy, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(copy)
        raise


_refused: set[tuple[int, int, int]] = set()
"""Device, inode and mtime of each file whose sync failed, and which is not written anew
yet: its next sync may say yes."""


def sync_or_write_anew(path: str) -> None:
    """Flush a file that others believe already, and whose next sync they would believe
    too: one whose sync failed is not left. Raises as `sync_file`, and SyncFailed where
    it failed and no copy can be made."""
    found = os.stat(path)
    file = found.st_dev, found.st_ino, found.st_mtime_ns
    if file not in _refused:
        try:
            sync_file(path)
        except SyncFailed:
            _refused.add(file)
    if file in _refused:
        try:
            write_anew(path)
        except OSError as error:
            raise SyncFailed(error.errno, error.strerror, path) from error
        _refused.discard(file)


def sync_files(root: str, relative_paths: list[str]) -> None:
    """Flush files below ``root`` and every directory between them and ``root``."""
    for relative in relative_paths:
        sync_file(os.path.join(root, relative))
    sync_directories(root, relative_paths)


def sync_directories(
    root: str, relative_paths: list[str], *, may_be_gone: bool = False
) -> None:
    """Flush every directory between ``root`` and these files, and ``root`` itself.
    ``may_be_gone``: those that are not there are passed over."""
    directories = {root}
    for relative in relative_paths:
        assert not os.path.isabs(relative), "it is below the root"
        parent = os.path.dirname(relative)
        while parent:
            directories.add(os.path.join(root, parent))
            parent = os.path.dirname(parent)
    for directory in sorted(directories, key=len, reverse=True):
        with suppress(FileNotFoundError) if may_be_gone else nullcontext():
            sync_directory(directory)


def _write_back(descriptor: int) -> None:
    """Bring the bytes of a file to the disk, a piece at a time.

    Raises OSError: what this call is told, the fsync of the same descriptor is not.
    """
    size = os.fstat(descriptor).st_size if _sync_file_range else 0
    for at in range(0, size, PIECE_BYTES):
        length = min(PIECE_BYTES, size - at)
        if _sync_file_range(descriptor, at, length, _WRITE_AND_WAIT) == 0:
            continue
        error = ctypes.get_errno()
        if error in _CANNOT:
            return
        raise OSError(error, os.strerror(error))
