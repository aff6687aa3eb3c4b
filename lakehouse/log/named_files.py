"""What an entry of another writer's names is on the disk before that entry is.

The problem: Spark and delta-rs sync nothing, so a power cut undoes what they did last,
its entry and its files. But our next commit syncs the entries that it stands on; and a
whole entry that names files without their bytes is a table that nobody can read, though
its rows may be nowhere else. The idea: the files first. The price: the first commit of
ours behind an owner's OPTIMIZE waits until the disk has all that it wrote.

Source: the Delta transaction log protocol, "Add File and Remove File", "Add CDC File",
"Deletion Vectors".
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from lakehouse.durable import sync_directories, sync_or_write_anew
from lakehouse.errors import TableUnreadable
from lakehouse.files.deletion_vectors import INLINE, placed
from lakehouse.location import Names, path_inside
from lakehouse.log.actions import vector_of
from lakehouse.log.provenance import is_ours
from lakehouse.regular import NotAFile

_NAMING: Final = "add", "cdc"
_ODD: Final = (ValueError, TypeError, AttributeError, KeyError, TableUnreadable)
"""What is raised of an action that is not as it should be: it names nothing then."""


def sync_named(root: str, text: bytes) -> None:
    """Flush the files that an entry of the table at ``root`` adds, and the directories
    on the way to them; ours were before it was made. What lies elsewhere is another
    table's, and what cannot be opened (a VACUUM took it) is for nobody to read. Raises
    SyncFailed, and OSError where a file could be opened at another time."""
    synced = []
    for path in named(root, text):
        with suppress(FileNotFoundError, PermissionError, NotAFile):
            sync_or_write_anew(path)
            synced.append(os.path.relpath(path, root))
    if synced:
        sync_directories(root, synced)


def named(root: str, text: bytes) -> list[str]:
    """The absolute paths of the files in the table that an entry adds, those of change
    data and of deletion vectors too; none of an entry of ours, or of a torn one."""
    names, found = Names(root), list[str]()
    with suppress(ValueError):
        lines = [] if is_ours(text.decode()) else text.splitlines()
        for action in map(json.loads, filter(bytes.strip, lines)):
            with suppress(*_ODD):
                found.extend(_of_action(root, names, action))
    return list(dict.fromkeys(found))  # a vector's file may be of many


def _of_action(root: str, names: Names, action: Mapping[str, Any]) -> Iterator[str]:
    for body in filter(None, map(action.get, _NAMING)):
        path = path_inside(root, names.below(body["path"]))
        if path is not None:
            yield path
        vector = placed(root, vector_of(body.get("deletionVector")))
        if vector is not None and vector.storage != INLINE:
            yield vector.place
