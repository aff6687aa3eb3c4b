"""The data directory: one broker at a time, and none that is older than the data.

Two brokers in one directory would write over each other, and an old broker would
misread what a newer one left. So a start takes a lock that dies with the process (a
kill leaves nothing to clean up), and compares the version that the directory was
written with.
"""

import errno
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from broker.storage import readable
from broker.storage.files import Files
from broker.storage.further import use_further
from broker.storage.warehouse import DirectoryRefused, use_warehouse

VERSION: Final = 3
"""2: manifests that know carried segments; 3: and where damaged ones end. What 1 and 2
wrote is read."""
_PARTS: Final = ("wal", "tables", "run")
_NOTE_BYTES_MAX: Final = 4096


class DataDirectory:
    """A directory that is ours until `close`."""

    def __init__(self, files: Files, path: Path, locks: list[int]) -> None:
        self._files = files
        self._locks = locks
        self.path = path

    @property
    def wal(self) -> Path:
        return self.path / "wal"

    @property
    def tables(self) -> Path:
        return self.path / "tables"

    @property
    def run(self) -> Path:
        return self.path / "run"

    @classmethod
    def claim(
        cls,
        files: Files,
        path: Path,
        owner: str,
        warehouse: Path | None = None,
        further: Mapping[str, Path] = MappingProxyType({}),
    ) -> "DataDirectory":
        """Take the directory, making it if it is not there.

        ``owner`` says who we are, for whoever is refused because of us. ``warehouse``:
        where its tables are to lie, if not where they do; ``further``: where those of
        some topics may. Raises DirectoryRefused if it is another's or of a newer
        version, or as `use_warehouse` and `use_further`; OSError.
        """
        files.mkdir(path)
        locks = [_lock(files, path, owner)]
        try:
            _check_version(files, path)
            of_warehouse = use_warehouse(files, path, warehouse)
            if of_warehouse is not None:
                locks.append(of_warehouse)
            for part in _PARTS:
                files.mkdir(path / part)
            files.fsync_dir(path)
            locks += use_further(files, path, further)
        except BaseException:
            for lock in locks:
                files.close(lock)
            raise
        return cls(files, path, locks)

    def close(self) -> None:
        """Unlock the directory, so that another process may claim it."""
        for lock in self._locks:
            self._files.close(lock)


def _lock(files: Files, path: Path, owner: str) -> int:
    lock = files.lock(path / "lock")
    if lock is None:
        holder = _read(files, path / "lock").rstrip("\0").strip()
        raise DirectoryRefused(
            f"{path} is in use by {holder or 'another process'}: stop it first, "
            "or choose another data directory"
        )
    note = owner.encode()[: _NOTE_BYTES_MAX - 1] + b"\n"
    try:
        files.pwritev(lock, [note.ljust(files.size(lock), b"\0")], 0)
    except OSError as error:  # a page that cannot be read: the lock holds all the same
        if error.errno != errno.EIO:
            raise
    return lock


def _check_version(files: Files, path: Path) -> None:
    try:
        text = _read(files, path / "VERSION").strip()
    except FileNotFoundError:
        _write_version(files, path)
        return
    if not text.isdecimal():
        raise DirectoryRefused(f"{path}/VERSION is damaged: it says {text!r}")
    if int(text) > VERSION:
        raise DirectoryRefused(
            f"{path} was written by a newer version of Lakelog (format {text}; "
            f"this one knows {VERSION}): start that version"
        )
    if int(text) < VERSION:  # before anything that an older one would misread
        _write_version(files, path)


def _write_version(files: Files, path: Path) -> None:
    new = path / "VERSION.new"
    file = files.create(new)
    try:
        files.pwritev(file, [f"{VERSION}\n".encode()], 0)
        files.fdatasync(file)
    finally:
        files.close(file)
    files.rename(new, path / "VERSION")
    files.fsync_dir(path)


def _read(files: Files, path: Path) -> str:
    file = files.open_read(path)
    try:
        text = readable.read(files, file, _NOTE_BYTES_MAX, 0)
        return text.decode(errors="replace")
    finally:
        files.close(file)
