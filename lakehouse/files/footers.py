"""Parquet footers, kept: what is in which row group of a file.

The problem: a fetch wants ten thousand rows out of a million, and parsing the footer of
a file with a hundred row groups costs as much as reading one of them. The idea: data
files never change, so a footer is parsed once and kept, within a bound in bytes: those
that it takes in memory, ten times what it is in the file.

Any thread may ask.
"""

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from lakehouse.errors import TableUnreadable
from lakehouse.files.deletion_vectors import DeletedRows
from lakehouse.files.pages import Layout, layout_of, leaves_of
from lakehouse.files.parquet_footer import INT64, ColumnFacts, GroupFacts, read_groups
from lakehouse.files.repeated import once_of, open_parquet, repeated
from lakehouse.log.actions import UNKNOWN_MAX, Vector
from lakehouse.plain import numbers
from lakehouse.schema import READ, WRITE

CACHE_BYTES = 16 << 20
FOOTER_BYTES = 13_000
COLUMN_BYTES = 1_000
"""For each column of each row group."""
WHOLE_BYTES_MAX = 64 << 20
"""A row group that takes more is never decoded as a whole."""
NO_OFFSET = -(1 << 63)
"""Of a row that is no record: its owner's, who left the offset out, or deleted the row.
It lies in no range that anybody asks for."""
_OURS: Final = re.compile(r"(\d{20})-(\d{20})(?:-[0-9a-f]+)+\.parquet")
"""What the compactor calls its files: all of them have all columns, in order."""
_KEYS: Final = ("offset", "key")
VALUE_BYTES = 32
"""What a header takes in memory beside its bytes, with all that is made of it."""


class RowGroup(NamedTuple):
    """A row group: inclusive offsets, and what reading it takes."""

    first_offset: int
    last_offset: int
    rows: int
    """0 if none of them has an offset."""
    bytes: int
    """Uncompressed; of what a dictionary has once, what the rows take."""
    timestamp_max_ms: int
    headers_bytes: int = 0
    """About what its headers take in memory: empty ones are nothing in a file."""
    is_guess: bool = False
    """Whether ``bytes`` is what the first rows let one think."""
    first_row: int = 0
    """Its number in the file."""
    held: int = 0
    """Rows, whether they have an offset or not."""
    once: tuple[int, ...] = ()
    """Columns, by index, whose keys or values are all in a dictionary."""
    compressed: int = 0
    """Bytes in the file."""
    compressed_keys: int = 0
    """Of these, offsets and keys."""
    layout: Layout | None = None
    """Where its pages lie, if they may be read without Arrow."""


class Footer(NamedTuple):
    metadata: Any
    groups: list[RowGroup]


class Footers:
    """Footers of data files by absolute path, the least recently used dropped."""

    def __init__(self, bytes_max: int = CACHE_BYTES) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._kept: OrderedDict[str, Footer] = OrderedDict()
        self._lock = threading.Lock()
        self._deleted = DeletedRows()

    def get(self, path: str) -> Footer:
        """The footer of a file. Raises FileVanished or TableUnreadable."""
        with self._lock:
            found = self._kept.get(path)
            if found is not None:
                self._kept.move_to_end(path)
                return found
        footer = _read(path)
        self._keep(path, footer)
        return footer

    def open(self, path: str, *, buffered: bool = False) -> Any:
        """A `RowsFile` on the file, without parsing its footer again.

        ``buffered``: a column chunk is read page by page, not as a whole.
        """
        return open_parquet(path, self.get(path).metadata, buffered=buffered)

    def open_in_pieces(self, path: str, group: int) -> Any:
        """The same, to read a row group page by page; keys and values that it has once
        stay so."""
        footer = self.get(path)
        once = footer.groups[group].once
        return open_parquet(path, footer.metadata, buffered=True, once=once)

    def deleted(self, path: str, group: int, vector: Vector | None) -> Any:
        """Which rows of a row group are deleted, by their numbers in it. Raises
        FileVanished or TableUnreadable."""
        rows = self._deleted.of(vector)
        if not len(rows):
            return rows
        known = self.get(path).groups[group]
        first = known.first_row
        low, high = np.searchsorted(rows, (first, first + known.held))
        return rows[low:high] - first

    def offsets(self, path: str, group: int, vector: Vector | None = None) -> Any:
        """The offsets of a row group, in the order of its rows; of an owner's row that
        has none, or that is deleted, none. Raises FileVanished or TableUnreadable."""
        found = self.offsets_by_row(path, group, vector)
        return found[found != NO_OFFSET]

    def offsets_by_row(
        self, path: str, group: int, vector: Vector | None = None
    ) -> Any:
        """The offset of each row of a row group, or NO_OFFSET. Raises as `offsets`."""
        with self.open(path) as file:
            try:
                table = file.read_row_group(
                    group, columns=["offset"], use_threads=False
                )
            except (pa.ArrowException, OSError) as error:
                raise TableUnreadable(f"{path}: {error}") from error
        found = numbers(table.column(0).fill_null(NO_OFFSET))
        deleted = self.deleted(path, group, vector)
        if len(deleted):
            found = found.copy()
            found[deleted] = NO_OFFSET
        return found

    def clear(self) -> None:
        """Drop all that is kept."""
        self._deleted.clear()
        with self._lock:
            self._kept.clear()
            self._bytes = 0

    @property
    def size_bytes(self) -> int:
        """About what the footers that are kept take in memory."""
        return self._bytes

    def _keep(self, path: str, footer: Footer) -> None:
        with self._lock:
            if path not in self._kept:
                self._kept[path] = footer
                self._bytes += _memory_bytes(footer)
            while self._bytes > self._bytes_max and len(self._kept) > 1:
                _, gone = self._kept.popitem(last=False)
                self._bytes -= _memory_bytes(gone)


