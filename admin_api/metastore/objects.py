"""Databases, tables and views, as a Hive metastore describes them. Pure.

A topic's table is one of Spark's data source tables: the metastore says where it lies
and that Delta reads it; columns, partitions and properties are read there. A view is
its text and its columns.

Source: ``hive_metastore.thrift`` of Hive 2.3, whose field numbers these are; Spark's
``HiveExternalCatalog`` for the properties.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from admin_api.metastore.thrift import (
    BOOL,
    I32,
    LIST,
    MAP,
    STRING,
    STRUCT,
    field,
    flag,
    integer,
    many,
    pairs,
    record,
    text,
    texts,
)

TABLE: Final = "EXTERNAL_TABLE"
VIEW: Final = "VIRTUAL_VIEW"
NOWHERE: Final = "the-catalog-of-lakelog-is-only-read:/"
"""Where a table would lie that a session made by name. Delta writes its log before it
asks the metastore, which refuses: below a directory that log would stay, where a topic
of that name needs its place. No file system has this scheme, and the error names it."""
_OWNER: Final = "lakelog"
_SERDE: Final = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
_READS: Final = "org.apache.hadoop.mapred.SequenceFileInputFormat"
_WRITES: Final = "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat"
_DELTA: Final = {
    "EXTERNAL": "TRUE",
    "spark.sql.sources.provider": "delta",
    "spark.sql.partitionProvider": "filesystem",
}


class Column(NamedTuple):
    """A column of a view: its name, its type as Hive writes it, what it is."""

    name: str
    type: str
    comment: str


def database(name: str, comment: str) -> bytes:
    """A database in which only what is there already has a place."""
    return record(
        field(STRING, 1, text(name)),
        field(STRING, 2, text(comment)),
        field(STRING, 3, text(NOWHERE)),
        field(MAP, 4, pairs({})),
    )


def delta_table(database: str, name: str, location: str, comment: str) -> bytes:
    """A Delta table in the directory ``location``."""
    place = f"file:{location}"
    said = _DELTA | {"comment": comment}
    return _table(database, name, _storage(place, ()), said, TABLE)


def view(
    database: str, name: str, query: str, columns: Sequence[Column], comment: str
) -> bytes:
    """What a query gives, in columns that are named and typed as its own."""
    storage = _storage(None, columns)
    return _table(database, name, storage, {"comment": comment}, VIEW, query)


def _table(
    database: str,
    name: str,
    storage: bytes,
    said: Mapping[str, str],
    kind: str,
    query: str | None = None,
) -> bytes:
    queries = [] if query is None else [text(query)] * 2  # as written, and expanded
    return record(
        field(STRING, 1, text(name)),
        field(STRING, 2, text(database)),
        field(STRING, 3, text(_OWNER)),
        *(field(I32, number, integer(0)) for number in (4, 5, 6)),  # times, retention
        field(STRUCT, 7, storage),
        field(LIST, 8, many(STRUCT, ())),
        field(MAP, 9, pairs(said)),
        *(field(STRING, 10 + n, query) for n, query in enumerate(queries)),
        field(STRING, 12, text(kind)),
    )


def _storage(place: str | None, columns: Sequence[Column]) -> bytes:
    path = {} if place is None else {"path": place}
    serde = record(
        field(STRING, 2, text(_SERDE)),
        field(MAP, 3, pairs({"serialization.format": "1"} | path)),
    )
    return record(
        field(LIST, 1, many(STRUCT, map(_column, columns))),
        *([] if place is None else [field(STRING, 2, text(place))]),
        field(STRING, 3, text(_READS)),
        field(STRING, 4, text(_WRITES)),
        field(BOOL, 5, flag(False)),
        field(I32, 6, integer(-1)),
        field(STRUCT, 7, serde),
        field(LIST, 8, texts(())),
        field(LIST, 9, many(STRUCT, ())),
        field(MAP, 10, pairs({})),
    )


def _column(column: Column) -> bytes:
    return record(
        field(STRING, 1, text(column.name)),
        field(STRING, 2, text(column.type)),
        field(STRING, 3, text(column.comment)),
    )
