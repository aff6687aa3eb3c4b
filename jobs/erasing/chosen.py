"""What somebody chose, of all that a table's log says, so that it may quote a row.

The problem: a value of an erased row may stand anywhere in what an owner had said: in a
predicate, a constraint, a comment, a tag. A short one, as a user's number is, stands by
chance in sizes, times, versions and names that are nobody's choice. The idea: of each
kind of action it is known which fields the format fills, and what we say of our own
tables; all others are somebody's, those of kinds that are new here among them. Pure.

Source: the Delta transaction log protocol, "Actions", "Version Checksum File" and "Last
Checkpoint File".
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from jobs.erasing.log_files import TEXT
from lakehouse.log.provenance import is_ours
from lakehouse.properties import TOPIC
from lakehouse.schema import COMMENTS, COMMENTS_BEFORE, WRITE

PLACES: Final = frozenset({"offset", "timestamp", "partition", "timestampType"})
"""Columns of which no value says anything of anybody."""
_OF_FILES: Final = frozenset(
    {
        "baseRowId", "clusteringProvider", "dataChange", "defaultRowCommitVersion",
        "deletionTimestamp", "deletionVector", "extendedFileMetadata",
        "modificationTime", "partitionValues", "partitionValues_parsed", "path", "size",
        "sizeInBytes", "stats", "stats_parsed",
    }
)  # fmt: skip
_OF_FORMAT: Final = {
    "add": _OF_FILES,
    "remove": _OF_FILES,
    "cdc": _OF_FILES,
    "sidecar": _OF_FILES,
    "protocol": frozenset(
        {"minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures"}
    ),
    "checkpointMetadata": frozenset({"version"}),
    "txn": frozenset({"version", "lastUpdated"}),
}
"""Kind of action -> its fields that are nobody's choice, or that are read by
themselves."""
_OF_TABLES: Final = frozenset(
    {
        "configuration", "createdTime", "format", "id", "partitionColumns",
        "schemaString",
    }
)  # fmt: skip
_PROOFS: Final = frozenset({"checksum", "txnId"})
_SIZES: Final = frozenset(
    {
        "checkpointSchema", "deletedRecordCountsHistogram",
        "deletedRecordCountsHistogramOpt", "fileSizeHistogram", "histogramOpt",
        "inCommitTimestamp", "inCommitTimestampOpt", "modificationTime",
        "numDeletedRecords", "numDeletedRecordsOpt", "numDeletionVectors",
        "numDeletionVectorsOpt", "numFiles", "numMetadata", "numOfAddFiles",
        "numProtocol", "parts", "size", "sizeInBytes", "tableSizeBytes", "version",
    }
)  # fmt: skip
"""What the descriptions of versions and checkpoints say of sizes and the like."""
_TECHNICAL: Final = frozenset(
    {
        "clientVersion", "engineInfo", "isolationLevel", "operation",
        "operationMetrics", "txnId",
    }
)  # fmt: skip
"""What a commit says of itself that is nobody's choice."""
_NAMES: Final = frozenset(
    {
        "inCommitTimestamp", "isBlindAppend", "job", "notebook", "readVersion", "tags",
        "timestamp", "userId", "userMetadata", "userName", "version", "clusterId",
    }
)  # fmt: skip
"""Names of what else a commit says of itself; their values may be somebody's choice,
unless they are numbers."""
_ROWLESS: Final = frozenset(
    {
        "ADD FEATURE", "CREATE TABLE", "DROP FEATURE", "OPTIMIZE", "RESTORE",
        "UPGRADE PROTOCOL", "VACUUM START", "VACUUM END",
    }
)  # fmt: skip
"""Operations of which no parameter quotes a row: columns, names, sizes, versions; what
made a table says what the table says of itself."""
_MANNERS: Final = frozenset(
    {
        "applyPurge", "epochId", "existed", "ifExists", "isShallow", "mode",
        "outputMode", "partitionBy", "queryId", "sourceVersion",
    }
)  # fmt: skip
"""Parameters of an operation that say how it was done."""
_DESCRIBED: Final = frozenset({"column", "columns", "fields", "newSchema", "oldSchema"})
"""Those that describe columns."""
_OF_COLUMN: Final = frozenset(
    {
        "column", "containsNull", "elementType", "fields", "keyType", "metadata",
        "name", "nullable", "type", "valueContainsNull", "valueType",
    }
)  # fmt: skip
_BRANCHES: Final = frozenset(
    {"matchedPredicates", "notMatchedBySourcePredicates", "notMatchedPredicates"}
)
"""Those of a MERGE, of which each says a condition and an ``actionType``."""
_UNSETS: Final = "UNSET TBLPROPERTIES"
_SETS: Final = "SET TBLPROPERTIES"
_RESERVED: Final = ("delta.", "lakelog.")
_CONSTRAINT: Final = "delta.constraints."
_PREDICATES: Final = (_CONSTRAINT, "delta.generationExpression", "delta.invariants")
_OURS: Final = frozenset({*COMMENTS.values(), *COMMENTS_BEFORE, *WRITE.names})
_APPLICATION: Final = re.compile(r"[0-9a-f]{32}/\d+")
"""As `lakehouse.properties.partition_application` says it."""
_ESCAPED: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROLS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_BOUNDS: Final = ("minValues", "maxValues")
_OF_STATS: Final = frozenset({*_BOUNDS, "numRecords", "nullCount", "tightBounds"})
_TORN_BOUNDS: Final = re.compile(r'"(?:min|max)Values":\s*\{([^}]*)')
_TORN_NAME: Final = re.compile(r'"([^"]*)":\s*(?!null|\s)')


