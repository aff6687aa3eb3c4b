"""What a checkpoint tells of files that left: each as long as its table's owner says.

The problem: older versions can be read for as long as the files that left are known to
have left; who finds no trace of that in the log, a VACUUM or we, takes their age for
the time since. The library leaves out of a checkpoint what left a week ago if the owner
says that time in other words than its own ('60 days', 'INTERVAL 60 DAYS'). The idea: by
our own reading of his words, what left is collected from where the library had it (the
checkpoint before, the entries since), and what its checkpoint lacks is put in. The
checkpoint before may be an owner's, which forgot as much: so the last of ours is where
it begins.

The price: the entries since, and an owner's, are read once more, and where something
lacks the checkpoint is written twice.

Source: the Delta transaction log protocol, "Add File and Remove File", "Action
Reconciliation". Used by the compactor's process only; everything here blocks.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.durable import put_in_place
from lakehouse.errors import LakehouseError
from lakehouse.log.checkpoint import HINT, SIDECARS, sidecars_of
from lakehouse.log.checksums import NotAsWritten, noted, read_verified
from lakehouse.log.delta_log import LOG_DIRECTORY, checkpoints, read_entry
from lakehouse.regular import check_file, open_file

REACH: Final = 10_000
"""So many entries are read before an owner's checkpoint, back to the last of ours: half
a second. What left earlier is told as far as these two checkpoints tell it."""

_ACTIONS: Final = (b'"remove"', b'"add"')
_UNREADABLE: Final = (
    OSError, LakehouseError, ValueError, LookupError, TypeError, AttributeError,
)  # fmt: skip
"""What an entry may be below a checkpoint, which is there in its place."""
_MAPS: Final = "partitionValues", "tags"
_Key = tuple[str, str | None]
"""A file's path, and what its deletion vector is called."""
Removes = dict[_Key, dict[str, Any]]


