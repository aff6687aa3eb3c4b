"""Where a topic's table lies: a directory name that is a function of the topic's name.

The problem: a topic name is chosen by a client. ``Orders`` and ``orders`` are two
topics but may be one directory; names that start with ``_`` or ``.`` are invisible to
Spark; 249 characters may not fit; and a name must never lead out of the warehouse.

The idea: lower-case letters, digits and ``- . _`` stay as they are; everything else is
written with ``~``, which no topic name contains: ``Orders`` is ``~orders``. The result
has no capital letter, so two topics never share a directory, whatever the store. What
would be too long keeps its beginning and gets a hash of the whole.

The price: a table of a topic with capitals is not called what the topic is called. The
table property ``lakelog.topic`` says it.

Some tables lie in a further warehouse (`lakehouse.further`): their places are links
that say so, and a link that says anything else is refused.
"""

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from lakehouse import further
from lakehouse.errors import LocationRefused

_ESCAPE = "~"
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-._")
_LENGTH_MAX = 200
_LENGTH_KEPT = 150
_HIDDEN = {"_": "~1", ".": "~2"}
_SET_ASIDE = ".deleted"
_BY_PLACE: Final = re.compile(r"(?i:file:(?://(?:localhost)?(?=/))?)?(?=/)")
"""How a name in a log begins that says where a file of this machine lies."""


def directory_name(topic: str) -> str:
    """The directory of a topic, injective also where letter case is ignored.

    Takes any string: that a topic name is legal is checked elsewhere, that this is safe
    is not left to it.
    """
    encoded = "".join(map(_encode, topic))
    if encoded[:1] in _HIDDEN:
        encoded = _HIDDEN[encoded[0]] + encoded[1:]
    if encoded.endswith("."):
        encoded = encoded[:-1] + _HIDDEN["."]
    if encoded and len(encoded) <= _LENGTH_MAX:
        return encoded
    digest = hashlib.sha256(topic.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{encoded[:_LENGTH_KEPT]}{_ESCAPE}{_ESCAPE}{digest}"


def _encode(character: str) -> str:
    if character in _PLAIN:
        return character
    if "A" <= character <= "Z":
        return _ESCAPE + character.lower()
    return f"{_ESCAPE}3{ord(character):x}{_ESCAPE}4"


def path_inside(root: str, path: str) -> str | None:
    """The absolute path of what an entry of the table at ``root`` names; None if that
    does not lie in it, and so is none of ours to open."""
    found = os.path.normpath(os.path.join(root, path))
    return found if found.startswith(os.path.join(root, "")) else None


class Names:
    """What the log of the table at ``root`` names, for one look: what the directories
    on the way are is asked once, and links may lead elsewhere at the next look."""

    def __init__(self, root: str) -> None:
        self._root, self._inside = root, os.path.join(root, "")
        self._found: dict[str, str | None] = {}
        """Directory -> its path below the table's; None: it is not in it."""

    def below(self, named: str) -> str:
        """The path below the table of what its log names so, decoded. What is named by
        another place is as it is named: a file of its own."""
        found = self.by_place(named)
        return unquote(named) if found is None else found

    def by_place(self, named: str) -> str | None:
        """The same of what is named by where it lies, as an owner's clone names files,
        if that is in the table; None: it is not, or it is named by that path already.
        """
        begin = _BY_PLACE.match(named)
        if begin is None:
            return None
        place = os.path.normpath(unquote(named[begin.end() :]))
        if place.startswith(self._inside):
            return place.removeprefix(self._inside)
        directory, name = os.path.split(place)
        if directory not in self._found:
            self._found[directory] = self._through_links(directory)
        above = self._found[directory]
        return None if above is None else os.path.normpath(os.path.join(above, name))

    def _through_links(self, directory: str) -> str | None:
        """Links may lead to the table's directory."""
        for above in (Path(directory), *Path(directory).parents):
            with suppress(OSError, ValueError):  # no path has such characters
                if os.path.samefile(above, self._root):
                    return os.path.relpath(directory, above)
        return None


def warehouse_of(data_dir: Path) -> Path:
    """Where the tables of a data directory lie, absolute: ``tables`` in it, or what
    that is a link to."""
    tables = data_dir.absolute() / "tables"
    return tables.resolve() if tables.is_symlink() else tables


def table_path(warehouse: str | os.PathLike[str], topic: str) -> str:
    """The directory of a topic's table, inside the warehouse.

    Raises LocationRefused when it would lie elsewhere, by a planted link for example.
    """
    path = table_place(warehouse, topic)
    check_contained(path)
    return path


def table_place(warehouse: str | os.PathLike[str], topic: str) -> str:
    """The same, for who calls `check_contained` before he opens anything there."""
    return os.path.join(os.fspath(warehouse), directory_name(topic))


def set_aside_path(warehouse: str | os.PathLike[str], topic: str, topic_id: str) -> str:
    """Where the table of a deleted topic waits until its files may go.

    The leading dot hides it from listings; the id keeps a topic that was created,
    deleted and created again apart from its former lives.
    """
    name = _set_aside_name(topic_id) + f"-{directory_name(topic)}"
    path = os.path.join(os.fspath(warehouse), name)
    check_contained(path)
    return path


def set_aside_paths(warehouse: str | os.PathLike[str], topic_id: str) -> list[str]:
    """Where it may wait: the version before left out the topic's name."""
    name, root = _set_aside_name(topic_id), os.fspath(warehouse)
    found = [one for one in os.listdir(root) if f"{one}-".startswith(f"{name}-")]
    paths = [os.path.join(root, one) for one in found]
    for path in paths:
        check_contained(path)
    return sorted(paths)


def set_aside_of(warehouse: str | os.PathLike[str], topic: str) -> list[str]:
    """Where the tables of deleted topics of that name wait, but for those that the
    version before set aside. An id has no hyphen, and names may have some."""
    root, wanted = os.fspath(warehouse), directory_name(topic)
    return [
        os.path.join(root, one)
        for one in sorted(os.listdir(root))
        if is_set_aside(one) and one.split("-", 2)[2:] == [wanted]
    ]


def is_set_aside(name: str) -> bool:
    """Whether a directory of the warehouse is where the table of a deleted topic
    waits."""
    return name.startswith(f"{_SET_ASIDE}-")


def _set_aside_name(topic_id: str) -> str:
    if not topic_id.isalnum():
        raise LocationRefused(f"{topic_id!r} is not a topic id")
    return f"{_SET_ASIDE}-{topic_id.lower()}"


def check_contained(path: str) -> None:
    """Raise LocationRefused if what stands at ``path`` lies elsewhere: not in its
    warehouse, nor in that further one which it names, or if that is not there."""
    warehouse = os.path.dirname(path)
    found = os.path.dirname(os.path.realpath(path))
    if found == os.path.realpath(warehouse):
        return
    name = further.named_by(path)
    if name is None or found != os.path.realpath(further.base_of(path, name)):
        raise LocationRefused(f"{path} does not lie in {warehouse}")