def chosen(kind: str, body: Any) -> Iterator[str]:
    """The texts in an action, or other field, that somebody chose; numbers among them.
    A text in a text, as where JSON stands in it, is given as it stands there."""
    if kind == TEXT:
        yield from {body, _unescaped(body)}
    elif kind in _PROOFS or (kind in _SIZES and not isinstance(body, str)):
        return
    elif not isinstance(body, dict):
        yield from texts(body)
    elif kind == "commitInfo":
        yield from _of_commit(body)
    elif kind == "metaData":
        yield from _of_table(body)
    elif kind != "domainMetadata" or not _is_reserved(body.get("domain")):
        known = _OF_FORMAT.get(kind, frozenset())
        said = [one for name, one in body.items() if name not in known]
        if known is _OF_FILES:
            said += _of_bounds(body)
        yield from (one for one in texts(said) if not _APPLICATION.fullmatch(one))


def bounded_columns(kind: str, body: Any) -> set[str]:
    """The columns of which an action, or what is left of one, says least or greatest
    values, but for `PLACES`. A value may be cut short there."""
    if kind == TEXT:
        bounds = _TORN_BOUNDS.findall(_unescaped(body))
        return {name for one in bounds for name in _TORN_NAME.findall(one)} - PLACES
    if not isinstance(body, dict) or _OF_FORMAT.get(kind) is not _OF_FILES:
        return set()
    return {name for name, _ in _bounds(_stats(body) or {})}


def texts(said: Any) -> Iterator[str]:
    """All texts in a value, names of its fields and numbers among them. It may be
    nested deeper than a function may call itself."""
    rest = [said]
    while rest:
        one = rest.pop()
        if isinstance(one, dict):
            rest += [*one, *one.values()]
        elif isinstance(one, list | tuple):
            rest += one
        elif isinstance(one, bytes):
            yield from (one.decode(errors="replace"), one.hex())
        elif one is not None and not isinstance(one, bool):
            yield str(one)


def _of_commit(info: Mapping[str, Any]) -> Iterator[str]:
    """What an owner's commit says of itself."""
    with suppress(RecursionError):  # then it is none of ours
        if is_ours(json.dumps(info, separators=(",", ":"), default=str)):
            return
    said = {name: value for name, value in info.items() if name not in _TECHNICAL}
    parameters = said.pop("operationParameters", None)
    values = [value for value in said.values() if not isinstance(value, int | float)]
    operation, of_parameters = str(info.get("operation")), _mapping(parameters)
    if operation == _SETS:
        yield from _of_properties(_object(of_parameters.get("properties")))
    elif operation not in _ROWLESS:
        for name, value in of_parameters.items():
            yield from _of_parameter(operation, name, value)
    elif operation == "CREATE TABLE":
        yield from _of_new_table(of_parameters)
    yield from texts([*values, *(name for name in said if name not in _NAMES)])


def _of_parameter(operation: str, name: str, value: Any) -> Iterator[str]:
    """What a statement says in one; as it stands there if it is nothing to read."""
    said = _list(value)
    if name in _MANNERS:
        return
    if name in _DESCRIBED and said:
        for one in said:
            yield from _of_described(one)
    elif name in _BRANCHES and said:
        for one in said:
            rest = {n: v for n, v in _mapping(one).items() if n != "actionType"}
            yield from texts([rest.pop("predicate", None), rest])
    elif operation == _UNSETS and said:
        yield from _of_properties(dict.fromkeys(map(str, said)))
    else:
        yield from texts(value)