def _memory_bytes(footer: Footer) -> int:
    """About what Arrow takes for a parsed footer (measured with Arrow 26)."""
    columns: int = footer.metadata.num_columns
    return FOOTER_BYTES + COLUMN_BYTES * columns * len(footer.groups)


def _read(path: str) -> Footer:
    try:
        return _read_open(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise TableUnreadable(f"{path}: {error}") from error


def _read_open(path: str) -> Footer:
    with open_parquet(path, buffered=True) as file:
        _check_columns(path, file.schema_arrow)
        groups: list[RowGroup] = []
        leaves = leaves_of(file.schema_arrow)
        first_row = 0
        for number, facts in enumerate(read_groups(path)):
            offset = _column(facts, "offset")
            if offset is None:
                raise TableUnreadable(f"{os.path.basename(path)} has no column offset")
            found = _row_group(file, facts, number, offset)
            weight = repeated(path, file, number, facts)
            groups.append(
                found._replace(
                    bytes=found.bytes + weight.bytes,
                    is_guess=weight.is_guess,
                    first_row=first_row,
                    layout=layout_of(facts, leaves) if leaves else None,
                )
            )
            _check_group(path, groups, facts)
            first_row += facts.rows
        _check_count(path, groups, file.metadata)
        return Footer(file.metadata, groups)


def _check_count(path: str, groups: Sequence[RowGroup], metadata: Any) -> None:
    """Raise TableUnreadable if Arrow found other row groups in the same bytes, or a
    file of the compactor's has not the rows that it says: those that are not found
    would be passed over, and nobody knows. Arrow does not ask of which kind the
    elements of a list are, and where that is damaged we may find nothing."""
    name, rows = os.path.basename(path), sum(group.held for group in groups)
    is_ours = _OURS.fullmatch(name) is not None
    is_odd = is_ours and not 0 < rows == metadata.num_rows
    if is_odd or len(groups) != metadata.num_row_groups:
        raise TableUnreadable(
            f"{name} is damaged: of {metadata.num_rows} rows in "
            f"{metadata.num_row_groups} row groups there are {rows} in {len(groups)}"
        )


def _check_columns(path: str, schema: pa.Schema) -> None:
    """Raise TableUnreadable if a file of the compactor's lacks a column, or has it of
    another type.

    Whoever reads takes a column that is not there for one of nulls, as Delta says.
    Pages have a checksum and the footer has none: one bit of a name makes tombstones of
    all records of a file.
    """
    name = os.path.basename(path)
    if not _OURS.fullmatch(name):
        return
    for column in READ:
        if column not in schema.names:
            raise TableUnreadable(f"{name} is damaged: it has no column {column}")
        kind = schema.field(column).type
        if _inside(kind) != _inside(WRITE.field(column).type):
            raise TableUnreadable(f"{name} is damaged: its column {column} is {kind}")


def _inside(kind: pa.DataType) -> pa.DataType:
    """Of a list, whose elements have had several names, the type of these."""
    return kind.value_type if pa.types.is_list(kind) else kind


def _check_group(path: str, groups: Sequence[RowGroup], facts: GroupFacts) -> None:
    """Raise TableUnreadable if the last row group of a file of the compactor's so far
    is not as all of them are: in order, one behind the other, in what the name says;
    else rows are passed over, and nobody knows."""
    name = os.path.basename(path)
    ours = _OURS.fullmatch(name)
    if ours is None:
        return
    group, start = groups[-1], int(ours[1])
    reach = groups[-2].last_offset if len(groups) > 1 else start - 1
    is_placed = reach < group.first_offset <= group.last_offset < int(ours[2])
    fits = 0 < group.rows <= group.last_offset - group.first_offset + 1
    is_twofold = all(column.is_twofold for column in facts.columns)
    if not (is_placed and fits and is_twofold):
        raise TableUnreadable(
            f"{name} is damaged: its footer contradicts itself in row group "
            f"{len(groups) - 1}"
        )


def _column(group: GroupFacts, name: str) -> ColumnFacts | None:
    return next((one for one in group.columns if one.path == name), None)


def _microsecond_column(file: Any, group: GroupFacts) -> ColumnFacts | None:
    """``timestamp`` if its statistics are microseconds."""
    schema = file.schema_arrow
    if "timestamp" not in schema.names:
        return None
    kind = schema.field("timestamp").type
    if not pa.types.is_timestamp(kind) or kind.unit != "us":
        return None
    return _column(group, "timestamp")


def _row_group(
    file: Any, group: GroupFacts, number: int, offset: ColumnFacts
) -> RowGroup:
    first, last = _offset_bounds(file, number, offset)
    newest, timestamp = UNKNOWN_MAX, _microsecond_column(file, group)
    if timestamp is not None and timestamp.bounds and timestamp.physical == INT64:
        newest = timestamp.bounds[1] // 1000
    rows = group.rows if first <= last else 0
    values = (column.values for column in group.columns)
    return RowGroup(
        first, last, rows, group.bytes, newest,
        VALUE_BYTES * sum(count - rows for count in values if count > rows),
        held=group.rows,
        once=tuple(once_of(group)),
        compressed=sum(column.compressed for column in group.columns),
        compressed_keys=sum(c.compressed for c in group.columns if c.path in _KEYS),
    )  # fmt: skip


def _offset_bounds(file: Any, number: int, column: ColumnFacts) -> tuple[int, int]:
    """From the statistics; from the column itself when there are none. (0, -1) if no
    row has an offset."""
    if column.bounds is not None:
        return column.bounds
    table = file.read_row_group(number, columns=["offset"], use_threads=False)
    values = numbers(table.column(0).drop_null())
    return (int(values.min()), int(values.max())) if len(values) else (0, -1)
