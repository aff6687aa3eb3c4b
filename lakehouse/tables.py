"""The life of a table: created for a topic, repaired after a power cut, set aside.

The problem: a topic's directory may hold the table of an earlier topic of the same
name; a creation may have been cut short; and the last log entries may be torn, since
whoever wrote them did not sync them. The idea: the table's properties say whose it is,
and nothing is ever overwritten: what is not ours is moved to where the deleted wait.

Used by the compactor's process only; everything here blocks.

A table that lies in a further warehouse (`lakehouse.further`) is set aside there. The
link in its place is made before anything stands behind it, and goes after that has: who
is killed in between leaves a link that leads to nothing, and no table that none leads
to.
"""

import errno
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from itertools import count, takewhile
from typing import Final

import deltalake
from deltalake.exceptions import DeltaError

from lakehouse import further, properties
from lakehouse.durable import sync_directory, sync_file
from lakehouse.errors import (
    CommitRefused,
    LocationRefused,
    LogDamaged,
    TableMissing,
)
from lakehouse.location import (
    set_aside_path,
    set_aside_paths,
    table_path,
    table_place,
)
from lakehouse.log.blank import fill_last
from lakehouse.log.delta_log import (
    LOG_DIRECTORY,
    Snapshot,
    entry_path,
    entry_versions,
    load,
)
from lakehouse.log.log_store import drop_left
from lakehouse.log.replaced import why_replaced
from lakehouse.log.torn import are_torn, is_blank
from lakehouse.schema import DESCRIBED, PARTITION_COLUMN
from lakehouse.topic_facts import TopicFacts, properties_of
from lakehouse.warehouse_names import name_of

_CREATE = 0
_OCCUPIED: Final = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
_UNBORN: Final = re.compile(r"0{20}\.json(#\d+|\.torn)")
"""A first entry that nobody has seen: as the library writes it, or put aside."""


def create_table(
    warehouse: str,
    topic: str,
    topic_id: str,
    partitions: int,
    *,
    number: int | None = None,
    configs: Mapping[str, str] | None = None,
) -> str:
    """Make sure that the topic has its table, durably; its path. ``topic_id`` is 32 hex
    digits; what is left out the table does not say, see `lakehouse.topic_facts`. A new
    one is made in the further warehouse that ``configs`` name.

    A table of an earlier topic of that name is set aside. Raises CommitRefused when the
    place is taken (`why_taken`);
    LocationRefused as `table_path`, and if its further warehouse is not there.
    """
    path, name = table_path(warehouse, topic), name_of(configs)
    for _ in range(2 if name else 1):  # what lost its link is seen when it has one
        found = _present(path)
        if found is not None and found.topic_id == topic_id:
            return path
        if found is not None:
            _make_room(warehouse, path, topic, topic_id, found)
        _take_place(path, name)
    drop_left(path, _CREATE)
    _create(path, TopicFacts(topic, topic_id, partitions, number, configs))
    sync_file(entry_path(path, _CREATE))
    for directory in (os.path.join(path, LOG_DIRECTORY), path, warehouse):
        sync_directory(directory)
    return path


def _take_place(path: str, name: str) -> None:
    """Have a directory at ``path``, which lies in the further warehouse ``name``."""
    if not name:
        further.lead(path, None)
        os.makedirs(path, exist_ok=True)
        return
    base = further.base_of(path, name)
    os.makedirs(os.path.join(base, os.path.basename(path)), exist_ok=True)
    sync_directory(base)
    _drop_unborn(path)
    further.lead(path, name)


def _drop_unborn(path: str) -> None:
    """Make room where a creation was cut short before its first entry: it left that in
    the making, and nothing else. Where anything else stands nothing is touched."""
    log = os.path.join(path, LOG_DIRECTORY)
    if os.path.islink(path) or os.path.islink(log) or not os.path.isdir(log):
        return
    found = os.listdir(log)
    if os.listdir(path) != [LOG_DIRECTORY] or not all(map(_UNBORN.fullmatch, found)):
        return
    for name in found:
        os.unlink(os.path.join(log, name))
    os.rmdir(log)


def _present(path: str) -> Snapshot | None:
    try:
        return load(path)
    except TableMissing:
        repair(path)
        return None


