"""One entry of a Delta log, parsed: what it adds, removes and says of the table.

The problem: following the log costs a fifth of a millisecond a commit if the JSON is
read as it is, and a hundred times that through a library that loads the whole table.
The idea: parse the actions that matter here, skip the rest, and leave the judgement
(can this be read?) to one function.

Source: the Delta transaction log protocol, "Actions".
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import unquote

from lakehouse.column_names import value_of
from lakehouse.errors import LogDamaged
from lakehouse.location import Names
from lakehouse.properties import CLEANED, ERASED, LOG_START, MERGED, RANGES, ROWS

UNKNOWN_MIN = -(1 << 63)
UNKNOWN_MAX = (1 << 63) - 1
NO_PARTITION = -(1 << 64)
"""Of a file whose partition is null: an owner's column, which may be a long, holds any
smaller number."""
ODD_PARTITION = NO_PARTITION - 1
"""Of a file whose partition its owner wrote otherwise than numbers are written."""
_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_INTS = range(-(1 << 31), 1 << 31)
_NO_TIME = -1
"""What a record without a timestamp has in its place, for Kafka's clients."""

COLUMNS = {
    "partition", "offset", "timestamp", "timestampType", "key", "value", "headers",
}  # fmt: skip
"""What is read of a table; whatever else it has does not matter."""
_OURS = {RANGES, LOG_START, CLEANED}
REQUEST = "request"
"""One of these is in the ``commitInfo`` of whatever of ours changes rows."""
PHYSICAL_NAME = "delta.columnMapping.physicalName"
_NONSENSE = ValueError, TypeError, AttributeError, OverflowError
"""What reading a value raises that is not what it should be: JSON knows Infinity."""


class Vector(NamedTuple):
    """A deletion vector as an ``add`` names it: it never changes."""

    storage: str
    place: str
    offset: int | None
    size: int
    cardinality: int

    @property
    def body(self) -> dict[str, Any]:
        """As the log has it."""
        where = {} if self.offset is None else {"offset": self.offset}
        kind = {"storageType": self.storage, "pathOrInlineDv": self.place}
        size = {"sizeInBytes": self.size, "cardinality": self.cardinality}
        return {**kind, **where, **size}


class DataFile(NamedTuple):
    """A data file of the table, as its ``add`` tells it.

    Offsets are inclusive. What the statistics do not say is as wide as it can be, so
    that a search never passes over the file.
    """

    path: str
    """As the log has it: the identity of the file."""
    partition: int
    size: int
    rows: int
    """Those that are there: without what a deletion vector takes; -1: not known."""
    first_offset: int
    last_offset: int
    timestamp_min_ms: int
    timestamp_max_ms: int
    modified_ms: int
    vector: Vector | None = None
    """Which of its rows are deleted."""
    is_timed: bool = False
    """Whether some record is stamped ``timestamp_min_ms`` or later, for sure: none of
    its rows lacks an offset, or none a timestamp."""
    name: str | None = None
    """Its path below the table's directory, if the log names it by where it lies."""

    @property
    def relative_path(self) -> str:
        """Below the table's directory (the log has it percent-encoded)."""
        return unquote(self.path) if self.name is None else self.name

    def of_table(self, names: Names) -> "DataFile":
        """The same as the log of the table with these names means it."""
        name = names.by_place(self.path)
        return self if name is None else self._replace(name=name)

    @property
    def is_bounded(self) -> bool:
        """Whether its statistics say which offsets it holds."""
        return self.last_offset != UNKNOWN_MAX


class Cleaned(NamedTuple):
    """What key compaction did in [first_offset, end_offset): so many files with so many
    rows left, and so many of these rows stay."""

    first_offset: int
    end_offset: int
    files: int
    rows: int
    kept: int


class Erased(NamedTuple):
    """What `lakelog erase` did: so many files left, so many of their rows stay, and so
    many do not."""

    files: int
    kept: int
    rows: int


