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
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from broker.storage.files import Files
from lakehouse import further
from lakehouse.location import warehouse_of
from lakehouse.log.delta_log import LOG_DIRECTORY

MARK: Final = further.MARK
"""In both, the same id."""
_BEGUN: Final = f"{MARK}.begun"
_LINK: Final = "tables"
_MARK_BYTES_MAX: Final = 64
_ESCAPED: Final = re.compile("%[0-9A-Fa-f]{2}")


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
    or as `check_warehouse` and `check_spelled`; OSError.
    """
    check_spelled(warehouse or data_dir / _LINK)
    if warehouse is not None:
        place = Path(os.path.abspath(warehouse))
        check_place(data_dir, place, "lake.warehouse")
        is_there = os.path.realpath(data_dir / _LINK) == os.path.realpath(place)
        if not is_there or (data_dir / _LINK).is_symlink():
            _place(data_dir, place, new_id)
    check_warehouse(data_dir)
    if not (data_dir / _LINK).is_symlink() or _read(data_dir / MARK) is None:
        return None
    lock = files.lock(data_dir / _LINK / MARK)
    if lock is None:
        place = warehouse_of(data_dir)
        raise DirectoryRefused(f"the warehouse {place} is in use by another broker")
    return lock


def check_warehouse(data_dir: Path) -> None:
    """Raise DirectoryRefused if the tables lie in a warehouse of their own which is not
    there, as where a disk is not mounted, or is not this data directory's."""
    link, own = data_dir / _LINK, _read(data_dir / MARK)
    if own is None:
        if link.is_symlink():
            _check_leads(link)
        if not link.is_symlink() or _read(link / MARK) is None:
            return  # no setting made it
    place, found = os.path.realpath(link), _read(link / MARK)
    if found is None and link.is_symlink():
        raise DirectoryRefused(
            f"the tables of {data_dir} lie in {place}, which has no {MARK}: is its "
            "disk mounted? If it was moved, set lake.warehouse to where it is"
        )
    if found is None:
        raise DirectoryRefused(
            f"the tables of {data_dir} lie in a warehouse of their own, and {link} is "
            "no link to it: set lake.warehouse to where it is; if they were moved "
            f"back here, their {MARK} is to be beside them"
        )
    if found != own:
        refuse_as_anothers(Path(place))


def check_spelled(place: Path) -> None:
    """Raise DirectoryRefused if a warehouse that has no tables yet lies where the Delta
    library finds none: it takes ``%`` and two hexadecimal digits for one letter."""
    found = os.path.realpath(place)  # as the library does
    written = _ESCAPED.search(found)
    if written is not None and not any(Path(found).glob(f"*/{LOG_DIRECTORY}")):
        raise DirectoryRefused(
            f"no tables can lie in {found}: in a path the Delta library takes "
            f"{written[0]} for one letter"
        )


def check_place(data_dir: Path, place: Path, setting: str) -> None:
    """Raise DirectoryRefused if a warehouse, as a setting says it, would share a place
    with its data directory, or lies in another one or in a warehouse."""
    own = Path(os.path.realpath(data_dir))
    found = Path(os.path.realpath(place))
    if found == own / _LINK:
        return
    if own == found or own in found.parents or found in own.parents:
        raise DirectoryRefused(f"{setting}={place} and {data_dir} share a place")
    for parent in found.parents:
        kinds = (("data directory", "catalog.db"), ("warehouse", MARK))
        for kind, sign in kinds:
            if (parent / sign).exists():
                raise DirectoryRefused(f"{setting}={place} lies in the {kind} {parent}")


