"""Large row groups, read a slab at a time: what a chunk needs, and what comes next.

The problem: a file that its owner optimized may be one row group of a gigabyte, or of
some megabytes that a dictionary makes a gigabyte of, and each of its chunks wants ten
thousand rows. Decoded as a whole it would take twice its size of the broker's memory;
decoded anew for each chunk, a minute of processor time. The idea: the row group is
decoded a thousand rows at a time, and of these only a *slab* is kept: the rows from the
chunk's first offset on, as far as a bound in bytes allows. The chunks that follow are
cut from the slab. How far it reaches is guessed from the bytes in the file, and shrinks
while it is read if rows turn out to be larger.

The price: a row group is decoded as often as it has slabs.
"""

import threading
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lakehouse.errors import TableUnreadable
from lakehouse.footers import Footers
from lakehouse.plain import column_of, numbers
from lakehouse.schema import READ, WRITE

SLAB_BYTES = 64 << 20
SLABS_KEPT_BYTES = 128 << 20
ROWS_BYTES_MAX = 512 << 20
"""Rows of one chunk that take more are refused."""
BATCH_ROWS = 1_000
_SHRUNK = 3 / 4
"""To how much of its bound a slab shrinks that has grown above it."""


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
        self._slabs: OrderedDict[tuple[str, int, int], _Slab] = OrderedDict()
        self._lock = threading.Lock()

    def rows(self, path: str, number: int, low: int, high: int) -> Any:
        """The rows of a row group with offsets in [low, high] as a ``pa.Table`` in
        their order, of those that repeat an offset the first.

        Raises FileNotFoundError, OSError, pa.ArrowException; TableUnreadable if the
        rows take too much memory.
        """
        slab = self._kept(path, number, low, high)
        if slab is None:
            slab = self._read(path, number, low, high)
            self._keep((path, number, slab.low), slab)
        return slab.cut(low, high)

    def clear(self) -> None:
        """Drop the slabs that are kept."""
        with self._lock:
            self._slabs.clear()

    def _kept(self, path: str, number: int, low: int, high: int) -> _Slab | None:
        with self._lock:
            for key, slab in self._slabs.items():
                if key[:2] == (path, number) and slab.low <= low and high <= slab.high:
                    self._slabs.move_to_end(key)
                    return slab
        return None

    def _keep(self, key: tuple[str, int, int], slab: _Slab) -> None:
        with self._lock:
            self._slabs[key] = slab
            self._slabs.move_to_end(key)
            while len(self._slabs) > 1 and self.size_bytes > SLABS_KEPT_BYTES:
                self._slabs.popitem(last=False)

    @property
    def size_bytes(self) -> int:
        """Bytes of what is kept."""
        return sum(slab.rows.nbytes for slab in self._slabs.values())

    def _read(self, path: str, number: int, low: int, high: int) -> _Slab:
        group = self._footers.get(path).groups[number]
        offsets = self._footers.offsets(path, number)
        above = np.sort(offsets[offsets >= low])
        guess = max(1, SLAB_BYTES * group.rows // max(1, group.bytes))
        growing = _Growing(
            low, max(high, int(above[:guess][-1])) if len(above) else high
        )
        position = 0
        with self._footers.open(path, buffered=True) as file:
            for batch in file.iter_batches(
                BATCH_ROWS, row_groups=[number], columns=READ, use_threads=False
            ):
                rows = as_written(pa.Table.from_batches([batch]), READ)
                growing.take(rows, offsets[position : position + len(batch)], high)
                position += len(batch)
        if growing.bytes > ROWS_BYTES_MAX:
            raise TableUnreadable(
                f"{path}: the rows at offsets {low} to {high} would take more than "
                f"{ROWS_BYTES_MAX} bytes of memory"
            )
        return _Slab(low, growing.high, sorted_rows(growing.table()))


class _Growing:
    """A slab that is being read; ``high`` goes down if its rows are too large."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high, self.bytes = low, high, 0
        self._parts: list[Any] = []

    def take(self, rows: Any, offsets: Any, least: int) -> None:
        """Keep those of the next rows that lie in the slab, which reaches to ``least``
        for sure; nothing more once it is too much to be served."""
        if self.bytes > ROWS_BYTES_MAX:
            return
        self._keep(rows, offsets)
        if self.bytes > SLAB_BYTES and self.high > least:
            self._shrink(least)

    def table(self) -> Any:
        nothing = pa.schema([WRITE.field(name) for name in READ]).empty_table()
        return pa.concat_tables([nothing, *self._parts]).combine_chunks()

    def _keep(self, rows: Any, offsets: Any) -> None:
        """A copy of those inside: else all of the rows would be kept."""
        inside: Any = np.flatnonzero((offsets >= self.low) & (offsets <= self.high))
        if len(inside):
            part = rows.take(column_of(inside, pa.int64()))
            self._parts.append(part)
            self.bytes += part.nbytes

    def _shrink(self, least: int) -> None:
        parts, size = self._parts, self.bytes
        columns = [numbers(part.column("offset")) for part in parts]
        kept = np.sort(np.concatenate(columns))
        share = int(len(kept) * _SHRUNK * SLAB_BYTES / size)
        self.high = max(least, int(kept[min(share, len(kept) - 1)]))
        self._parts, self.bytes = [], 0
        for part, offsets in zip(parts, columns, strict=True):
            self._keep(part, offsets)


def as_written(table: Any, columns: list[str]) -> Any:
    """The columns in the types of our schema, whoever wrote the file."""
    arrays = []
    for name in columns:
        wanted = WRITE.field(name).type
        if name not in table.column_names:
            arrays.append(pa.nulls(table.num_rows, wanted))
            continue
        column = table.column(name)
        arrays.append(
            column if column.type == wanted else column.cast(wanted, safe=False)
        )
    return pa.table(dict(zip(columns, arrays, strict=True)))


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