def _of_described(column: Any) -> Iterator[str]:
    """What a statement says of a column, but for its type."""
    if not isinstance(column, dict):
        yield from texts(column)
        return
    inner = column.get("column")
    yield from _of_columns(inner if isinstance(inner, dict) else column)
    yield from texts([one for name, one in column.items() if name not in _OF_COLUMN])


def _of_new_table(parameters: Mapping[str, Any]) -> Iterator[str]:
    """As Spark says it, and as the library does."""
    properties = _object(parameters.get("properties"))
    said = {"description": parameters.get("description"), "configuration": properties}
    for one in (said, _object(parameters.get("metadata"))):
        yield from _of_table(one)


def _of_table(said: Mapping[str, Any]) -> Iterator[str]:
    """What a table says of itself, but for what it says as we made it."""
    configuration = _mapping(said.get("configuration"))
    topic = configuration.get(TOPIC)
    ours = [topic, f"The records of the Kafka topic {topic}"]
    others = [one for name, one in said.items() if name not in _OF_TABLES]
    yield from (text for text in texts(others) if text not in ours)
    yield from _of_properties(configuration)
    columns = said.get("schemaString")
    yield from _of_columns(_object(columns)) if _object(columns) else texts(columns)


def _of_columns(schema: Mapping[str, Any]) -> Iterator[str]:
    """Names of columns and fields, and what is said of them."""
    rest: list[Any] = [schema]
    while rest:
        one = rest.pop()
        if isinstance(one, list):
            rest += one
        elif isinstance(one, dict):
            said = [one.get("name"), *_of_properties(one.get("metadata"))]
            yield from (text for text in texts(said) if text not in _OURS)
            rest += [one.get(name) for name in ("fields", "type", "elementType")]
            rest += [one.get(name) for name in ("keyType", "valueType")]


def _of_properties(said: Any) -> Iterator[str]:
    """Names and values of properties that are none of Delta's or ours; constraints, and
    what else is an expression of an owner's, under whatever name."""
    for name, value in _mapping(said).items():
        if name.startswith(_PREDICATES):
            yield from texts([name.removeprefix(_CONSTRAINT), value])
        elif not _is_reserved(name):
            yield from texts([value] if name == "comment" else [name, value])


def _is_reserved(name: Any) -> bool:
    return str(name).startswith(_RESERVED)


def _mapping(said: Any) -> dict[str, Any]:
    """Names and values, as JSON and Parquet say them; what is neither has no name."""
    if isinstance(said, dict):
        return said
    if isinstance(said, list) and all(isinstance(one, tuple) for one in said):
        return {str(name): value for name, value in said}
    return {"": said}


def _stats(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """What an action says of its file's rows; None where that is nothing to read."""
    text, said = body.get("stats"), body.get("stats_parsed")
    if text:
        said = _object(text) or text
    bounds = [said.get(name) for name in _BOUNDS] if isinstance(said, dict) else [said]
    return (
        (said or {}) if all(b is None or isinstance(b, dict) for b in bounds) else None
    )


def _bounds(stats: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Columns, and least and greatest values, but for places of records."""
    sides = [stats.get(name) or {} for name in _BOUNDS]
    found = [bound for side in sides for bound in side.items()]
    return [
        (name, one) for name, one in found if name not in PLACES and one is not None
    ]


def _of_bounds(body: Mapping[str, Any]) -> list[Any]:
    """What statistics say of values; all that they say if they are nothing to read."""
    said = _stats(body)
    if said is None:
        return [body.get("stats"), body.get("stats_parsed")]
    others = [one for name, one in said.items() if name not in _OF_STATS]
    return [*others, *(value for _, value in _bounds(said))]


def _object(text: Any) -> dict[str, Any]:
    """An object of JSON; an empty one of what is none."""
    said = _json(text)
    return said if isinstance(said, dict) else {}


def _list(text: Any) -> list[Any]:
    """A list of JSON, or an object alone in one; an empty one of what is neither."""
    said = _json(text)
    if isinstance(said, dict):
        return [said]
    return said if isinstance(said, list) else []


def _json(text: Any) -> Any:
    with suppress(ValueError, TypeError, RecursionError):
        return json.loads(text)
    return None


def _unescaped(text: str) -> str:
    """A line that is torn, as JSON would give the strings in it."""

    def plain(match: re.Match[str]) -> str:
        code, other = match.groups()
        return chr(int(code, 16)) if code else _CONTROLS.get(other, other)

    return _ESCAPED.sub(plain, text)
