"""Which tables get entries that we write ourselves, and which the library's.

The problem: an owner may turn on what asks more of each commit: row tracking, in-commit
timestamps, constraints. The library knows some of it and refuses the rest. The idea:
we write to a table that is what `lakehouse.tables.create_table` makes, with whatever
columns of plain types beside ours. Of everything else the library is asked, as it was
of every table: what it commits is committed, what it refuses is refused in its words.

The price: that costs what it did before, more with every file of the table. Pure.

Source: the Delta transaction log protocol, "Requirements for Writers".
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from lakehouse.actions import COLUMNS, Metadata, Protocol
from lakehouse.properties import APPEND_ONLY

_TYPES: Final = frozenset(
    {
        "binary", "boolean", "byte", "date", "double", "float", "integer", "long",
        "short", "string", "timestamp",
    }
)  # fmt: skip
_PARTITIONED_BY: Final = ("partition",)
_OFF: Final = frozenset({"", "false", "none"})
_ASKS: Final = ("delta.enable", "delta.columnMapping.mode", "delta.constraints.")
"""Properties that begin so ask something of each commit, unless they say no."""


_MOVABLE: Final = frozenset(
    {
        "appendOnly", "changeDataFeed", "checkConstraints", "deletionVectors",
        "inCommitTimestamp", "inCommitTimestamp-preview", "invariants", "timestampNtz",
        "v2Checkpoint", "vacuumProtocolCheck",
    }
)  # fmt: skip
"""Features that ask nothing of who moves rows and changes none, as long as no file has
a deletion vector. Row tracking wants their numbers kept, clustering their order."""
_WRITER_MOVABLE: Final = 4
"""From version 5 on a writer must know mapped columns."""
_UNMOVABLE: Final = frozenset({"delta.enableRowTracking", "delta.columnMapping.mode"})


def why_not_ours(
    protocol: Protocol, metadata: Metadata | None, *, removes: bool = False
) -> str | None:
    """One sentence if the library is to commit to such a table, else None.

    ``removes``: files are to leave.
    """
    if (protocol.reader, protocol.writer) not in ((1, 1), (1, 2)):
        return f"its protocol is {protocol.reader}, {protocol.writer}"
    if protocol.reader_features or protocol.writer_features:
        return "its protocol names features"
    if metadata is None:
        return "the log holds no metaData action"
    if metadata.partition_columns != _PARTITIONED_BY:
        return "it is not partitioned by partition"
    for key, value in metadata.configuration.items():
        if key.startswith(_ASKS) and value.lower() not in _OFF:
            return f"{key} is {value}"
    append_only = metadata.configuration.get(APPEND_ONLY, "false")
    if removes and append_only != "false":
        return f"{APPEND_ONLY} is {append_only}"
    return _of_columns(metadata.schema_string)


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
        return "it is not partitioned by partition"
    return _of_columns(metadata.schema_string)


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
    return None


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