def complete(
    path: str, version: int, known: Mapping[str, int], since_ms: int, *, followed: int
) -> int | None:
    """See to it that the checkpoint of a version, one file, tells what had left by then
    and later than ``since_ms``, as the log tells it or by what is ``known`` (path ->
    when) at the version that was ``followed``. How many files that had to be told;
    None: none.

    Raises ValueError where the log cannot be read, and OSError.
    """
    try:
        wanted = _young(removes_at(path, version), since_ms)
        decided = {one for one, _ in wanted}
        # What leaves later was there at the version.
        decided |= _removed_later(path, version, followed)
        for one, when in known.items():
            if when > since_ms and one not in decided:
                wanted[one, None] = _remove(one, when)
        return _put_in(path, version, wanted) if wanted else None
    except (pa.ArrowException, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: what left cannot be told: {error!r}") from error


def _remove(path: str, when_ms: int) -> dict[str, Any]:
    return {"path": path, "deletionTimestamp": when_ms, "dataChange": True}


def _young(removes: Removes, since_ms: int) -> Removes:
    return {
        key: body
        for key, body in removes.items()
        if int(body.get("deletionTimestamp") or 0) > since_ms
    }


def removes_at(path: str, version: int) -> Removes:
    """What the log tells to have left up to a version, others' checkpoints on the way
    or not. Raises ValueError where neither entries nor an owner's checkpoint tell what
    left up to the newest checkpoint; entries missing behind that are passed over.

    What came back where no entry is read may be in it too.
    """
    directory = os.path.join(path, LOG_DIRECTORY)
    below = {at: names for at, names in checkpoints(path).items() if at < version}
    newest = max(below, default=-1)
    at, found = _in_ours(directory, below) or (-1, Removes())
    after = max(at, newest - REACH)
    is_whole = _follow(found, path, after, newest, _UNREADABLE) and after == at
    try:  # an owner's may tell what ours had forgotten
        found |= _in_checkpoint(directory, below[newest]) if newest > at else {}
    except (*_UNREADABLE, pa.ArrowException):
        if not is_whole:
            raise
    _follow(found, path, newest, version)
    return found


def _in_ours(
    directory: str, below: Mapping[int, list[str]]
) -> tuple[int, Removes] | None:
    """The version of the newest checkpoint of ours that is as it was written, and what
    it tells."""
    known = noted(directory)
    for at, (name, *parts) in below.items():
        if parts or name not in known or not known[name].is_ours:
            continue
        with suppress(NotAsWritten, OSError):
            data = read_verified(os.path.join(directory, name), known[name])
            return at, {_key(body): body for body in _rows(pa.BufferReader(data))}
    return None


def _follow(
    found: Removes,
    path: str,
    after: int,
    to: int,
    passed_over: tuple[type[Exception], ...] = (FileNotFoundError,),
) -> bool:
    """Move on by the entries behind a version; whether none had to be passed over."""
    is_whole = True
    for version in range(after + 1, to + 1):
        try:
            _apply(found, read_entry(path, version))
        except passed_over:
            is_whole = False
    return is_whole


def _removed_later(path: str, version: int, followed: int) -> set[str]:
    """What the entries behind a version remove."""
    found = Removes()
    for following in range(version + 1, followed + 1):
        removed = Removes()
        _apply(removed, read_entry(path, following), with_adds=False)
        found |= removed
    return {one for one, _ in found}


def _apply(found: Removes, entry: bytes, *, with_adds: bool = True) -> None:
    """Move on by one entry, whose actions have no order."""
    lines = [line for line in entry.split(b"\n") if any(a in line for a in _ACTIONS)]
    actions = [json.loads(line) for line in lines]
    for action in actions:
        if action.get("remove"):
            found[_key(action["remove"])] = action["remove"]
    for action in actions if with_adds else ():
        if action.get("add"):
            found.pop(_key(action["add"]), None)


def _key(body: Mapping[str, Any]) -> _Key:
    vector = body.get("deletionVector")
    if vector is None:
        return body["path"], None
    name = f"{vector['storageType']}{vector['pathOrInlineDv']}"
    return body["path"], f"{name}@{vector.get('offset')}"


def _in_checkpoint(directory: str, names: Iterable[str]) -> Removes:
    """What a checkpoint tells, and its sidecars. Raises ValueError."""
    found = Removes()
    for name in names:
        sidecars = sidecars_of(directory, name)
        for one in (name, *(os.path.join(SIDECARS, each) for each in sidecars)):
            place = os.path.join(directory, one)
            found |= {_key(body): body for body in _in_file(place)}
    return found


def _in_file(place: str) -> Iterator[dict[str, Any]]:
    if place.endswith(".json"):
        with open_file(place) as lines:
            said = [json.loads(line) for line in lines if line.strip()]
        yield from (one["remove"] for one in said if one.get("remove"))
        return
    check_file(place)
    yield from _rows(place)


def _rows(source: Any) -> Iterator[dict[str, Any]]:
    """What a file in Parquet tells to have left."""
    with pq.ParquetFile(source) as file:
        if "remove" not in file.schema_arrow.names:
            return
        table: Any = file.read(columns=["remove"], use_threads=False)
    yield from table.column("remove").drop_null().to_pylist()


def _live_in(place: str) -> Iterator[_Key]:
    with pq.ParquetFile(place) as file:
        table: Any = file.read(columns=["add"], use_threads=False)
    yield from (_key(body) for body in table.column("add").drop_null().to_pylist())


def _put_in(path: str, version: int, wanted: Removes) -> int | None:
    """Write the checkpoint anew with what it lacks, if it lacks any."""
    directory = os.path.join(path, LOG_DIRECTORY)
    place = os.path.join(directory, f"{version:020d}.checkpoint.parquet")
    there = {_key(body) for body in _in_file(place)}
    live = set(_live_in(place))  # of one file it tells one thing
    lacking = [
        _row(body)
        for key, body in wanted.items()
        if key not in there and key not in live
    ]
    if not lacking:
        return None
    with pq.ParquetFile(place) as file:
        table = file.read(use_threads=False)
    none = [None] * len(lacking)  # not pa.nulls: what must be there inside is then
    more = [
        pa.array(lacking if field.name == "remove" else none, field.type)
        for field in table.schema
    ]
    whole = pa.concat_tables([table, pa.table(more, schema=table.schema)])
    put_in_place(place, lambda written: pq.write_table(whole, written))
    _hint(directory, version, len(whole), os.path.getsize(place))
    return len(lacking)


def _row(body: Mapping[str, Any]) -> dict[str, Any]:
    """As Arrow takes it."""
    maps = {name: body[name] for name in _MAPS if body.get(name) is not None}
    return {**body, **{name: list(dict(said).items()) for name, said in maps.items()}}


def _hint(directory: str, version: int, rows: int, size: int) -> None:
    """What names the newest checkpoint says how large it is."""
    place = os.path.join(directory, HINT)
    with suppress(FileNotFoundError):
        with open_file(place) as file:
            said = json.loads(file.read())
        if said.get("version") != version:
            return
        said.pop("checksum", None)  # of what it said before
        text = json.dumps(said | {"size": rows, "sizeInBytes": size})
        put_in_place(place, lambda written: Path(written).write_text(text, "utf-8"))
