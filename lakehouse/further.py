"""Further warehouses: tables of some topics on other disks than the rest.

The problem: a topic may want a larger disk than the others have, or a faster one, and
every part, job and tool finds tables in one directory, by their names, and follows no
link that somebody planted there. The idea: a hidden directory of the warehouse has a
link to each further one, which only a broker makes, from ``lake.warehouses``; the
place of a table that lies in one of them is a link which says that name and the table's
own one, relative to the warehouse, and nothing else. Both sides of each keep the same
id, so that a disk that is not mounted, or another one in its place, is not taken for
it.

The price: two small files are read where such a link is looked at; and the system tells
nobody of commits behind a link, so these tables' logs are looked at each second.
"""

import os
from contextlib import suppress
from typing import Final

from lakehouse.durable import sync_directory
from lakehouse.errors import CommitRefused, LocationRefused
from lakehouse.regular import open_file
from lakehouse.warehouse_names import NAME

MARK: Final = ".lakelog-warehouse"
"""In each warehouse that does not lie in the data directory: whose it is."""
DIRECTORY: Final = ".lakelog-warehouses"
"""In the warehouse: ``NAME`` is a link to a further one, ``NAME.id`` is its mark."""
_MARK_BYTES_MAX: Final = 64


def link_of(warehouse: str, name: str) -> str:
    """The link to a further warehouse: what lies there has a path below it. Of no name:
    the warehouse."""
    if not name:
        return warehouse
    return os.path.join(warehouse, DIRECTORY, name)


def id_of(warehouse: str, name: str) -> str:
    """The file that says which id it has."""
    return os.path.join(warehouse, DIRECTORY, f"{name}.id")


def names(warehouse: str) -> list[str]:
    """Those that there are links to, sorted, whether their disks are there or not."""
    try:
        found = os.listdir(os.path.join(warehouse, DIRECTORY))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(name for name in found if NAME.fullmatch(name))


def present(warehouse: str) -> dict[str, str]:
    """Name -> link, of those whose disks are there."""
    found = {name: link_of(warehouse, name) for name in names(warehouse)}
    return {n: link for n, link in found.items() if why_not(warehouse, n) is None}


def why_not(warehouse: str, name: str) -> str | None:
    """One sentence if the further warehouse of that name is not there, or none is
    called so; None: tables in it may be opened, as in the warehouse, of no name."""
    if not name:
        return None
    link, own = link_of(warehouse, name), read_mark(id_of(warehouse, name))
    if not NAME.fullmatch(name) or not own or not os.path.islink(link):
        return f"there is no warehouse {name!r}: is it in lake.warehouses?"
    found = read_mark(os.path.join(link, MARK))
    if found == own:
        return None
    place = os.path.realpath(link)
    if not found:
        return (
            f"the warehouse {name} is not there: {place} has no {MARK}. Is its disk "
            "mounted?"
        )
    return f"{place} is another warehouse than {name}: is the right disk mounted?"


def read_mark(path: str) -> str | None:
    """The id in a mark; None: there is no mark that can be read."""
    try:
        with open_file(path) as file:
            return file.read(_MARK_BYTES_MAX).decode(errors="replace").strip()
    except OSError:
        return None


def named_by(path: str) -> str | None:
    """The further warehouse in which a table's place says that it lies, whether that is
    there or not; None: it says none."""
    try:
        text = os.readlink(path)
    except OSError:  # there is no link
        return None
    name = text.removeprefix(f"{DIRECTORY}/").partition("/")[0]
    is_ours = text == _text(path, name) and NAME.fullmatch(name)
    return name if is_ours else None


def unled(path: str) -> dict[str, str]:
    """Name -> path, of what further warehouses that are there have in a directory that
    is called as the place ``path``, if that does not lead there."""
    warehouse, directory = os.path.split(path)
    leads = named_by(path)
    found = {
        name: os.path.join(link, directory)
        for name, link in present(warehouse).items()
        if name != leads
    }
    return {
        name: place
        for name, place in found.items()
        if os.path.isdir(place) and not os.path.islink(place)
    }


def behind_link(path: str) -> str:
    """Where a table is, for who follows no link."""
    return os.path.realpath(path) if os.path.islink(path) else path


def base_of(path: str, name: str | None) -> str:
    """The directory in which a table with the place ``path`` lies, or will: the
    warehouse, or a further one. Raises LocationRefused if that is not there."""
    warehouse = os.path.dirname(path)
    if not name:
        return warehouse
    why = why_not(warehouse, name)
    if why is not None:
        raise LocationRefused(f"{path}: {why}")
    return link_of(warehouse, name)


def lead(path: str, name: str | None) -> None:
    """Have ``path`` lead into the further warehouse ``name``, durably; None or empty:
    into none. A link that leads into another one goes.

    Raises CommitRefused if something else stands there.
    """
    before = named_by(path)
    if (before or "") == (name or ""):
        return
    if before is not None:
        os.unlink(path)
    if name:
        with suppress(OSError):  # as it may be left where no table was made
            os.rmdir(path)
        try:
            os.symlink(_text(path, name), path)
        except FileExistsError as error:
            raise CommitRefused(f"{path} is in the way: move it away") from error
    sync_directory(os.path.dirname(path))


def _text(path: str, name: str) -> str:
    return f"{DIRECTORY}/{name}/{os.path.basename(path)}"
