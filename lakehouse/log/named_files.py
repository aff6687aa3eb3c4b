"""What an entry of another writer's names is on the disk before that entry is.

The problem: Spark and delta-rs sync nothing, so a power cut undoes what they did last,
its entry and its files. But our next commit syncs the entries that it stands on; and a
whole entry that names files without their bytes is a table that nobody can read, though
its rows may be nowhere else. So is a log whose old entries are gone, and the checkpoint
that stands for them has no bytes. The idea: the files first. The price: the first
commit of ours behind an owner's OPTIMIZE waits until the disk has all that it wrote,
and behind a RESTORE for a sync of each file: a second and a half for a thousand.

Source: the Delta transaction log protocol, "Add File and Remove File", "Add CDC File",
"Deletion Vectors", "Checkpoints"; Hadoop's ``ChecksumFileSystem``.
"""

import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from lakehouse.durable import SyncFailed, sync_directories, sync_or_write_anew
from lakehouse.errors import TableUnreadable
from lakehouse.files.deletion_vectors import INLINE, placed
from lakehouse.location import Names, path_inside
from lakehouse.log.actions import vector_of
from lakehouse.log.checkpoint import HINT, SIDECARS, complete_checkpoints, sidecars_of
from lakehouse.log.delta_log import LOG_DIRECTORY
from lakehouse.log.provenance import is_ours
from lakehouse.regular import NotAFile

Sync = Callable[[str], None]
_NAMING: Final = "add", "cdc"
_NOWHERE: Final = errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP
"""Nothing is there, whenever it is asked for."""
_ODD: Final = (ValueError, TypeError, AttributeError, KeyError, TableUnreadable)
"""What is raised of an action that is not as it should be: it names nothing then."""


def sync_named(
    root: str, text: bytes, done: set[str], sync: Sync = sync_or_write_anew
) -> None:
    """Flush the files that an entry of the table at ``root`` adds, and the directories
    on the way to them; ours were before it was made. What lies elsewhere is another
    table's, and what we cannot open is passed over: a VACUUM took it, or it is not for
    us. ``done``: absolute paths that were, and are from now on. ``sync``: what flushes
    a file. Raises SyncFailed, and OSError where one could be opened at another time."""
    new = [path for path in named(root, text) if path not in done]
    _sync_all(root, new, sync)
    done.update(new)


def _sync_all(root: str, paths: Iterable[str], sync: Sync) -> None:
    """Flush those that can be opened, and their directories."""
    synced = [one for path in paths for one in _sync(path, sync)]
    if synced:
        below = [os.path.relpath(path, root) for path in synced]
        sync_directories(root, below, may_be_gone=True)


def sync_checkpoint(root: str, sync: Sync = sync_or_write_anew) -> None:
    """Flush the newest checkpoint of the table's log, if the hint to it is another than
    at the last call: whoever wrote it may have cleaned away what is below, which the
    next sync of the directory makes last. ``sync``: what flushes a file. Raises as
    `sync_named`."""
    log = os.path.join(root, LOG_DIRECTORY)
    hint = _look_of(os.path.join(log, HINT))
    if hint is not None and hint == _hints.get(root):
        return
    for _, names in complete_checkpoints(os.listdir(log))[:1]:
        with suppress(ValueError):  # who reads it tells what is wrong with it
            more = [path for name in names for path in sidecars_of(log, name)]
            names = [*names, *(f"{SIDECARS}/{name}" for name in more)]
        _sync_all(log, [os.path.join(log, name) for name in names], sync)
    _sync(os.path.join(log, HINT), sync)
    if hint is not None:
        _hints[root] = hint


_hints: dict[str, tuple[int, int]] = {}
"""Table -> the hint to its newest checkpoint, as it was when that was synced."""


def _look_of(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _sync(path: str, sync: Sync) -> list[str]:
    """Flush a file and its `sum_of`; those that could be opened."""
    return [one for one in (path, sum_of(path)) if sync_opened(one, sync)]


def sync_opened(path: str, sync: Sync = sync_or_write_anew) -> bool:
    """Flush a file if it is one, is there, and we may open it; whether it was."""
    try:
        sync(path)
    except SyncFailed:
        raise
    except (NotAFile, PermissionError, ValueError):  # a name with a null byte
        return False
    except OSError as error:
        if error.errno not in _NOWHERE:
            raise
        return False
    return True


def sum_of(path: str) -> str:
    """The file beside one in which Hadoop notes the sums of its bytes: its readers
    refuse a file whose sums are cut off, and take one without."""
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{name}.crc")


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