def _make_room(
    warehouse: str, path: str, topic: str, topic_id: str, found: Snapshot
) -> None:
    """Set aside what is in a topic's place. Raises CommitRefused if it is to stay."""
    why = why_taken(path, topic, topic_id, found)
    if why is not None:
        raise CommitRefused(why)
    assert found.topic_id is not None
    set_aside(warehouse, path, topic, found.topic_id)


def why_taken(path: str, topic: str, topic_id: str, found: Snapshot) -> str | None:
    """Why the table in a topic's place, which is not the topic's, stays there: it was
    until its owner replaced it, or it is no topic's, or another topic's; None: it is
    that of an earlier topic of that name, which makes room."""
    replaced = why_replaced(found, topic_id)
    if replaced is not None:
        return replaced
    away = "move it away, and the next round makes its own"
    if not found.topic_id:
        return f"{path} holds a table that is no topic's: {away}"
    whose = found.configuration.get(properties.TOPIC)
    if whose != topic:
        return f"{path} holds the table of topic {whose}, or a clone of it: {away}"
    return None


def _create(path: str, facts: TopicFacts) -> None:
    try:
        deltalake.DeltaTable.create(
            path,
            deltalake.Schema.from_arrow(DESCRIBED),
            partition_by=[PARTITION_COLUMN],
            name=facts.name,
            description=f"The records of the Kafka topic {facts.name}",
            configuration=properties.DELTA | properties_of(facts),
            raise_if_key_not_exists=False,
        )
    except DeltaError as error:
        if load(path).topic_id != facts.id:  # another compactor may have been faster
            raise CommitRefused(f"{path}: {error}") from error


def set_aside(warehouse: str, path: str, topic: str, topic_id: str) -> str | None:
    """Move a deleted topic's table out of the way; where to, None if it has none."""
    base = further.base_of(path, further.named_by(path))
    target = set_aside_path(base, topic, topic_id)
    try:
        os.rename(os.path.join(base, os.path.basename(path)), target)
    except FileNotFoundError:
        return None
    sync_directory(base)
    further.lead(path, None)
    return target


def leave_place(warehouse: str, topic: str, topic_id: str, name: str = "") -> None:
    """Set the table of a deleted topic aside, if it still stands in its place, or in
    the further warehouse ``name`` that it was configured for, if its link was lost. In
    others it would be an owner's copy. A link that leads to nothing goes: the next
    topic of that name needs the place."""
    _drop_dead_link(warehouse, table_place(warehouse, topic))
    path = table_path(warehouse, topic)
    lost = further.unled(path).get(name)
    for one in (path, lost):
        if one is not None and _is_of(one, topic_id):
            set_aside(warehouse, one, topic, topic_id)


def lead_again(warehouse: str, topic: str, topic_id: str, name: str) -> bool:
    """Make the link to a topic's table in the further warehouse ``name`` again, if it
    is lost; was it? Raises CommitRefused if somebody makes something there, too."""
    if find_lost(warehouse, topic, topic_id, name) is None:
        return False
    further.lead(table_place(warehouse, topic), name)
    return True


def find_lost(warehouse: str, topic: str, topic_id: str, name: str) -> str | None:
    """Where a topic's table lies in the further warehouse ``name``, if nothing stands
    in its place, which should lead there."""
    path = table_place(warehouse, topic)
    if not name or os.path.lexists(path):
        return None
    lost = further.unled(path).get(name)
    return lost if lost is not None and _is_of(lost, topic_id) else None


def _is_of(path: str, topic_id: str) -> bool:
    """Whether a topic's table is there. One that is damaged is not known to be its."""
    try:
        return load(path).topic_id == topic_id
    except (TableMissing, LogDamaged):
        return False


def take_back(warehouse: str, topic: str, topic_id: str) -> str:
    """Put the table of a deleted topic back in its place, if it left it; its path.

    Raises TableMissing when there is none, LogDamaged when it cannot be told what it
    has, CommitRefused as `create_table` does, and if anything else stands in its place;
    LocationRefused if it may wait in a further warehouse that is not there.
    """
    path = table_path(warehouse, topic)
    found = _present(path) if os.path.isdir(path) else None
    if found is not None and found.topic_id == topic_id:
        return path
    name, waiting = _waiting(warehouse, topic_id, path)
    if found is not None:
        _make_room(warehouse, path, topic, topic_id, found)
    _drop_unborn(path)
    further.lead(path, name)
    base = further.base_of(path, name)
    _move_in(waiting, os.path.join(base, os.path.basename(path)))
    sync_directory(base)
    return path


