"""Where to read: a cluster of files cut into chunks that are small and in order.

The problem: a reader wants the rows from an offset on, sorted, a piece at a time. Our
files make that easy: row groups of 10,000 rows, one after the other. A file that its
owner optimized is the concatenation of others in any order, perhaps in one row group of
a million rows, and must be served right all the same, in bounded memory.

The idea: look at the row groups of a cluster as intervals of offsets. One that overlaps
no other and is small is a chunk: read it, sort it if need be. Where they overlap or
are large, the offset column alone is read (a hundredth of the bytes) and cut into
*runs*, stretches of rows whose offsets rise; the chunks are then ranges of offsets with
the runs that reach into them. Since an offset is in a table once, a range of n offsets
holds at most n rows.

The price: a table sorted by something else has as many runs as rows, and reads slowly.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from lakehouse.footers import Footers, RowGroup
from lakehouse.plain import numbers
from lakehouse.schema import ROW_GROUP_ROWS

WHOLE_ROWS_MAX = 4 * ROW_GROUP_ROWS
WHOLE_BYTES_MAX = 64 << 20
WINDOW_BYTES = 8 << 20
WINDOW_ROWS_MIN = 16


class Piece(NamedTuple):
    """Rows of one row group: ``rows`` from ``start``, whose offsets rise.

    ``rows`` 0: all of the row group, in whatever order.
    """

    path: str
    row_group: int
    start: int = 0
    rows: int = 0


class Chunk(NamedTuple):
    """What is read at once: all rows with offsets in [first, last]."""

    first_offset: int
    last_offset: int
    timestamp_max_ms: int
    pieces: tuple[Piece, ...]

    @property
    def is_whole(self) -> bool:
        """One row group that nothing else reaches into."""
        return self.pieces[0].rows == 0


class _Unit(NamedTuple):
    path: str
    number: int
    group: RowGroup


class _Run(NamedTuple):
    first_offset: int
    last_offset: int
    piece: Piece


def plan(paths: Sequence[str], footers: Footers) -> list[Chunk]:
    """The chunks of a cluster of files, disjoint and in order of offsets.

    Raises FileVanished or TableUnreadable.
    """
    units = [
        _Unit(path, number, group)
        for path in paths
        for number, group in enumerate(footers.get(path).groups)
        if group.rows
    ]
    units.sort(key=lambda unit: unit.group[:2])
    chunks: list[Chunk] = []
    for component in _components(units):
        chunks.extend(_chunks(component, footers))
    return chunks


def _components(units: Sequence[_Unit]) -> Iterator[list[_Unit]]:
    """Units in lists whose ranges are disjoint from each other."""
    component: list[_Unit] = []
    reach = 0
    for unit in units:
        if component and unit.group.first_offset > reach:
            yield component
            component = []
        reach = (
            max(reach, unit.group.last_offset)
            if component
            else (unit.group.last_offset)
        )
        component.append(unit)
    if component:
        yield component


def _chunks(component: Sequence[_Unit], footers: Footers) -> Iterator[Chunk]:
    unit, group = component[0], component[0].group
    small = group.rows <= WHOLE_ROWS_MAX and group.bytes <= WHOLE_BYTES_MAX
    if len(component) == 1 and small:
        piece = Piece(unit.path, unit.number)
        yield Chunk(
            group.first_offset, group.last_offset, group.timestamp_max_ms, (piece,)
        )
        return
    runs = [run for unit in component for run in _runs(unit, footers)]
    newest = max(unit.group.timestamp_max_ms for unit in component)
    yield from _windows(sorted(runs), _window_offsets(component), newest)


def _runs(unit: _Unit, footers: Footers) -> Iterator[_Run]:
    with footers.open(unit.path) as file:
        table = file.read_row_group(unit.number, columns=["offset"], use_threads=False)
    offsets: Any = numbers(table.column(0))
    cuts = np.flatnonzero(np.diff(offsets) <= 0) + 1
    starts = [0, *cuts.tolist()]
    ends = [*cuts.tolist(), len(offsets)]
    for start, end in zip(starts, ends, strict=True):
        piece = Piece(unit.path, unit.number, start, end - start)
        yield _Run(int(offsets[start]), int(offsets[end - 1]), piece)


def _window_offsets(component: Sequence[_Unit]) -> int:
    """How many offsets a window spans so that it holds about a row group's rows."""
    rows = sum(unit.group.rows for unit in component)
    size = sum(unit.group.bytes for unit in component)
    first = min(unit.group.first_offset for unit in component)
    last = max(unit.group.last_offset for unit in component)
    wanted = min(ROW_GROUP_ROWS, WINDOW_BYTES * rows // max(1, size))
    span: int = (last - first + 1) * max(wanted, WINDOW_ROWS_MIN) // rows
    return max(span, 1)


def _windows(runs: Sequence[_Run], span: int, newest: int) -> Iterator[Chunk]:
    """Ranges of ``span`` offsets, each with the runs that reach into it."""
    open_runs: list[_Run] = []
    waiting = list(reversed(runs))
    low, end = runs[0].first_offset, max(run.last_offset for run in runs)
    while open_runs or waiting:
        if not open_runs:
            low = max(low, waiting[-1].first_offset)
        high = min(low + span - 1, end)
        while waiting and waiting[-1].first_offset <= high:
            open_runs.append(waiting.pop())
        yield Chunk(low, high, newest, tuple(run.piece for run in open_runs))
        low = high + 1
        open_runs = [run for run in open_runs if run.last_offset >= low]