def _place(data_dir: Path, place: Path, new_id: Callable[[], bytes]) -> None:
    """The warehouse has its mark before the data directory has, so that one without it
    was never in use; whose a mark is that was made before a kill, a third file says."""
    link, own = data_dir / _LINK, _read(data_dir / MARK)
    _check_movable(link, place, own)
    begun, found = _read(data_dir / _BEGUN), _read(place / MARK)
    if own is None and found is None:
        _check_not_lost(data_dir, place)
    found = found or None  # an empty mark: it may begin without tables
    place.mkdir(parents=True, exist_ok=True)
    with suppress(OSError):
        sync(place.parent)
    if found is not None and found not in {own, begun}:
        refuse_as_anothers(place)
    if own is None:
        if begun is None:
            begun = new_id().hex()
            write_mark(data_dir / _BEGUN, begun)
        if found is None:
            make_mark(place, begun)
        (data_dir / _BEGUN).rename(data_dir / MARK)
        sync(data_dir)
    if os.path.realpath(link) != os.path.realpath(place):
        lead(link, place)


def lead(link: Path, place: Path) -> None:
    """Have a link, or an empty directory, be a link to ``place``, durably."""
    new = link.with_name(f"{link.name}.new")
    new.unlink(missing_ok=True)
    new.symlink_to(place)
    if not link.is_symlink() and link.exists():
        link.rmdir()  # a link takes no directory's place
    new.rename(link)
    sync(link.parent)


def _check_movable(link: Path, place: Path, own: str | None) -> None:
    """Nothing is moved by a start: tables stand where they are, or where an operator
    brought them with their mark."""
    if own is not None:
        if _read(place / MARK) is None:
            raise DirectoryRefused(
                f"{place} has no {MARK}: is its disk mounted? Tables that lie "
                "elsewhere are moved there with all that is beside them, hidden files "
                "too"
            )
        if link.is_symlink():
            _check_one(link, place, own)
            return
    elif link.is_symlink():  # which an operator made
        _check_leads(link)
        if os.path.realpath(link) == os.path.realpath(place):
            return
    if link.exists() and any(link.iterdir()):
        raise DirectoryRefused(
            f"there are tables in {os.path.realpath(link)}: move all that is in it to "
            f"{place}, hidden files too, before lake.warehouse says that they lie there"
        )


def _check_not_lost(data_dir: Path, place: Path) -> None:
    """A disk that is not mounted is not where tables were moved to."""
    is_used = (data_dir / "catalog.db").exists()
    if is_used and not any(place.glob(f"*/{LOG_DIRECTORY}")):
        raise DirectoryRefused(
            f"there are no tables in {place}, and {data_dir} is in use: is its disk "
            f"mounted? If it is to begin without any, make an empty file {place / MARK}"
        )


def _check_one(link: Path, place: Path, own: str) -> None:
    """Where tables were copied from is not where they are."""
    before = os.path.realpath(link)
    if before != os.path.realpath(place) and _read(link / MARK) == own:
        raise DirectoryRefused(
            f"{before} and {place} both have the {MARK} of this data directory: delete "
            "it where the tables are no more"
        )


def _check_leads(link: Path) -> None:
    if not link.is_dir():
        place = os.path.realpath(link)
        raise DirectoryRefused(f"{link} leads to {place}, where nothing is")


def make_mark(place: Path, text: str) -> None:
    """Mark a warehouse as that of an id, durably. Raises DirectoryRefused.

    Only where there is none by now, or an empty one: of two brokers that start at
    the same time each would take the warehouse for its own."""
    ours = place / f"{MARK}.{text}"
    write_mark(ours, text)
    try:
        os.link(ours, place / MARK)
    except FileExistsError:
        if _read(place / MARK):
            refuse_as_anothers(place)
        write_mark(place / MARK, text)
    except OSError:  # of a file system without links
        write_mark(place / MARK, text)
    finally:
        ours.unlink()
    sync(place)


def refuse_as_anothers(place: Path) -> NoReturn:
    """Raise DirectoryRefused."""
    raise DirectoryRefused(f"{place} is the warehouse of another data directory")


def _read(path: Path) -> str | None:
    """The id in a mark; None: there is no mark."""
    try:
        with path.open("rb") as file:
            return file.read(_MARK_BYTES_MAX).decode(errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None


def write_mark(path: Path, text: str) -> None:
    """Put a mark in its place, durably."""
    new = path.with_name(f"{path.name}.new")
    with new.open("w") as file:
        file.write(f"{text}\n")
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)
    sync(path.parent)


def sync(directory: Path) -> None:
    """Make the names in a directory durable."""
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
