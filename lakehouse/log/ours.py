"""Which tables get entries that we write ourselves, and which the library's.

The problem: an owner may turn on what asks more of each commit: row tracking, mapped
columns. The library does some of it, refuses some, and passes over some: it evaluates
no constraint, no invariant and no generated column. The idea:
we write to a table that is what `lakehouse.tables.create_table` makes, with whatever
columns of plain types beside ours, and with features that ask nothing of such commits
as ours, or that the library does not know and we do. Of everything else the library is
asked: what it commits is committed, what it refuses is refused in its words. Rules for
rows are held against none of ours, whoever commits: these records were acknowledged, so
they are added, and `lakehouse.log.remarks` says so. A table that cannot be read by what
our files hold (`why_columns_lost`) gets nothing.

The price: that costs what it did before, more with every file of the table. Pure.

Source: the Delta transaction log protocol, "Requirements for Writers".
"""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from lakehouse.column_names import alike
from lakehouse.log.actions import COLUMNS, PHYSICAL_NAME, Metadata, Protocol
from lakehouse.properties import APPEND_ONLY, CHANGE_FEED

_TYPES: Final = frozenset(
    {
        "binary", "boolean", "byte", "date", "double", "float", "integer", "long",
        "short", "string", "timestamp",
    }
)  # fmt: skip
_MADE: Final[Mapping[str, Any]] = {
    "partition": "integer", "offset": "long", "timestamp": "timestamp",
    "timestampType": "integer", "topic": "string", "key": "binary", "value": "binary",
    "headers": {
        "type": "array",
        "elementType": {
            "type": "struct",
            "fields": [
                {"name": "key", "type": "string"}, {"name": "value", "type": "binary"},
            ],
        },
    },
}  # fmt: skip
"""The types that `lakehouse.schema` makes a table with; that would import pyarrow."""
_READ_AS: Final = {"binary": ("string",), "integer": ("byte", "short", "long")}
"""As what else Spark reads a type of our files, and means the same."""
_PARTITION_TYPES: Final = "integer", "long", "string"
"""Any that takes a number: it is read from the entry, and from no file."""
_PARTITIONED_BY: Final = ("partition",)
_NOT_PARTITIONED: Final = "it is not partitioned by partition"
_OFF: Final = frozenset({"", "false", "none"})
CONSTRAINT: Final = "delta.constraints."
_ASKS: Final = ("delta.enable", "delta.columnMapping.mode", CONSTRAINT)
"""Properties that begin so ask something of each commit, unless they say no."""
_PLAIN: Final = ((1, 1), (1, 2))
_FEATURED: Final = ((1, 7), (3, 7))
"""Versions of a protocol that names what it asks."""
_SILENT: Final = frozenset(
    {
        "allowColumnDefaults", "appendOnly", "changeDataFeed", "checkConstraints",
        "checkpointProtection", "deletionVectors", "domainMetadata", "identityColumns",
        "inCommitTimestamp", "invariants", "materializePartitionColumns",
        "v2Checkpoint", "vacuumProtocolCheck",
    }
)  # fmt: skip
"""Features that ask nothing of who adds files or lets whole ones leave, or what we do
(`lakehouse.log.in_commit`), or what is asked beside; or, as constraints and invariants,
something of rows that is held against none of ours (`lakehouse.log.remarks`); or, as
defaults and identities do, of columns that have one, which no plain column has. Our
files hold the partition column, and of a log whose checkpoints are protected nothing is
cleaned up here (`lakehouse.log.expiry`)."""
_ROW_TRACKING: Final = "rowTracking"
"""Asks for numbers of rows in each commit, and for nothing while it is suspended."""
_SUSPENDED: Final = "delta.rowTrackingSuspended"
_ADVICE: Final = (
    ", and rows are not numbered here: records come once its owner has said "
    f"SET TBLPROPERTIES ('delta.enableRowTracking' = 'false', '{_SUSPENDED}' = 'true')"
)
_KNOWN: Final = {
    CHANGE_FEED: "changeDataFeed",
    "delta.enableMaterializePartitionColumnsFeature": "materializePartitionColumns",
    "delta.enableDeletionVectors": "deletionVectors",
    "delta.enableInCommitTimestamps": "inCommitTimestamp",
}
"""What turns such a feature on."""


