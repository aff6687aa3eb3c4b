"""Where to read: a cluster of files cut into chunks that are small and in order.

The problem: a reader wants the rows from an offset on, sorted, a piece at a time. Our
files make that easy: row groups of 10,000 rows, one after the other. A file that its
owner optimized is the concatenation of others in any order, perhaps in one row group of
a million rows, and must be served right all the same, in bounded memory.

The idea: look at the row groups of a cluster as intervals of offsets. One that overlaps
no other and is small is a chunk: read it, sort it if need be. Where they overlap or
are large, the offset column alone is read (a hundredth of the bytes) and cut into
*runs*, stretches of rows whose offsets rise; the chunks are then ranges of offsets with
the runs that reach into them. Where a range ends is told by a sample of the offsets,
not by how far they reach: an owner's row at a strange offset, or a gap of millions,
makes no chunk larger.

A row group that is sorted by something else has as many runs as rows, each of which
reaches into many ranges: the square of the rows, which no memory holds. It is one piece
then, out of which each chunk picks its rows.

The price: such a table reads slowly, as each chunk needs the whole row group.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from lakehouse.files.footers import WHOLE_BYTES_MAX, Footers, RowGroup
from lakehouse.log.actions import Vector
from lakehouse.schema import ROW_GROUP_ROWS

WHOLE_ROWS_MAX = 4 * ROW_GROUP_ROWS
WINDOW_BYTES = 8 << 20
WINDOW_ROWS_MIN = 16
PIECE_ROWS_MIN = 64
"""A row group gives no more pieces, over all chunks, than one for so many rows."""


class Piece(NamedTuple):
    """Rows of one row group: ``rows`` from ``start``, whose offsets rise.

    ``rows`` 0: all of the row group, in whatever order.
    """

    path: str
    row_group: int
    start: int = 0
    rows: int = 0
    vector: Vector | None = None
    """Names the rows of the file that are deleted."""


class Source(NamedTuple):
    """A file by its absolute path, and its deleted rows."""

    path: str
    vector: Vector | None = None


class Chunk(NamedTuple):
    """What is read at once: all rows with offsets in [first, last].

    ``is_whole``: that is one row group, which nothing else reaches into.
    """

    first_offset: int
    last_offset: int
    timestamp_max_ms: int
    pieces: tuple[Piece, ...]
    is_whole: bool = False


class _Unit(NamedTuple):
    path: str
    number: int
    group: RowGroup
    vector: Vector | None

    @property
    def whole(self) -> Piece:
        return Piece(self.path, self.number, vector=self.vector)


class _Run(NamedTuple):
    first_offset: int
    last_offset: int
    piece: Piece


def plan(sources: Sequence[Source], footers: Footers) -> list[Chunk]:
    """The chunks of a cluster of files, disjoint and in order of offsets.

    Raises FileVanished or TableUnreadable.
    """
    units = [
        _Unit(path, number, group, vector)
        for path, vector in sources
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
        first, last, newest = *group[:2], group.timestamp_max_ms
        yield Chunk(first, last, newest, (unit.whole,), is_whole=True)
        return
    found = [footers.offsets(*unit[:2], unit.vector) for unit in component]
    pairs = [pair for pair in zip(component, found, strict=True) if len(pair[1])]
    if not pairs:  # their owner deleted all rows
        return
    cuts = _cuts([offsets for _, offsets in pairs], _window_rows(component))
    runs = [run for unit, offsets in pairs for run in _runs(unit, offsets, cuts)]
    newest = max(unit.group.timestamp_max_ms for unit in component)
    yield from _windows(sorted(runs), cuts.tolist(), newest)


def _cuts(columns: Sequence[Any], window_rows: int) -> Any:
    """Where windows of about so many rows begin, but for the first, rising: told by a
    sample of each row group's offsets."""
    every = max(1, window_rows // len(columns))
    sample = np.concatenate([np.sort(offsets)[::every] for offsets in columns])
    sample.sort()
    return np.unique(sample[:: window_rows // every])[1:]


def _runs(unit: _Unit, offsets: Any, cuts: Any) -> Iterator[_Run]:
    """The runs of a row group; itself as one if they are too many for windows that
    begin at ``cuts``."""
    falls = np.flatnonzero(np.diff(offsets) <= 0) + 1
    starts, ends = np.append(0, falls), np.append(falls, len(offsets))
    firsts, lasts = offsets[starts], offsets[ends - 1]
    reached = np.searchsorted(cuts, lasts, "right")
    pieces = int((reached - np.searchsorted(cuts, firsts, "right")).sum()) + len(starts)
    if len(starts) > 1 and pieces > len(offsets) // PIECE_ROWS_MIN:
        yield _Run(int(firsts.min()), int(lasts.max()), unit.whole)
        return
    columns = (starts, ends, firsts, lasts)
    for start, end, first, last in zip(*(c.tolist() for c in columns), strict=True):
        piece = Piece(unit.path, unit.number, start, end - start, unit.vector)
        yield _Run(first, last, piece)


def _window_rows(component: Sequence[_Unit]) -> int:
    """How many rows a window should hold: about a row group's, and not too heavy."""
    rows = sum(unit.group.rows for unit in component)
    size = sum(unit.group.bytes for unit in component)
    wanted = min(ROW_GROUP_ROWS, WINDOW_BYTES * rows // max(1, size))
    return max(wanted, WINDOW_ROWS_MIN)


def _windows(runs: Sequence[_Run], cuts: Sequence[int], newest: int) -> Iterator[Chunk]:
    """Ranges of offsets that begin at ``cuts``, each with the runs that reach into it;
    the first begins where the runs do.
    """
    open_runs: list[_Run] = []
    waiting = list(reversed(runs))
    low, end = runs[0].first_offset, max(run.last_offset for run in runs)
    for high in (*(cut - 1 for cut in cuts), end):
        if not open_runs:
            low = max(low, waiting[-1].first_offset)
        while waiting and waiting[-1].first_offset <= high:
            open_runs.append(waiting.pop())
        yield Chunk(low, high, newest, tuple(run.piece for run in open_runs))
        low = high + 1
        open_runs = [run for run in open_runs if run.last_offset >= low]
