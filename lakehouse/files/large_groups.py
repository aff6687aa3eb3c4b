"""Large row groups, read a slab at a time: what a chunk needs, and what comes next.

The problem: a file that its owner optimized may be one row group of a gigabyte, or of
some megabytes that a dictionary makes a gigabyte of, and each of its chunks wants ten
thousand rows. Decoded as a whole it would take twice its size of the broker's memory;
decoded anew for each chunk, a minute of processor time. The idea: the row group is
decoded a thousand rows at a time, and of these only a *slab* is kept: the rows from the
chunk's first offset on, as far as a bound in bytes allows. The chunks that follow are
cut from the slab. How far it reaches is guessed from the bytes in the file, and shrinks
while it is read if rows turn out to be larger: below the end of a chunk, too, which is
then too large, and to be split. Keys and values that the file has once become bytes of
each row only where these are in the slab, and some megabytes at a time.

The price: a row group is decoded as often as it has slabs.
"""

import threading
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lakehouse.errors import ChunkTooLarge, TableUnreadable
from lakehouse.files.footers import Footers, RowGroup
from lakehouse.files.repeated import lengths_of
from lakehouse.log.actions import Vector
from lakehouse.plain import column_of, numbers
from lakehouse.schema import READ, WRITE

SLAB_BYTES = 64 << 20
SLABS_KEPT_BYTES = 128 << 20
ROWS_BYTES_MAX = 512 << 20
"""Rows of one offset that take more are refused."""
BATCH_ROWS = 1_000
BATCH_ROWS_MIN = 16
NO_TIMESTAMP_US = -1000
"""Kafka's -1 ms, of a record that has none."""
PORTION_BYTES = 16 << 20
"""So many bytes are made at once of what a dictionary has."""
_SHRUNK = 3 / 4
"""To how much of its bound a slab shrinks that has grown above it."""


_Group = tuple[str, int, Vector | None]
_Key = tuple[str, int, Vector | None, int]
"""A row group without its deleted rows; and from which offset on."""


class _Slab(NamedTuple):
    """All rows of a row group with offsets in [low, high], in their order."""

    low: int
    high: int
    rows: Any

    def cut(self, low: int, high: int) -> Any:
        offsets = numbers(self.rows.column("offset"))
        first = int(np.searchsorted(offsets, low, "left"))
        return self.rows.slice(
            first, int(np.searchsorted(offsets, high, "right")) - first
        )


