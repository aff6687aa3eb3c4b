"""One slice of a partition becomes one Parquet file. Runs in Spark's Python workers.

The problem: this is where the bytes are, so it must be fast, and its memory must not
follow the size of the slice or how far its batches decompress. The idea: batches are
copied out of their segment (`jobs.slices`), decoded in groups of a row group's size,
and each group is written and forgotten. Nothing here is committed; what a killed worker
leaves behind is an orphan.

Source of the shape of a file: `lakehouse.schema` and the measurements it follows.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from broker.protocol.errors import KafkaError
from broker.records.columns import decode
from broker.storage.segment import StaleSegment
from jobs.damaged import first_failing
from jobs.priority import set_worker_niceness
from jobs.slices import Slice, read_batches
from lakehouse.in_flight import begin, hidden, show

_REPEATING: Any = [
    "partition",
    "timestampType",
    "topic",
    "key",
    "headers.list.element.key",
]


class FileTask(NamedTuple):
    """The rows of ``[start, end)`` are to be written to ``root/path``.

    ``niceness`` is the worker's while it does this.
    """

    root: str
    path: str
    topic: str
    partition: int
    start: int
    end: int
    slices: Sequence[Slice]
    niceness: int = 0


class Written(NamedTuple):
    """A file that is there, durable but not committed. ``rows`` 0: no file was made."""

    path: str
    rows: int
    size: int
    first_offset: int
    last_offset: int
    timestamp_min_ms: int
    timestamp_max_ms: int
    modified_ms: int
    nameless: int = 0
    """Rows without an offset, an owner's; if all are, what is said of offsets is 0."""
    timeless: int = 0
    """The same of timestamps."""


class Failed(NamedTuple):
    """A file that could not be written; ``stale``: plan again, the data are fine.
    ``offset``, ``last``: the first and the last one of the batch for which it could not
    be, -1: not known. ``is_behind``: others of what was to be written come before it.
    """

    path: str
    why: str
    stale: bool
    offset: int = -1
    last: int = -1
    is_behind: bool = False


def work(tasks: Sequence[FileTask]) -> list[Written | Failed]:
    """What a Spark task does: write its files, at the niceness that they ask for."""
    if tasks:
        set_worker_niceness(tasks[0].niceness)
    return write_files(tasks)


def write_files(tasks: Sequence[FileTask]) -> list[Written | Failed]:
    """Write each file; one slice that fails does not fail the others."""
    done: list[Written | Failed] = []
    for task in tasks:
        try:
            done.append(write_file(task))
        except StaleSegment as error:
            done.append(Failed(task.path, str(error), stale=True))
        except FileNotFoundError as error:
            done.append(Failed(task.path, f"gone: {error}", stale=True))
        except (KafkaError, OSError) as error:
            at = _damaged_at(task)
            done.append(Failed(task.path, str(error), stale=False, offset=at))
    return done


def _damaged_at(task: FileTask) -> int:
    """The first offset of the batch for which a file failed; -1: none fails now."""

    def fails(some: Sequence[Slice]) -> bool:
        try:
            for _ in decode(read_batches(some), task.start, task.end):
                pass
        except FileNotFoundError:
            raise
        except (KafkaError, OSError):
            return True
        return False

    try:
        found = first_failing(task.slices, fails)
    except (StaleSegment, FileNotFoundError):
        return -1
    return -1 if found is None else found


def write_file(task: FileTask) -> Written:
    """Write one file, synced with its directory.

    Raises StaleSegment, KafkaError (a batch is damaged) and OSError; the file is then
    removed.
    """
    target = os.path.join(task.root, task.path)
    groups = decode(
        read_batches(task.slices),
        task.start,
        task.end,
        topic=task.topic,
        partition=task.partition,
    )
    first = next(groups, None)
    if first is None:
        return Written(task.path, 0, 0, -1, -1, 0, 0, 0)
    try:
        bounds = _write(begin(target), first, groups)
        return sync_written(task.path, target, bounds)
    except BaseException:
        discard(target)
        raise


class Bounds:
    """What the statistics of a file will say; its row groups are added in order."""

    def __init__(self) -> None:
        self.rows = self.nameless = self.timeless = 0
        self.offsets: list[int] = []
        self.micros: list[int] = []

    def add(self, group: Any) -> None:
        import pyarrow.compute as pc

        micros: Any = pc.min_max(group["timestamp"].cast("int64"))
        self.rows += group.num_rows
        self.offsets += [group["offset"][0].as_py(), group["offset"][-1].as_py()]
        self.micros += [micros["min"].as_py(), micros["max"].as_py()]


class AnyBounds(Bounds):
    """The same of rows in any order, which may lack offset and timestamp."""

    def add(self, group: Any) -> None:
        offsets, times = group["offset"], group["timestamp"].cast("int64")
        self.rows += group.num_rows
        self.nameless += offsets.null_count
        self.timeless += times.null_count
        self.offsets += _known_bounds(offsets)
        self.micros += _known_bounds(times)


def _known_bounds(column: Any) -> list[int]:
    import pyarrow.compute as pc

    found: Any = pc.min_max(column)
    return [one for one in found.as_py().values() if one is not None]


def _write(target: str, first: Any, groups: Iterator[Any]) -> Bounds:
    """Each group becomes a row group."""
    import pyarrow.parquet as pq

    from lakehouse import schema

    bounds = Bounds()
    with pq.ParquetWriter(
        target,
        schema.WRITE,
        compression=schema.COMPRESSION,  # type: ignore[arg-type]
        compression_level=schema.COMPRESSION_LEVEL,
        # Values rarely repeat: looking for it costs more than it saves.
        use_dictionary=_REPEATING,
        column_encoding={
            "offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED",
        },
        write_statistics=["partition", "offset", "timestamp"],
        write_page_checksum=True,  # soon it is the only copy
    ) as writer:  # fmt: skip
        group: Any = first
        while group is not None:
            bounds.add(group)
            writer.write_batch(group, row_group_size=group.num_rows)
            group = next(groups, None)
    return bounds


def sync_written(path: str, target: str, bounds: Bounds) -> Written:
    """What is to be said of a file that was written hidden, once it has its name and is
    durable with its directory."""
    status = show(target)
    return Written(
        path, bounds.rows, status.st_size,
        min(bounds.offsets, default=0), max(bounds.offsets, default=0),
        min(bounds.micros, default=0) // 1000, max(bounds.micros, default=0) // 1000,
        status.st_mtime_ns // 1_000_000, bounds.nameless, bounds.timeless,
    )  # fmt: skip


def discard(target: str) -> None:
    """Delete a file if it is there, hidden or not."""
    for path in (hidden(target), target):
        with suppress(FileNotFoundError):
            os.unlink(path)


def warm() -> None:
    """Load what a worker needs; done once, before workers are forked."""
    import pyarrow
    import pyarrow.parquet

    from broker.records import kernels

    assert kernels.OK == 0
    # One worker has one core; threads of its own would only be in the way.
    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)
