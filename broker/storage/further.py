"""Further warehouses of a data directory: made once, and known by their ids then.

The problem: the tables of some topics lie on disks of their own (`lakehouse.further`),
of which one may not be mounted at a start, or another one may stand in its place;
that is no reason not to serve all other topics. The idea: a start makes what is new and
locks what is there; what is not there is left as it is, and its topics wait. The mark
is made on the disk before there is a link to it, and a link is the sign that there was
a mark: one without it is never marked again, for what was marked is not mounted.

The price: a disk that is mounted later is not locked against another broker; its
compactor locks it (`jobs.further`).
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog

from broker.storage.files import Files
from broker.storage.warehouse import (
    MARK,
    DirectoryRefused,
    check_place,
    check_spelled,
    lead,
    make_mark,
    refuse_as_anothers,
    sync,
    write_mark,
)
from lakehouse import further

log = structlog.get_logger("lakelog.storage")


def use_further(
    files: Files,
    data_dir: Path,
    places: Mapping[str, Path],
    new_id: Callable[[], bytes] = lambda: os.urandom(16),
) -> list[int]:
    """Let the tables of a data directory lie in these places, too, by name.

    Only for who has locked the directory. Returns locks that he closes at last, of all
    that are there. Raises DirectoryRefused if one is another's or in use, or if tables
    lie elsewhere; OSError.
    """
    _check_apart(data_dir, places)
    warehouse = str(data_dir / "tables")
    for name, place in places.items():
        _bring(warehouse, name, Path(os.path.abspath(place)), new_id)
    for name in further.names(warehouse):
        why = further.why_not(warehouse, name)
        if why is not None:
            log.warning("topics wait for a warehouse", why=why)
    return _locked(files, further.present(warehouse))


def _check_apart(data_dir: Path, places: Mapping[str, Path]) -> None:
    """None of them lies in another one, nor in any other warehouse: neither in one that
    an earlier start was told of, and be its disk away, nor around it."""
    warehouse = str(data_dir / "tables")
    known = [name for name in further.names(warehouse) if name not in places]
    links = [Path(further.link_of(warehouse, name)) for name in known]
    taken = [one.resolve() for one in (Path(warehouse), *links)]
    for name, place in places.items():
        setting, found = f"lake.warehouses: {name}", place.resolve()
        check_place(data_dir, place, setting)
        for other in taken:
            if found == other or found in other.parents or other in found.parents:
                raise DirectoryRefused(f"{setting}={place} and {other} share a place")
        taken.append(found)


def _bring(warehouse: str, name: str, place: Path, new_id: Callable[[], bytes]) -> None:
    link = Path(further.link_of(warehouse, name))
    own_file = Path(further.id_of(warehouse, name))
    own, found = further.read_mark(str(own_file)), _found(place)
    if found not in {None, "", own}:
        refuse_as_anothers(place)
    is_new = not link.is_symlink()
    if is_new:
        check_spelled(place)
        _make(name, place)
    else:
        _check_moved(link, place, own, found)
    if not link.parent.is_dir():
        link.parent.mkdir()
        sync(link.parent.parent)
    if not own:
        own = new_id().hex()
        write_mark(own_file, own)
    if found == "" or (is_new and found is None):
        make_mark(place, own)
    if os.path.realpath(link) != os.path.realpath(place):
        lead(link, place)


def _make(name: str, place: Path) -> None:
    try:
        place.mkdir(exist_ok=True)
    except FileNotFoundError as error:
        raise DirectoryRefused(
            f"lake.warehouses: {name}={place} has no directory to lie in: is its disk "
            "mounted?"
        ) from error
    sync(place.parent)


def _check_moved(link: Path, place: Path, own: str | None, found: str | None) -> None:
    """Where tables were moved from is not where they are."""
    before = os.path.realpath(link)
    is_there = before != os.path.realpath(place) and _found(link) == own is not None
    if is_there and found == own:
        raise DirectoryRefused(
            f"{before} and {place} both have the {MARK} of {link.name}: delete it "
            "where the tables are no more"
        )
    if is_there:
        raise DirectoryRefused(
            f"the warehouse {link.name} is {before}: move all that is in it to "
            f"{place}, hidden files too, before lake.warehouses says that it is there"
        )


def _locked(files: Files, links: Mapping[str, str]) -> list[int]:
    locks: list[int] = []
    try:
        for name, link in links.items():
            lock = files.lock(Path(link) / MARK)
            if lock is None:
                raise DirectoryRefused(
                    f"the warehouse {name}, {os.path.realpath(link)}, is in use by "
                    "another broker"
                )
            locks.append(lock)
    except BaseException:
        for lock in locks:
            files.close(lock)
        raise
    return locks


def _found(place: Path) -> str | None:
    return further.read_mark(str(place / MARK))