class LargeGroups:
    """Rows of large row groups of any file; keeps the last few slabs."""

    def __init__(self, footers: Footers) -> None:
        self._footers = footers
        self._slabs: OrderedDict[_Key, _Slab] = OrderedDict()
        self._lock = threading.Lock()

    def rows(
        self, path: str, number: int, low: int, high: int, vector: Vector | None = None
    ) -> Any:
        """The rows of a row group with offsets in [low, high] as a ``pa.Table`` in
        their order, of those that repeat an offset the first, and none that ``vector``
        names.

        Raises FileNotFoundError, OSError, pa.ArrowException; ChunkTooLarge if the rows
        take too much memory together, TableUnreadable if those of one offset do.
        """
        slab = self._kept((path, number, vector), low, high)
        if slab is None:
            slab = self._read((path, number, vector), low, high)
            self._keep((path, number, vector, slab.low), slab)
        if slab.high < high:
            raise ChunkTooLarge(path, slab.high)
        return slab.cut(low, high)

    def clear(self) -> None:
        """Drop the slabs that are kept."""
        with self._lock:
            self._slabs.clear()

    def _kept(self, group: _Group, low: int, high: int) -> _Slab | None:
        with self._lock:
            for key, slab in self._slabs.items():
                if key[:3] == group and slab.low <= low and high <= slab.high:
                    self._slabs.move_to_end(key)
                    return slab
        return None

    def _keep(self, key: _Key, slab: _Slab) -> None:
        with self._lock:
            self._slabs[key] = slab
            self._slabs.move_to_end(key)
            while len(self._slabs) > 1 and self.size_bytes > SLABS_KEPT_BYTES:
                self._slabs.popitem(last=False)

    @property
    def size_bytes(self) -> int:
        """Bytes of what is kept."""
        return sum(slab.rows.nbytes for slab in self._slabs.values())

    def _read(self, named: _Group, low: int, high: int) -> _Slab:
        path, number, _ = named
        group = self._footers.get(path).groups[number]
        offsets = self._footers.offsets_by_row(*named)
        above = np.sort(offsets[offsets >= low])
        guess = max(1, SLAB_BYTES * group.rows // max(1, group.bytes))
        growing = _Growing(
            low, max(high, int(above[:guess][-1])) if len(above) else high
        )
        position = 0
        with self._footers.open_in_pieces(path, number) as file:
            for batch in file.iter_batches(
                batch_rows(group), row_groups=[number], columns=READ, use_threads=False
            ):
                rows = as_written(pa.Table.from_batches([batch]), READ, once=True)
                growing.take(rows, offsets[position : position + len(batch)])
                position += len(batch)
        if growing.bytes > ROWS_BYTES_MAX:
            raise TableUnreadable(
                f"{path}: the rows at offset {growing.high} would take more than "
                f"{ROWS_BYTES_MAX} bytes of memory"
            )
        return _Slab(low, growing.high, sorted_rows(as_records(growing.table())))


def batch_rows(group: RowGroup) -> int:
    """How many rows of a row group are decoded at once: large ones are few."""
    wanted = PORTION_BYTES * group.rows // max(1, group.bytes)
    return max(BATCH_ROWS_MIN, min(BATCH_ROWS, wanted))


class _Growing:
    """A slab that is being read; ``high`` goes down if its rows are too large."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high, self.bytes = low, high, 0
        self._parts: list[Any] = []

    def take(self, rows: Any, offsets: Any) -> None:
        """Keep those of the next rows that lie in the slab; nothing more once those of
        one offset are too much to be served."""
        inside: Any = np.flatnonzero((offsets >= self.low) & (offsets <= self.high))
        for portion in _portions(rows, inside):
            if self.bytes > ROWS_BYTES_MAX:
                return
            self._keep(rows, portion[offsets[portion] <= self.high])
            while self.bytes > SLAB_BYTES and self._shrink():
                pass

    def table(self) -> Any:
        nothing = pa.schema([WRITE.field(name) for name in READ]).empty_table()
        return pa.concat_tables([nothing, *self._parts]).combine_chunks()

    def _keep(self, rows: Any, chosen: Any) -> None:
        """A copy of these: else all of the rows would be kept."""
        if len(chosen):
            part = as_written(rows.take(column_of(chosen, pa.int64())), READ)
            self._parts.append(part)
            self.bytes += part.nbytes

    def _shrink(self) -> bool:
        """Let the highest offsets go; whether there were any but the first."""
        parts, size = self._parts, self.bytes
        columns = [numbers(part.column("offset")) for part in parts]
        kept = np.unique(np.concatenate(columns))
        if len(kept) < 2:
            return False
        share = int(len(kept) * _SHRUNK * SLAB_BYTES / size)
        self.high = int(kept[min(share, len(kept) - 2)])
        self._parts, self.bytes = [], 0
        for part, offsets in zip(parts, columns, strict=True):
            self._keep(part, np.flatnonzero(offsets <= self.high))
        return True


def _portions(rows: Any, chosen: Any) -> list[Any]:
    """``chosen``, which are rows by number, in parts of which none takes much more than
    `PORTION_BYTES` (or one row does) when each row has bytes of its own."""
    lengths = lengths_of(rows)
    if lengths is None or not len(chosen):
        return [chosen]
    portion = np.cumsum(lengths[chosen]) // PORTION_BYTES
    return np.split(chosen, np.flatnonzero(np.diff(portion)) + 1)


def as_written(table: Any, columns: list[str], *, once: bool = False) -> Any:
    """The columns in the types of our schema, whoever wrote the file; ``once``: those
    whose values are there once stay so."""
    arrays = []
    for name in columns:
        wanted = WRITE.field(name).type
        if name not in table.column_names:
            arrays.append(pa.nulls(table.num_rows, wanted))
            continue
        column = table.column(name)
        if once and pa.types.is_dictionary(column.type):
            wanted = pa.dictionary(column.type.index_type, wanted)
        arrays.append(
            column if column.type == wanted else column.cast(wanted, safe=False)
        )
    return pa.table(dict(zip(columns, arrays, strict=True)))


def with_offsets(table: Any) -> Any:
    """Without rows that have no offset: an owner's, and no records."""
    column = table.column("offset")
    return table.filter(column.is_valid()) if column.null_count else table


def as_records(table: Any) -> Any:
    """`with_offsets`; a row whose owner left its timestamp out is a record without."""
    rows = with_offsets(table)
    at = rows.schema.get_field_index("timestamp")
    if at < 0 or not rows.column(at).null_count:
        return rows
    known = rows.column(at)
    micros = known.cast(pa.int64()).fill_null(NO_TIMESTAMP_US)
    return rows.set_column(at, "timestamp", micros.cast(known.type))


def sorted_rows(table: Any) -> Any:
    """Sorted by offset; of rows that repeat an offset (an owner's INSERT) the first."""
    offsets = numbers(table.column("offset"))
    steps = np.diff(offsets)
    if len(steps) == 0 or steps.min() > 0:
        return table
    order = np.argsort(offsets, kind="stable")
    kept = np.ones(len(order), bool)
    kept[1:] = np.diff(offsets[order]) > 0
    chosen: Any = order[kept]
    return table.take(column_of(chosen, pa.int64())).combine_chunks()