class Protocol(NamedTuple):
    reader: int = 1
    writer: int = 2
    reader_features: tuple[str, ...] = ()
    writer_features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Metadata:
    id: str
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]
    schema_string: str
    name: str | None = None
    description: str | None = None
    created_ms: int | None = None

    @property
    def body(self) -> dict[str, Any]:
        """As the log has it. All tables are of Parquet files without options."""
        optional = {
            "name": self.name,
            "description": self.description,
            "createdTime": self.created_ms,
        }
        return {key: value for key, value in optional.items() if value is not None} | {
            "id": self.id,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": self.schema_string,
            "partitionColumns": list(self.partition_columns),
            "configuration": dict(self.configuration),
        }


@dataclass(slots=True)
class Commit:
    """The actions of one log entry; of a checkpoint (``is_state``) all that made it.

    ``removes``: path -> deletion time, ms.
    """

    version: int
    adds: list[DataFile] = field(default_factory=list)
    removes: dict[str, int] = field(default_factory=dict)
    transactions: dict[str, int] = field(default_factory=dict)
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    info: dict[str, Any] = field(default_factory=dict)
    changes_data: bool = False
    """Whether an action says that rows are added or removed, not only moved."""
    is_state: bool = False

    def take_out(self, path: str, when_ms: int) -> None:
        """A file left: as often as its deletion vector changed, and the last time
        counts."""
        self.removes[path] = max(when_ms, self.removes.get(path, when_ms))

    @property
    def is_owners(self) -> bool:
        """Whether it changes rows and is no commit of the compactor's."""
        return self.changes_data and self.info.keys().isdisjoint(_OURS)

    @property
    def ranges(self) -> dict[int, tuple[int, int]]:
        """Partition -> [first offset, end offset) that this commit says it added; none
        if what it says is nothing that the compactor would."""
        said = self.info.get(RANGES) or {}
        try:
            return {int(p): (int(pair[0]), int(pair[1])) for p, pair in said.items()}
        except (*_NONSENSE, LookupError):
            return {}

    @property
    def rows(self) -> dict[int, int]:
        """Partition -> records that the log held in its range, if the commit says."""
        said = self.info.get(ROWS) or {}
        try:
            return {int(key): int(count) for key, count in said.items()}
        except _NONSENSE:
            return {}

    @property
    def merged(self) -> dict[int, tuple[int, int]]:
        """Partition -> (files that leave, rows that they hold), if this only moves rows
        from file to file and is the compactor's."""
        said = self.info.get(MERGED) or {}
        try:
            return {int(p): (int(pair[0]), int(pair[1])) for p, pair in said.items()}
        except (ValueError, TypeError, AttributeError, LookupError):
            return {}

    @property
    def cleaned(self) -> dict[int, "Cleaned"]:
        """Partition -> what left it for its keys' sake, if this is key compaction."""
        said = self.info.get(CLEANED) or {}
        try:
            return {int(p): Cleaned(*map(int, counts)) for p, counts in said.items()}
        except (*_NONSENSE, LookupError):
            return {}

    @property
    def erased(self) -> dict[int, Erased]:
        """Partition -> what left it because somebody asked for that."""
        said = self.info.get(ERASED) or {}
        try:
            return {
                int(p): Erased(*map(int, counts))
                for p, counts in said.items()
                if p != REQUEST
            }
        except (*_NONSENSE, LookupError):
            return {}

    @property
    def miscounted(self) -> int | None:
        """A partition whose files are not those that the compactor counted: an entry
        has no checksum, so a damaged letter may hide a file or rows of it. None: there
        is none, or nothing was counted."""
        if MERGED in self.info:
            return self._misreplaced(self.merged)
        if CLEANED in self.info:
            cleaned = self.cleaned.items()
            return self._misreplaced({p: (one.files, one.kept) for p, one in cleaned})
        if ERASED in self.info:
            erased = self.erased.items()
            return self._misreplaced({p: (one.files, one.kept) for p, one in erased})
        return self._misadded

    def _misreplaced(self, merged: Mapping[int, tuple[int, int]]) -> int | None:
        held = dict.fromkeys(merged, 0)
        for file in self.adds:
            if file.rows < 0:
                return None
            partition = reported(file.partition)
            held[partition] = held.get(partition, 0) + file.rows
        gone = sum(files for files, _ in merged.values())
        for partition, rows in held.items():
            wanted = merged.get(partition, (0, 0))[1]
            if rows != wanted or gone != len(self.removes):
                return partition
        return None

    @property
    def _misadded(self) -> int | None:
        left, ranges = self.rows, self.ranges
        if not (left and ranges):
            return None
        for file in self.adds:
            first, end = ranges.get(file.partition, (0, 0))
            is_inside = first <= file.first_offset and file.last_offset < end
            if file.is_bounded and not (
                is_inside and file.rows <= file.last_offset - file.first_offset + 1
            ):
                return file.partition
            left[file.partition] = left.get(file.partition, 0) - file.rows
        if any(file.rows < 0 for file in self.adds):
            return None
        return next((partition for partition, rows in left.items() if rows), None)


