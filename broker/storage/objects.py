"""Small objects by name: the manifest, read and replaced as a whole.

The problem. What says which segments count must be the old one or the new one whenever
the power goes, and code that reads it should not care whether it is a file.

The idea. `Objects` is what is asked of a place that keeps them. In a directory
(`LocalObjects`) an object is a file that is written aside, synced, renamed over the old
one, and the directory is synced. In an object store it is one put.

The price. Each replacement writes the whole object, and syncs twice.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from broker.failpoints import passing
from broker.storage import readable
from broker.storage.files import Buffer, Files

NEW_SUFFIX: Final = ".new"


class Objects(Protocol):
    """Where small objects are kept. Both methods raise OSError."""

    def get(self, name: str) -> bytes | None:
        """All of an object; None if there is none of this name."""

    def replace(self, name: str, pieces: Sequence[Buffer]) -> None:
        """Store ``pieces``, joined; the new object would survive a power cut when this
        returns, and before that the old one is whole."""


class LocalObjects:
    """Objects as files of ``directory``. One thread replaces at a time."""

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._directory = directory

    def get(self, name: str) -> bytes | None:
        """All of the file, with zeros for pages that cannot be read; None if there is
        none. Raises OSError."""
        try:
            file = self._files.open_read(self._directory / name)
        except FileNotFoundError:
            return None
        try:
            return readable.read(self._files, file, self._files.size(file), 0)
        finally:
            self._files.close(file)

    def replace(self, name: str, pieces: Sequence[Buffer]) -> None:
        """Replace the file by one that is durable already. Raises OSError."""
        new = self._directory / (name + NEW_SUFFIX)
        file = self._files.create(new)
        try:
            self._files.pwritev(file, pieces, 0)
            self._files.fdatasync(file)
        finally:
            self._files.close(file)
        passing("wal.checkpoint")
        self._files.rename(new, self._directory / name)
        self._files.fsync_dir(self._directory)