def _move_in(waiting: str, place: str) -> None:
    """Put a table where nothing is but an empty directory. What else is there came
    after the table had left (of an engine that had read it before, for example), and is
    somebody's to look at: of no commit, and maybe the only copy."""
    try:
        os.rename(waiting, place)
    except OSError as error:
        if error.errno not in _OCCUPIED:
            raise
        raise CommitRefused(
            f"{os.path.realpath(place)} is in the way, with files that no table has: "
            "move it away, and do this again"
        ) from error


def _waiting(warehouse: str, topic_id: str, path: str) -> tuple[str, str]:
    """Where a deleted topic's table waits, and can be read, and in which warehouse; it
    may have lost the link from its place ``path`` before it was set aside."""
    for name, base in _bases(warehouse).items():
        for waiting in reversed(set_aside_paths(base, topic_id)):
            with suppress(TableMissing):  # what `drop` began with is none any more
                load(waiting)
                return name, waiting
    for name, lost in further.unled(path).items():
        if _is_of(lost, topic_id):
            return name, lost
    for name in further.names(warehouse):
        why = further.why_not(warehouse, name)
        if why is not None:
            raise LocationRefused(why)
    raise TableMissing(f"no table of topic id {topic_id} is left in {warehouse}")


def drop(warehouse: str, topic: str, topic_id: str, name: str = "") -> bool:
    """Delete the table of a deleted topic wherever it stands; was there one?

    ``name``: the further warehouse that the topic was configured for. Raises
    LocationRefused if that is not there, unless it was given up: there is no link to it
    any more.
    """
    why = further.why_not(warehouse, name)
    if why is not None and name in further.names(warehouse):
        raise LocationRefused(why)
    leave_place(warehouse, topic, topic_id, name)
    bases = _bases(warehouse).values()
    waiting = [path for base in bases for path in set_aside_paths(base, topic_id)]
    for path in waiting:
        _drop_log(path)
        shutil.rmtree(path)
    for base in bases:
        sync_directory(base)
    return bool(waiting)


def _drop_dead_link(warehouse: str, path: str) -> None:
    """Of a table that was set aside when a kill came, or that lay in a warehouse that
    was given up."""
    name = further.named_by(path)
    if name is None:
        return
    is_given_up = name not in further.names(warehouse)
    is_there = further.why_not(warehouse, name) is None
    if is_given_up or (is_there and not os.path.exists(path)):
        further.lead(path, None)


def _bases(warehouse: str) -> dict[str, str]:
    """Name -> directory of each warehouse that is there; the first has none."""
    return {"": warehouse, **further.present(warehouse)}


def _drop_log(path: str) -> None:
    """From now on this is no table: who is killed while files go leaves none of which
    some are missing."""
    log = os.path.join(path, LOG_DIRECTORY)
    with suppress(FileNotFoundError):
        os.rename(log, f"{log}.dropped")
    sync_directory(path)


def repair(path: str) -> str | None:
    """Move torn last log entries aside, without what their writers noted of them; one
    sentence if there was one. The last goes first: there is no hole at any time.

    Such entries were never synced, so nothing relied on them: the segments behind them
    are still there, and the next round commits their records again. Readers may have
    passed those that are empty, up to the first that is not: these keep their versions,
    see `lakehouse.log.blank`. Nobody opens a table whose first entry is empty.
    """
    snapshot: Snapshot | None = None
    try:
        snapshot = load(path)
        torn, version = snapshot.torn, snapshot.version + 1
    except TableMissing:
        version, torn = 0, "the first log entry is torn"
    gone = [one for one in entry_versions(path) if one >= version]
    # Looked at once more: what an owner made since is not torn.
    if torn is None or not gone or not are_torn(entry_path(path, n) for n in gone):
        return None
    kept = 0 if snapshot is None else _count_blank(path, version)
    for one in reversed(gone[kept:]):
        _stash(path, one)
    if snapshot is not None:
        fill_last(snapshot, kept)
    return torn


def _count_blank(path: str, version: int) -> int:
    """How many empty entries stand in a row, from a version on."""
    entries = (entry_path(path, one) for one in count(version))
    return sum(1 for _ in takewhile(is_blank, entries))


def _stash(path: str, version: int) -> None:
    entry = entry_path(path, version)
    os.replace(entry, f"{entry}.torn")
    if not drop_left(path, version):
        sync_directory(os.path.join(path, LOG_DIRECTORY))