def parse_commit(version: int, text: bytes) -> Commit:
    """The actions of one JSON log entry.

    Raises ValueError if it is torn, and LogDamaged if it is whole and says what nobody
    can understand: that is its owner's, and not to be moved away.
    """
    commit, actions = Commit(version), _actions(text)
    try:
        for action in actions:
            for name, body in action.items():
                apply = _ACTIONS.get(name)
                if apply is not None and body is not None:
                    apply(commit, body)
    except (*_NONSENSE, KeyError) as error:
        raise LogDamaged(
            f"log entry {version} cannot be understood: {error!r}"
        ) from error
    return commit


def _actions(text: bytes) -> list[dict[str, Any]]:
    """The lines of an entry, each an object. Raises ValueError."""
    actions = [json.loads(line) for line in text.split(b"\n") if line.strip()]
    if not actions:
        raise ValueError("the entry is empty")
    if not all(isinstance(action, dict) for action in actions):
        raise ValueError("an action is not an object")
    return actions


def _add(commit: Commit, body: Mapping[str, Any]) -> None:
    commit.adds.append(data_file(body))
    commit.changes_data |= body.get("dataChange") is not False


def _remove(commit: Commit, body: Mapping[str, Any]) -> None:
    commit.take_out(body["path"], int(body.get("deletionTimestamp") or 0))
    commit.changes_data |= body.get("dataChange") is not False


def _transaction(commit: Commit, body: Mapping[str, Any]) -> None:
    commit.transactions[body["appId"]] = int(body["version"])


def _protocol(commit: Commit, body: Mapping[str, Any]) -> None:
    commit.protocol = protocol_of(body)


def _metadata(commit: Commit, body: Mapping[str, Any]) -> None:
    commit.metadata = metadata_of(body)


def _info(commit: Commit, body: Mapping[str, Any]) -> None:
    commit.info = dict(body)


_ACTIONS = {
    "add": _add,
    "remove": _remove,
    "txn": _transaction,
    "protocol": _protocol,
    "metaData": _metadata,
    "commitInfo": _info,
}


def data_file(body: Mapping[str, Any]) -> DataFile:
    """A file from an ``add``. Raises KeyError or ValueError if it is not one.

    ``stats_columns``: what a checkpoint says in columns, if not in ``stats``; times in
    microseconds.
    """
    stats = body.get("stats_columns") or json.loads(body.get("stats") or "{}")
    low, high = stats.get("minValues") or {}, stats.get("maxValues") or {}
    partition = value_of(dict(body.get("partitionValues") or ()), "partition")
    vector = vector_of(body.get("deletionVector"))
    first, last = value_of(low, "offset"), value_of(high, "offset")
    known = first is not None and last is not None
    bounds = (_NO_TIME, _NO_TIME) if _is_timeless(stats) else (UNKNOWN_MIN, UNKNOWN_MAX)
    return DataFile(
        path=body["path"],
        partition=partition_of(partition),
        size=int(body["size"]),
        rows=_rows(stats, vector),
        first_offset=int(first) if known else UNKNOWN_MIN,
        last_offset=int(last) if known else UNKNOWN_MAX,
        timestamp_min_ms=_milliseconds(value_of(low, "timestamp"), bounds[0]),
        timestamp_max_ms=_milliseconds(value_of(high, "timestamp"), bounds[1]),
        modified_ms=int(body.get("modificationTime") or 0),
        vector=vector,
        is_timed=0 in (_nulls(stats, "offset"), _nulls(stats, "timestamp")),
    )


