"""A partition without the rows whose keys came again. Runs in Spark's Python workers.

The problem: what is written here takes the place of what records are in, for good; and
neither the keys of a partition nor its rows fit into memory. The idea: the files are
read twice. First the keys alone: of the dirty ones the last offset of each key
(`latest`), then of all files which rows have a later one, a bit for each. Then the
rows, as merges read and write them (`jobs.merging.rewrite`), without those. What is
read the second time must be what was read the first time, and what is written is read
once more: of each key of the dirty rows just one row had no later one, and the new
files have just the rows that were to stay.

Rows without a key go, as in Kafka, and tombstones when it is time. The very last row
always stays: the end of a partition is seen in it.

The price: 128 MiB for four million keys, a bit for each row, and what a merge takes.

Source: Kafka's ``Cleaner.buildOffsetMap``, ``shouldRetainRecord``.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

from broker.failpoints import passing
from jobs.cleaning.plan import Group
from jobs.merging.names import Mark, merged_name
from jobs.merging.rewrite import (
    NICENESS,
    Digest,
    Pause,
    all_shown,
    attempted,
    checked,
    digest_of,
    row_groups,
    stop_file,
    write_groups,
)
from jobs.priority import set_worker_niceness
from jobs.rows import Bounds, Failed, Written
from lakehouse.in_flight import hidden
from lakehouse.log.actions import DataFile

KEYS: Final = ("offset", "key")


class CleanTask(NamedTuple):
    """``groups`` of files below ``root`` are to become a file each, or none.

    ``columns``, ``spill`` and ``bytes_per_s`` as of a `MergeTask`; ``attempt``: part of
    the new files' names, which nobody else has. ``end``: behind the last row.
    """

    root: str
    partition: int
    end: int
    groups: tuple[Group, ...]
    attempt: str
    columns: bytes
    spill: str
    bytes_per_s: int = 0

    @property
    def path(self) -> str:
        """The first of its files."""
        return self.groups[0].files[0].relative_path


class Cleaned(NamedTuple):
    """The files that are there, durable but not committed; ``keys``: of dirty rows."""

    files: tuple[Written, ...]
    keys: int
    rows: int


def work(task: CleanTask) -> Cleaned | Failed:
    """What a Spark task does: `clean_files` at the lowest priority."""
    set_worker_niceness(NICENESS)
    return clean_files(task)


def clean_files(task: CleanTask) -> Cleaned | Failed:
    """Write the files, synced with their directory; or why they were not."""
    return attempted(task, partial(_clean, task))


def _clean(task: CleanTask, spill: str, written: list[str]) -> Cleaned:
    from lakehouse.files.footers import Footers

    counts = [sum(file.rows for file in group.files) for group in task.groups]
    size = sum(file.size for group in task.groups for file in group.files)
    pause = Pause(size, sum(counts), task.bytes_per_s, stop_file(task.spill))
    source = _Source(task, Footers(), spill, pause)
    gone = _Bits(counts)
    keys = _find_superseded(source, gone)
    done: list[tuple[str, Bounds]] = []
    before: list[DataFile] = []  # files of which nothing stays
    for number, group in enumerate(task.groups):
        found = _write(source, group, before, gone.get(number), written)
        passing("clean.after_group")
        before = [] if found else [*before, *group.files]
        done += [found] if found else []
    assert not before, "the last row stays"
    return Cleaned(all_shown(task.root, done), keys, sum(counts))


class _Bits:
    """A bit for each row of each group, in order."""

    def __init__(self, counts: Sequence[int]) -> None:
        import numpy as np

        self._counts = counts
        self._packed = [np.zeros(-(-count // 8), np.uint8) for count in counts]

    def get(self, number: int) -> Any:
        import numpy as np

        count = self._counts[number]
        return np.unpackbits(self._packed[number], count=count).astype(bool)

    def set(self, number: int, bits: Any) -> None:
        import numpy as np

        self._packed[number] = np.packbits(bits)


class _Source:
    """Reads the files of a task, group by group."""

    def __init__(self, task: CleanTask, footers: Any, spill: str, pause: Pause) -> None:
        import pyarrow as pa

        self.task, self.pause = task, pause
        self._footers, self._spill = footers, spill
        self.schema = pa.ipc.read_schema(pa.py_buffer(task.columns))

    def tables(self, files: Sequence[DataFile], names: Sequence[str] = ()) -> Any:
        """Their rows as tables in order of offset, of some columns or all."""
        import pyarrow as pa

        from jobs.merging.order import Source, in_order

        wanted = [self.schema.field(name) for name in names or self.schema.names]
        paths = [os.path.join(self.task.root, file.relative_path) for file in files]
        source = Source(paths, self.task.partition, pa.schema(wanted))
        with tempfile.TemporaryDirectory(dir=self._spill) as spill:
            for table in in_order(source, self._footers, spill):
                if table.num_rows:
                    yield table

    def keys(self, group: Group) -> Iterator[tuple[Any, Any]]:
        """(Offsets, column of keys) of the rows of a group, some at a time."""
        from lakehouse.plain import numbers

        share = self._share_of_keys(group.files)
        for table in self.tables(group.files, KEYS):
            self.pause.after(int(table.num_rows * share))
            for batch in table.to_batches():
                yield numbers(batch.column("offset")), batch.column("key")

    def _share_of_keys(self, files: Sequence[DataFile]) -> float:
        """How much of the bytes of some files is read where keys alone are."""
        keys = total = 0
        for file in files:
            path = os.path.join(self.task.root, file.relative_path)
            for group in self._footers.get(path).groups:
                total += group.compressed
                keys += group.compressed_keys
        return keys / max(1, total)


def _find_superseded(source: _Source, gone: _Bits) -> int:
    """Set the bits of the rows that have a later one of their key, or no key. Returns
    how many keys the dirty rows have. Raises ValueError if the files have not the rows
    that the log says.
    """
    from jobs.cleaning.latest import Full, Latest

    groups = source.task.groups
    dirty = [group for group in groups if group.is_dirty]
    latest = Latest(sum(file.rows for group in dirty for file in group.files))
    keys, shares = 0, [(0, 1)]
    while shares:
        share, of = shares.pop()
        latest.begin(share, of)
        try:
            for group in dirty:
                _learn(source.keys(group), latest, sum(f.rows for f in group.files))
        except Full:
            shares += [(share, 2 * of), (share + of, 2 * of)]
            continue
        last_rows = 0
        for number, group in enumerate(groups):
            bits = gone.get(number)
            last_rows += _mark(source.keys(group), latest, bits)
            gone.set(number, bits)
        if last_rows != latest.keys:
            raise ValueError(f"{latest.keys} keys have {last_rows} last rows")
        keys += latest.keys
    return keys


def _learn(rows: Iterator[tuple[Any, Any]], latest: Any, count: int) -> None:
    """Put so many rows into a table. Raises Full; ValueError if there are others."""
    at = 0
    for offsets, column in rows:
        latest.put(*_with_keys(offsets, column))
        at += len(offsets)
    if at != count:
        raise ValueError(f"there are {at} rows, and the log says {count}")


def _with_keys(offsets: Any, column: Any) -> tuple[Any, Any]:
    """(Column of keys, offsets) of the rows that have one."""
    from lakehouse.plain import absent

    missing = absent(column)
    return (
        (column.drop_null(), offsets[~missing]) if missing.any() else (column, offsets)
    )


def _mark(rows: Iterator[tuple[Any, Any]], latest: Any, gone: Any) -> int:
    """Mark those whose key is in a table with a later offset; how many are there with
    their own. Raises ValueError if there are other rows than places."""
    import numpy as np

    from lakehouse.plain import absent

    at = last_rows = 0
    for offsets, column in rows:
        missing = absent(column)
        found = np.full(len(offsets), -1, np.int64)
        found[~missing] = latest.find(column.drop_null())
        if at + len(offsets) > len(gone):
            raise ValueError(f"there are more rows than the {len(gone)} of the log")
        gone[at : at + len(offsets)] |= missing | (found > offsets)
        last_rows += int((found == offsets).sum())
        at += len(offsets)
    if at != len(gone):
        raise ValueError(f"there are {at} rows, and the log says {len(gone)}")
    return last_rows


def _write(
    source: _Source,
    group: Group,
    before: Sequence[DataFile],
    gone: Any,
    written: list[str],
) -> tuple[str, Bounds] | None:
    """Write what stays of a group, in a hidden file that stands for those ``before``,
    too; None if nothing does."""
    task, kept = source.task, _Kept()
    sources = [*before, *group.files]
    path = _name(task, sources, group.since_ms)
    target = os.path.join(task.root, path)
    tables = checked(source.tables(group.files), task.partition)
    groups = row_groups(kept.of(tables, gone, group.is_expired, task.end - 1))
    first = next(groups, None)
    if first is None:
        return None
    written.append(path)
    bounds = write_groups(target, source.schema, chain([first], groups), source.pause)
    if not kept.has_tombstones and group.since_ms:
        path = _name(task, sources, 0)
        written.append(path)
        other, target = target, os.path.join(task.root, path)
        os.rename(hidden(other), hidden(target))
    found = digest_of([hidden(target)], rising=True)
    if found != kept.digest:
        raise ValueError(f"what was written is not what stays: {kept.digest}, {found}")
    return path, bounds


def _name(task: CleanTask, files: Sequence[DataFile], since_ms: int) -> str:
    return merged_name(files, task.attempt, Mark(task.end, since_ms))


class _Kept:
    """The rows that stay, and what is known of them."""

    def __init__(self) -> None:
        self.has_tombstones = False
        self.digest = Digest()

    def of(
        self, tables: Iterator[Any], gone: Any, is_expired: bool, last: int
    ) -> Iterator[Any]:
        """Those of ``tables``. Raises ValueError if they are not as many as before."""
        import numpy as np

        from jobs.merging.rewrite import digest_of_offsets
        from lakehouse.plain import absent, column_of, numbers

        at = 0
        for table in tables:
            offsets, rest = numbers(table.column("offset")), len(gone) - at
            if len(offsets) > rest:
                raise ValueError("there are more rows than before")
            value = table.column("value").combine_chunks()
            is_tombstone = absent(value)
            leaves = gone[at : at + len(offsets)].copy()
            if is_expired:
                leaves |= is_tombstone
            leaves &= offsets != last
            at += len(offsets)
            stays: Any = np.flatnonzero(~leaves)
            self.has_tombstones |= bool(is_tombstone[stays].any())
            self.digest = digest_of_offsets(offsets[stays], self.digest)
            if len(stays):
                yield table.take(column_of(stays.astype(np.int64), _int64()))
        if at != len(gone):
            raise ValueError(f"there are {at} rows, and were {len(gone)}")


def _int64() -> Any:
    import pyarrow as pa

    return pa.int64()