_MOVABLE: Final = frozenset(
    {
        "allowColumnDefaults", "appendOnly", "changeDataFeed", "checkConstraints",
        "checkpointProtection", "deletionVectors", "domainMetadata", "identityColumns",
        "inCommitTimestamp", "inCommitTimestamp-preview", "invariants",
        "materializePartitionColumns", "timestampNtz", "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)  # fmt: skip
"""Features that ask nothing of who moves rows and changes none, as long as no file has
a deletion vector. Row tracking wants their numbers kept, clustering their order."""
_WRITER_MOVABLE: Final = 4
"""From version 5 on a writer must know mapped columns."""
_UNMOVABLE: Final = frozenset({"delta.enableRowTracking", "delta.columnMapping.mode"})


def why_not_ours(
    protocol: Protocol,
    metadata: Metadata | None,
    *,
    removes: bool = False,
    moves: bool = False,
) -> str | None:
    """One sentence if the library is to commit to such a table, else None.

    ``removes``: files are to leave. ``moves``: others may come in their place, with
    rows that are in the table. A constraint is held against none of ours, and the
    library, which evaluates none either, knows fewer features.
    """
    if metadata is None:
        return "the log holds no metaData action"
    why = _of_protocol(protocol, metadata.configuration)
    if why is not None:
        return why
    if metadata.partition_columns != _PARTITIONED_BY:
        return why_columns_lost(metadata.schema_string) or _NOT_PARTITIONED
    for key, value in metadata.configuration.items():
        is_known = _KNOWN.get(key) in protocol.writer_features
        is_known |= key.startswith(CONSTRAINT) and (
            removes or moves or "checkConstraints" in protocol.writer_features
        )
        if key.startswith(_ASKS) and value.lower() not in _OFF and not is_known:
            return f"{key} is {value}"
    return _of_columns(metadata.schema_string)


def _of_protocol(protocol: Protocol, said: Mapping[str, str]) -> str | None:
    """The same of what it asks of all readers and writers."""
    features = {*protocol.reader_features, *protocol.writer_features}
    versions = protocol.reader, protocol.writer
    if versions in _PLAIN and not features:
        return None
    if versions not in _FEATURED or not features:
        return f"its protocol is {protocol.reader}, {protocol.writer}"
    odd = features - _SILENT
    if said.get(_SUSPENDED, "false").lower() == "true":
        odd -= {_ROW_TRACKING}
    if not odd:
        return None
    advice = _ADVICE if _ROW_TRACKING in odd else ""
    return f"it has {', '.join(sorted(odd))}{advice}"


def why_not_merged(protocol: Protocol, metadata: Metadata | None) -> str | None:
    """One sentence if rows of such a table are not to be moved from file to file, else
    None: its owner asks more of whoever does than we know to do."""
    plain = why_not_ours(protocol, metadata)
    if plain is None or metadata is None:
        return plain
    features = {*protocol.reader_features, *protocol.writer_features} - _MOVABLE
    if features:
        return f"it has {', '.join(sorted(features))}"
    if protocol.writer > _WRITER_MOVABLE and not protocol.writer_features:
        return f"its protocol is {protocol.reader}, {protocol.writer}"
    for key, value in metadata.configuration.items():
        if key in _UNMOVABLE and value.lower() not in _OFF:
            return f"{key} is {value}"
    if metadata.partition_columns != _PARTITIONED_BY:
        return why_columns_lost(metadata.schema_string) or _NOT_PARTITIONED
    return _of_columns(metadata.schema_string)


def why_not_cleaned(protocol: Protocol, metadata: Metadata | None) -> str | None:
    """One sentence if rows are not to leave such a table for their keys' sake, else
    None: it must let files be rewritten, and rows leave."""
    return why_nothing_leaves(metadata) or why_not_merged(protocol, metadata)


def why_nothing_leaves(metadata: Metadata | None) -> str | None:
    """One sentence if no row may leave such a table, whoever commits, else None. The
    library compares letters and takes TRUE for no; Delta and Spark take it for yes."""
    configuration = {} if metadata is None else metadata.configuration
    append_only = configuration.get(APPEND_ONLY, "false")
    if append_only.lower() in _OFF:
        return None
    return f"{APPEND_ONLY} is {append_only}"


@lru_cache(256)
def _of_columns(schema: str) -> str | None:
    try:
        columns = json.loads(schema)["fields"]
        odd = [column["name"] for column in columns if not _is_plain(column)]
        missing = COLUMNS - {column["name"] for column in columns}
    except (ValueError, KeyError, TypeError, AttributeError):
        return "its schema cannot be understood"
    if odd or missing:
        return f"these columns are not as they were made: {sorted({*odd, *missing})}"
    return why_columns_lost(schema)


def why_no_commit(metadata: Metadata | None) -> str | None:
    """One sentence if nothing is added to a table that can be read, for its columns'
    sake, else None."""
    return None if metadata is None else why_columns_lost(metadata.schema_string)


@lru_cache(256)
def why_columns_lost(schema: str) -> str | None:
    """One sentence if our files hold a column of ours for which the table has none, or
    one of a type that no reader makes of it, else None."""
    try:
        there = _in_files(json.loads(schema)["fields"])
        lost = [_lost(there, name) for name in _MADE]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # who reads the schema for more tells it
    columns = ", and ".join(filter(None, lost))
    back = (
        "write it once more as it was, or RESTORE it to the version before if nothing "
        "was added since (DESCRIBE HISTORY)"
    )
    return f"its column {columns}: {back}" if columns else None


def _lost(there: Mapping[str, Any], name: str) -> str | None:
    """What became of a column of ours, if our files are not to be read by it."""
    was, kind = _MADE[name], there.get(name)
    if kind is None and name not in COLUMNS:
        return None
    if kind is None and (others := alike(name, there)):
        return f"{name} is called {' and '.join(others)}"
    if kind is None:
        return f"{name} is missing, and was {_spelled(was)}"
    is_partition = name in _PARTITIONED_BY
    if kind in _PARTITION_TYPES if is_partition else _reads(kind, was):
        return None
    return f"{name} is {_spelled(kind)}, and was {_spelled(was)}"


def _in_files(fields: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Name in the files -> type of these columns, or fields of a structure."""
    return {
        (one.get("metadata") or {}).get(PHYSICAL_NAME, one["name"]): one["type"]
        for one in fields
    }


def _reads(kind: Any, was: Any) -> bool:
    """Whether a column of one type is read from files that hold the other. Of mapped
    fields nobody knows here what ours are called, so they are taken for right."""
    if isinstance(kind, str) or isinstance(was, str):
        return bool(kind == was or kind in _READ_AS.get(str(was), ()))
    if kind["type"] != was["type"]:
        return False
    if kind["type"] == "array":
        return _reads(kind["elementType"], was["elementType"])
    there, ours = _in_files(kind["fields"]), _in_files(was["fields"])
    if not there.keys() >= ours.keys():
        return any(PHYSICAL_NAME in (f.get("metadata") or ()) for f in kind["fields"])
    return all(_reads(there[name], one) for name, one in ours.items())


def _spelled(kind: Any) -> str:
    """A type as Spark writes it."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "array":
        return f"array<{_spelled(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{_spelled(kind['keyType'])},{_spelled(kind['valueType'])}>"
    fields = (f"{one['name']}:{_spelled(one['type'])}" for one in kind["fields"])
    return f"{kind['type']}<{','.join(fields)}>"


def _is_plain(column: Mapping[str, Any]) -> bool:
    """Whether a column asks nothing of a writer that leaves it out."""
    said = set(column.get("metadata") or ())
    return column["nullable"] is True and said <= {"comment"} and _known(column["type"])


def _known(kind: Any) -> bool:
    if isinstance(kind, str):
        return kind in _TYPES or kind.startswith("decimal(")
    if kind["type"] == "array":
        return _known(kind["elementType"])
    if kind["type"] == "map":
        return _known(kind["keyType"]) and _known(kind["valueType"])
    return kind["type"] == "struct" and all(map(_is_plain, kind["fields"]))
