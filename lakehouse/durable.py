"""Making files durable: Delta itself never calls fsync.

A file is durable when its bytes and the directory entries on the way to it are. All of
this blocks; call it on a thread.
"""

import os


class SyncFailed(OSError):
    """An fsync failed: what was written may be lost, and a second try may say yes."""


def sync_file(path: str) -> None:
    """Flush the bytes of a file. Raises SyncFailed, or OSError if it cannot be opened:
    then nothing was lost, and it may be tried again."""
    _sync(path, os.O_RDONLY | os.O_CLOEXEC)


def sync_directory(path: str) -> None:
    """Flush the entries of a directory. Raises as `sync_file`."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _sync(path: str, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise SyncFailed(error.errno, error.strerror, path) from error
    finally:
        os.close(descriptor)


def sync_files(root: str, relative_paths: list[str]) -> None:
    """Flush files below ``root`` and every directory between them and ``root``."""
    directories = {root}
    for relative in relative_paths:
        sync_file(os.path.join(root, relative))
        parent = os.path.dirname(relative)
        while parent:
            directories.add(os.path.join(root, parent))
            parent = os.path.dirname(parent)
    for directory in sorted(directories, key=len, reverse=True):
        sync_directory(directory)
