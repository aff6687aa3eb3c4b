"""Making files durable: Delta itself never calls fsync.

A file is durable when its bytes and the directory entries on the way to it are. All of
this blocks; call it on a thread.
"""

import os


def sync_file(path: str) -> None:
    """Flush the bytes of a file. Raises OSError; do not try again after that."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: str) -> None:
    """Flush the entries of a directory."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
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
