"""Which rows an expression of Spark's SQL is true of, in files live or not.

The problem: the expression may name the partition, which is no column of most files;
and Spark takes it from directories only where all of a read have the same form, which
what an owner keeps, or lets Delta place (``delta.randomizeFilePrefixes``), has not. The
idea: Spark is given files and no directories to go by, and the partition as a column
that we make: from the name of the directory for the files that lie in theirs, which is
one read for all of them, and as a number for the others.

What it is true of must not change while it is looked for: the time of asking is that of
the whole run (`moments`), and what differs each time all the same is refused first.

The price: a file of which nobody knows the partition is asked as one of each. If that
makes a difference, nobody knows whether it has such rows.
"""

import json
import os
import time
from array import array
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import numpy as np

from jobs.erasing.moments import at_moment
from jobs.erasing.partitions import CHANGES, Partitions
from jobs.erasing.search import Found, Search, distinct
from jobs.erasing.table import NotErased
from lakehouse.errors import LakehouseError
from lakehouse.files.footers import Footers
from lakehouse.log.actions import NO_PARTITION, reported
from lakehouse.log.delta_log import Snapshot, table_ends

PASSED_OVER: Final = "Spark passes over files with such a name"
DEPENDS: Final = "that depends on its partition, and nobody knows it"
_CHANGING: Final = (
    "what the expression is true of changes while it is looked for: write a time that "
    "stays, as in timestamp < TIMESTAMP '2026-01-31 00:00:00', and nothing that is "
    "drawn by chance; nothing was changed"
)
_PATTERNS: Final = "__globPaths__"
"""Whether Spark takes paths for patterns: its ``DataSource.GLOB_PATHS_KEY``."""
_PATH: Final = "__lakelog_path"
_ROW: Final = "__lakelog_row"
_BY_DIRECTORY: Final = f"regexp_extract({_PATH}, 'partition=(-?[0-9]+)/[^/]*$', 1)"


def by_expression(session: Any, table: Snapshot, expression: str) -> Search:
    """Rows of which a predicate of Spark's SQL is true. ``table``: its columns are.

    Raises NotErased where it is of others each time, and what Spark does of one that it
    does not understand.
    """
    from pyspark.sql.types import StructType

    assert table.metadata is not None, "it was looked at"
    fields = StructType.fromJson(json.loads(table.metadata.schema_string)).fields
    schema = StructType([field for field in fields if field.name != "partition"])
    ends = table_ends(table).keys()
    names = frozenset(field.name.lower() for field in fields)
    expression = at_moment(expression, time.time_ns() // 1_000, names)
    _check_lasting(session.createDataFrame([], StructType(fields)), expression)

    def rows(root: str, paths: Iterable[str], partition: str) -> Iterator[Any]:
        reader = session.read.schema(schema).option(_PATTERNS, "false")
        reader = reader.option("recursiveFileLookup", "true")
        frame = reader.parquet(*(os.path.join(root, path) for path in paths))
        frame = frame.selectExpr(
            "*", f"_metadata.file_path AS {_PATH}", f"_metadata.row_index AS {_ROW}"
        )
        frame = frame.selectExpr("*", f"{partition} AS partition").where(expression)
        yield from frame.select(_PATH, "offset", "partition", _ROW).toLocalIterator()

    def search(root: str, paths: Partitions) -> Found:
        unreadable = _unreadable(root, paths) | passed_over(paths)
        known = {path: p for path, p in paths.items() if path not in unreadable}
        each = ends | {p for p in paths.values() if p is not None}
        found = dict[str, _Rows]()
        for partition, some in _by_column(known, each).items():
            for row in rows(root, some, partition):
                path = os.path.relpath(unquote(urlsplit(row[0]).path), root)
                found.setdefault(path, _Rows()).take(*row[1:])
        all_of_them = len(each | {NO_PARTITION})
        unreadable |= {
            path: DEPENDS
            for path, one in found.items()
            if paths[path] is None and len(one.partitions) < all_of_them
        }
        return Found(
            {path: one.sorted for path, one in found.items()},
            {path: one.nameless for path, one in found.items() if len(one.nameless)},
            unreadable,
        )

    return search


def _check_lasting(rows: Any, expression: str) -> None:
    """Raise NotErased if an expression is not the same each time it is asked."""
    one, again = (
        rows.where(expression)._jdf.queryExecution().analyzed() for _ in range(2)
    )
    optimizer = rows.sparkSession._jvm.org.apache.spark.sql.catalyst.optimizer
    later = optimizer.ComputeCurrentTime.apply(one)
    later = optimizer.SpecialDatetimeValues.apply(later)
    if not (one.deterministic() and one.sameResult(again) and later == one):
        raise NotErased(_CHANGING)


def passed_over(paths: Iterable[str]) -> dict[str, str]:
    """The files that Spark reads none of, and says nothing."""
    return {
        path: PASSED_OVER
        for path in paths
        if os.path.basename(path).startswith((".", "_"))
    }


class _Rows:
    """What is true of rows of a file: their offsets, the numbers of those that have
    none, and as rows of which partitions."""

    def __init__(self) -> None:
        self._offsets, self._numbers = array("q"), array("q")
        self.partitions = set[int | None]()

    def take(self, offset: int | None, partition: int | None, number: int) -> None:
        self.partitions.add(partition)
        if offset is None:
            self._numbers.append(number)
        else:
            self._offsets.append(offset)

    @property
    def sorted(self) -> Any:
        return distinct([np.frombuffer(self._offsets, np.int64)])

    @property
    def nameless(self) -> Any:
        return distinct([np.frombuffer(self._numbers, np.int64)])


def _by_column(paths: Partitions, each: Collection[int]) -> dict[str, list[str]]:
    """The partition of files, as Spark makes it -> these files. ``each``: what it may
    be where nobody knows."""
    found = dict[str, list[str]]()
    for path, partition in paths.items():
        found.setdefault(_column(path, partition, each), []).append(path)
    return found


def _column(path: str, partition: int | None, each: Collection[int]) -> str:
    if partition is None:
        return f"explode(array({', '.join(map(_number, {*each, NO_PARTITION}))}))"
    inside = f"partition={partition}"
    if os.path.dirname(path) in (inside, os.path.join(CHANGES, inside)):
        return _whole(_BY_DIRECTORY, partition)
    return _number(partition)


def _number(partition: int) -> str:
    value = "NULL" if partition == NO_PARTITION else str(partition)
    return _whole(value, partition)


def _whole(value: str, partition: int) -> str:
    """An int, as the column is unless its owner made it wider."""
    is_long = partition != NO_PARTITION and reported(partition) != partition
    return f"CAST({value} AS {'BIGINT' if is_long else 'INT'})"


def _unreadable(root: str, paths: Iterable[str]) -> dict[str, str]:
    found = {}
    for path in paths:
        try:
            Footers().get(os.path.join(root, path))
        except LakehouseError as error:
            found[path] = str(error)
    return found