def partition_of(said: object) -> int:
    """Which partition a log means; a negative one is no topic's, and nobody's matter.
    What Python takes for a number is none unless it is written so: 1_0 and +1 are
    other directories than 10 and 1."""
    if said is None or said == "":
        return NO_PARTITION
    return int(str(said)) if _NUMBER.fullmatch(str(said)) else ODD_PARTITION


def reported(partition: int) -> int:
    """A partition as histories and reports have it, which is an int: -1 stands for what
    is none, null or too large, as it always did."""
    return partition if partition in _INTS else -1


def _is_timeless(stats: Mapping[str, Any]) -> bool:
    """Whether no row has a timestamp, as an owner may leave them."""
    without = _nulls(stats, "timestamp")
    return without is not None and without == stats.get("numRecords")


def _nulls(stats: Mapping[str, Any], column: str) -> int | None:
    """How many rows have nothing in a column; None: it is not known."""
    counts = stats.get("nullCount")
    return value_of(counts, column) if isinstance(counts, dict) else None


def _rows(stats: Mapping[str, Any], vector: Vector | None) -> int:
    """``numRecords`` counts what a file holds, deleted or not."""
    held = stats.get("numRecords")
    deleted = 0 if vector is None else vector.cardinality
    return -1 if held is None or deleted < 0 else int(held) - deleted


def vector_of(body: Mapping[str, Any] | None) -> Vector | None:
    """What lacks is such that whoever reads the vector refuses it."""
    if body is None:
        return None
    offset, count = body.get("offset"), body.get("cardinality")
    return Vector(
        str(body.get("storageType")),
        str(body.get("pathOrInlineDv")),
        None if offset is None else int(offset),
        int(body.get("sizeInBytes") or 0),
        -1 if count is None else int(count),
    )


def _milliseconds(text: str | int | None, unknown: int) -> int:
    """ISO 8601 of the statistics, or microseconds -> ms since the epoch."""
    if isinstance(text, int):
        return text // 1000
    try:
        moment = datetime.fromisoformat(text or "")
        return _floor_ms(moment)
    except (ValueError, OverflowError):
        return unknown


def _floor_ms(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise ValueError("no zone")
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000


_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def protocol_of(body: Mapping[str, Any]) -> Protocol:
    """``protocol`` action -> what readers and writers must be able to do."""
    features, writers = (
        tuple(map(str, body.get(key) or ()))
        for key in ("readerFeatures", "writerFeatures")
    )
    reader, writer = int(body["minReaderVersion"]), int(body["minWriterVersion"])
    return Protocol(reader, writer, features, writers)


def metadata_of(body: Mapping[str, Any]) -> Metadata:
    """``metaData`` action -> the parts of it that matter here."""
    configuration = dict(body.get("configuration") or ())
    name, description = body.get("name"), body.get("description")
    created = body.get("createdTime")
    return Metadata(
        id=str(body["id"]),
        partition_columns=tuple(map(str, body.get("partitionColumns") or ())),
        configuration={str(key): str(value) for key, value in configuration.items()},
        schema_string=str(body.get("schemaString") or ""),
        name=None if name is None else str(name),
        description=None if description is None else str(description),
        created_ms=created if isinstance(created, int) else None,
    )
