"""The rows of some files in order of offset, in bounded memory.

The problem: files of ours are in order, one behind the other, and are read as they are;
what an owner's OPTIMIZE, MERGE or ZORDER left may be in any order, in row groups of a
gigabyte. The idea: that is sorted as what does not fit into memory always was: as much
as fits is sorted and written to a *run*, and the runs are read side by side, each by
small steps; what lies below the least of the steps' ends comes next. So many runs that
their steps would take too much become a few larger ones first.

The price: rows in no order are written once more, to a spill directory, and read again,
twice more where they are above 8 GiB; it is linear in their bytes. In memory are a run
while it is made, and later a step of each: 64 MiB, and about as much.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from jobs.merging.names import span_of
from jobs.merging.room import check_room
from lakehouse.column_names import spelled
from lakehouse.errors import TableUnreadable
from lakehouse.files.footers import WHOLE_BYTES_MAX, Footers, RowGroup
from lakehouse.files.large_groups import batch_rows
from lakehouse.owners_columns import shaped
from lakehouse.plain import column_of, numbers
from lakehouse.schema import ROW_GROUP_ROWS

RUN_BYTES: Final = 64 << 20
STEP_BYTES: Final = 512 << 10
RUNS_MAX: Final = 128
"""So many are read side by side."""
WHOLE_ROWS_MAX: Final = 4 * ROW_GROUP_ROWS
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


class NotMergeable(Exception):
    """Rows that are not to be moved; the message is a sentence for their owner."""


class Unit(NamedTuple):
    """A row group of a file."""

    path: str
    number: int
    group: RowGroup


def _at_once(rows: int) -> None:
    """Of rows that nobody waits for."""


class Source(NamedTuple):
    """Files of one partition by absolute path, and the columns that are wanted.

    ``after``: hears of the rows that were spilled, each time, and keeps to a pace.
    ``taken``: path -> numbers of rows that are left out, rising, as a deletion vector
    has them.
    """

    paths: Sequence[str]
    partition: int
    schema: pa.Schema
    after: Callable[[int], None] = _at_once
    taken: Mapping[str, Any] = _NONE


def units_of(paths: Sequence[str], footers: Footers) -> list[Unit]:
    """The row groups of files in their order. Raises FileVanished, TableUnreadable."""
    return [
        Unit(path, number, group)
        for path in paths
        for number, group in enumerate(footers.get(path).groups)
    ]


def is_in_order(units: Sequence[Unit]) -> bool:
    """Whether row groups follow each other, each small enough to be sorted alone."""
    reach = -1
    for unit in units:
        group = unit.group
        small = group.rows <= WHOLE_ROWS_MAX and group.bytes <= WHOLE_BYTES_MAX
        if not small or group.first_offset <= reach:
            return False
        reach = group.last_offset
    return True


def in_order(source: Source, footers: Footers, spill: str) -> Iterator[Any]:
    """The rows as tables in order of offset; what repeats an offset is there twice.

    ``spill``: an empty directory for what does not fit into memory. Raises
    NotMergeable, FileVanished, TableUnreadable and OSError.
    """
    units = units_of(source.paths, footers)
    try:
        if is_in_order(units):
            for unit in units:
                yield from _alone(unit, source, footers, spill)
            return
        yield from _sorted(units, source, footers, spill)
    except pa.ArrowException as error:
        raise TableUnreadable(f"{source.paths[0]}: {error}") from error


def as_they_are(source: Source, footers: Footers) -> Iterator[Any]:
    """The rows as tables in the order in which they stand, whatever they are. Raises
    FileVanished, TableUnreadable and OSError."""
    try:
        for unit in units_of(source.paths, footers):
            yield from _in_pieces(unit, source, footers)
    except pa.ArrowException as error:
        raise TableUnreadable(f"{source.paths[0]}: {error}") from error


def sorted_by_offset(table: Any) -> Any:
    """The rows by offset; those of one offset in their order."""
    offsets = _offsets(table)
    if len(offsets) < 2 or int(np.diff(offsets).min()) >= 0:
        return table
    order: Any = np.argsort(offsets, kind="stable")
    return table.take(column_of(order, pa.int64()))


def _offsets(table: Any) -> Any:
    column = table.column("offset")
    if column.null_count:
        raise NotMergeable("it has rows without an offset: its owner's, and no records")
    return numbers(column)


def _alone(unit: Unit, source: Source, footers: Footers, spill: str) -> Iterator[Any]:
    """The rows of one row group, sorted. What a dictionary makes of an owner's is not
    in its footer: it is counted while it is read."""
    if span_of("/".join(unit.path.split(os.sep)[-2:])) is not None:
        yield sorted_by_offset(_whole(unit, source, footers))
        return
    parts: list[Any] = []
    size = 0
    for table in _in_pieces(unit, source, footers):
        parts.append(table)
        size += table.nbytes
        if size > WHOLE_BYTES_MAX:
            parts.clear()
            yield from _sorted([unit], source, footers, spill)
            return
    if parts:
        yield sorted_by_offset(pa.concat_tables(parts).combine_chunks())


def _whole(unit: Unit, source: Source, footers: Footers) -> Any:
    with footers.open(unit.path) as file:
        table = file.read_row_group(
            unit.number, columns=_there(file, unit, source), use_threads=False
        )
    table = _of_source(table, unit, source)
    return _rest(table, unit.path, unit.group.first_row, source)


def _of_source(table: Any, unit: Unit, source: Source) -> Any:
    """In the columns of the source; says of which file it cannot be."""
    try:
        return shaped(table, source.schema, source.partition)
    except pa.ArrowException as error:
        raise TableUnreadable(f"{unit.path}: {error}") from error


def _in_pieces(unit: Unit, source: Source, footers: Footers) -> Iterator[Any]:
    """The rows of a row group, some at a time; never none."""
    first_row = unit.group.first_row
    with footers.open(unit.path, buffered=True) as file:
        for batch in file.iter_batches(
            batch_rows(unit.group), row_groups=[unit.number],
            columns=_there(file, unit, source), use_threads=False,
        ):  # fmt: skip
            table = pa.Table.from_batches([batch])
            table = _of_source(table, unit, source)
            rest = _rest(table, unit.path, first_row, source)
            first_row += len(batch)
            if len(rest):
                yield rest


def _rest(table: Any, path: str, first_row: int, source: Source) -> Any:
    """The rows from this number of a file on without those that are left out."""
    taken = source.taken.get(path, ())
    if not len(taken):
        return table
    stays = staying(taken, first_row, len(table))
    return table.take(column_of(np.flatnonzero(stays).astype(np.int64), pa.int64()))


def staying(taken: Any, first_row: int, count: int) -> Any:
    """Of so many rows from this number on, which are not among these numbers, which
    rise."""
    stays = np.ones(count, np.bool_)
    low, high = np.searchsorted(taken, (first_row, first_row + count))
    stays[taken[low:high] - first_row] = False
    return stays


def _there(file: Any, unit: Unit, source: Source) -> list[str]:
    """Those of the columns that the file has, as it calls them."""
    names, wanted = file.schema_arrow.names, source.schema.names
    found = [spelled(name, names, unit.path) for name in wanted]
    return list(dict.fromkeys(name for name in found if name is not None))


def _sorted(
    units: Sequence[Unit], source: Source, footers: Footers, spill: str
) -> Iterator[Any]:
    """All rows, by way of runs of which never too many are read at once."""
    runs = list(_runs(units, source, footers, spill))
    made = 0
    while len(runs) > RUNS_MAX:
        few, runs = runs[:RUNS_MAX], runs[RUNS_MAX:]
        path = os.path.join(spill, f"joined-{made}.run")
        runs.append(_write_tables(_paced(_side_by_side(few), source), path))
        made += 1
    yield from _side_by_side(runs)


def _paced(tables: Iterator[Any], source: Source) -> Iterator[Any]:
    for table in tables:
        yield table
        source.after(table.num_rows)


def _runs(
    units: Sequence[Unit], source: Source, footers: Footers, spill: str
) -> Iterator[str]:
    """Sorted runs of all rows, as files in ``spill``."""
    parts: list[Any] = []
    size = count = 0
    for unit in units:
        for table in _in_pieces(unit, source, footers):
            parts.append(table)
            size += table.nbytes
            source.after(table.num_rows)
            if size >= RUN_BYTES:
                yield _write_run(parts, os.path.join(spill, f"{count}.run"))
                parts, size, count = [], 0, count + 1
    if parts:
        yield _write_run(parts, os.path.join(spill, f"{count}.run"))


def _write_run(parts: list[Any], path: str) -> str:
    table = sorted_by_offset(pa.concat_tables(parts).combine_chunks())
    return _write_tables(iter([table]), path)


def _write_tables(tables: Iterator[Any], path: str) -> str:
    """Write tables that follow each other in order of offset; there is one at least."""
    table = next(tables)
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with (
        pa.OSFile(path, "wb") as sink,
        pa.ipc.new_file(sink, table.schema, options=options) as writer,
    ):
        for part in chain([table], tables):
            check_room(os.path.dirname(path))
            for step in _steps(part):
                writer.write_table(step)
    return path


def _steps(table: Any) -> Iterator[Any]:
    """The same in parts that take little, wherever the large rows are: one of each run
    is in memory."""
    if table.num_rows < 2 or table.nbytes <= STEP_BYTES:
        yield table
        return
    middle = table.num_rows // 2
    yield from _steps(table.slice(0, middle))
    yield from _steps(table.slice(middle))


class _Run:
    """A run that is read step by step."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = pa.OSFile(path, "rb")
        self._reader = pa.ipc.open_file(self._file)
        self._next = 0
        self.step: Any = None
        self.last = -1
        self._advance()

    def take(self, offset: int) -> Any:
        """The rows of this step up to an offset; the rest of it, or the next, stays."""
        step = self.step
        count = int(np.searchsorted(numbers(step.column("offset")), offset, "right"))
        if count == step.num_rows:
            self._advance()
        else:
            self.step = step.slice(count)
        return step.slice(0, count)

    def _advance(self) -> None:
        if self._next == self._reader.num_record_batches:
            self.step = None
            self._file.close()
            os.unlink(self._path)
            return
        batch = self._reader.get_batch(self._next)
        self._next += 1
        self.step = pa.Table.from_batches([batch])
        self.last = int(batch.column("offset")[-1].as_py())


def _side_by_side(paths: Sequence[str]) -> Iterator[Any]:
    runs = [_Run(path) for path in paths]
    while open_runs := [run for run in runs if run.step is not None]:
        reach = min(run.last for run in open_runs)
        parts = [run.take(reach) for run in open_runs]
        found = pa.concat_tables([part for part in parts if part.num_rows])
        yield sorted_by_offset(found.combine_chunks())
