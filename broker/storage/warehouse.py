"""A warehouse of its own: tables on another disk than the log.

The problem: tables grow for years and want a large disk, the log wants a fast one; and
every part, job and tool must find the tables by the data directory alone. The idea:
``tables`` in the data directory is the warehouse, or a symbolic link to it, which a
broker makes once from ``lake.warehouse``. Both sides keep the same id, so that a disk
that is not mounted is never taken for a warehouse without tables, and one warehouse
never serves two data directories. The price: who moves tables moves the hidden file
with them.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from broker.storage.files import Files
from lakehouse.location import warehouse_of

MARK: Final = ".lakelog-warehouse"
"""In the warehouse: the id of the only data directory whose tables these are."""
_LINK: Final = "tables"
_MARK_BYTES_MAX: Final = 64


class DirectoryRefused(Exception):
    """A data directory cannot be used; the message is one sentence for people."""


def use_warehouse(
    files: Files,
    data_dir: Path,
    warehouse: Path | None,
    new_id: Callable[[], bytes] = lambda: os.urandom(16),
) -> int | None:
    """Have the tables of a data directory lie in ``warehouse``; None: where they do.

    Only for who has locked the directory. Returns a lock that he closes at last: a copy
    of a data directory has the same id, and must not be used beside it. Raises
    DirectoryRefused if tables lie elsewhere, if the warehouse is another's or in use,
    or as `check_warehouse`; OSError.
    """
    if warehouse is not None:
        place = Path(os.path.abspath(warehouse))
        _check_place(data_dir, place)
        if Path(os.path.realpath(data_dir / _LINK)) != Path(os.path.realpath(place)):
            _place(data_dir, place, new_id)
    check_warehouse(data_dir)
    if not (data_dir / _LINK).is_symlink():
        return None
    lock = files.lock(data_dir / _LINK / MARK)
    if lock is None:
        place = warehouse_of(data_dir)
        raise DirectoryRefused(f"the warehouse {place} is in use by another broker")
    return lock


def check_warehouse(data_dir: Path) -> None:
    """Raise DirectoryRefused if the tables lie in a warehouse of their own which is not
    there, as where a disk is not mounted, or is not this data directory's."""
    link = data_dir / _LINK
    if not link.is_symlink():
        return
    place, own = link.readlink(), _read(data_dir / MARK)
    found = _read(place / MARK)
    if found is None:
        raise DirectoryRefused(
            f"the tables of {data_dir} lie in {place}, which has no {MARK}: is its "
            "disk mounted? If it was moved, set lake.warehouse to where it is"
        )
    if found != own:
        raise DirectoryRefused(f"{place} is the warehouse of another data directory")


def _check_place(data_dir: Path, place: Path) -> None:
    own = Path(os.path.realpath(data_dir))
    found = Path(os.path.realpath(place))
    if found == own / _LINK:
        return
    if own == found or own in found.parents or found in own.parents:
        raise DirectoryRefused(f"lake.warehouse={place} and {data_dir} share a place")
    if (found.parent / "catalog.db").exists():
        raise DirectoryRefused(
            f"lake.warehouse={place} lies in the data directory {found.parent}"
        )


def _place(data_dir: Path, place: Path, new_id: Callable[[], bytes]) -> None:
    link = data_dir / _LINK
    _check_movable(link, place)
    place.mkdir(parents=True, exist_ok=True)
    own, found = _read(data_dir / MARK), _read(place / MARK)
    if found is not None and found != own:
        raise DirectoryRefused(f"{place} is the warehouse of another data directory")
    if own is None:
        own = new_id().hex()
        _write(data_dir / MARK, own)
    if found is None:
        _write(place / MARK, own)
    new = data_dir / f"{_LINK}.new"
    new.unlink(missing_ok=True)
    new.symlink_to(place)
    if not link.is_symlink() and link.exists():
        link.rmdir()  # a link takes no directory's place
    new.rename(link)
    _sync(data_dir)


def _check_movable(link: Path, place: Path) -> None:
    """Nothing is moved by a start: tables stand where they are, or where an operator
    brought them with their mark."""
    if not link.is_symlink():
        if link.exists() and any(link.iterdir()):
            raise DirectoryRefused(
                f"there are tables in {link}: move all that is in it to {place}, "
                "hidden files too, before lake.warehouse says that they lie there"
            )
    elif _read(place / MARK) is None:
        raise DirectoryRefused(
            f"the tables lie in {link.readlink()}: move all that is in it to {place}, "
            "hidden files too, before lake.warehouse says that they lie there"
        )


def _read(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return file.read(_MARK_BYTES_MAX).decode(errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _write(path: Path, text: str) -> None:
    new = path.with_name(f"{path.name}.new")
    with new.open("w") as file:
        file.write(f"{text}\n")
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)
    _sync(path.parent)


def _sync(directory: Path) -> None:
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
