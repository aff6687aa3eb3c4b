"""One slice of a partition becomes one Parquet file. Runs in Spark's Python workers.

The problem: this is where the bytes are, so it must be fast, and its memory must not
follow the size of the slice or how far its batches decompress. The idea: batches are
copied out of their segment one by one, decoded in groups of a row group's size, and
each group is written and forgotten.

A segment's file is used again once everything in it stands in tables. Whoever reads it
with an old plan must notice: each batch is copied first and looked at then, its entry
must name the segment's generation, its offset must be the planned one and its checksum
right. Nothing here is committed; what a killed worker leaves behind is an orphan.

Source of the shape of a file: `lakehouse.schema` and the measurements it follows.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, NamedTuple

from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import checksum, read_header
from broker.records.columns import decode
from broker.storage.entry import ENTRY_HEADER_BYTES, mark_of
from broker.storage.segment import StaleSegment
from broker.storage.store import SegmentBytes, SegmentStore, open_store
from jobs.priority import set_worker_niceness
from lakehouse.in_flight import begin, hidden, show

STORES_KEPT_MAX: Final = 4

_REPEATING: Any = [
    "partition",
    "timestampType",
    "topic",
    "key",
    "headers.list.element.key",
]


class Slice(NamedTuple):
    """Batches of one segment, in order: plain values, as they travel to a worker.

    ``store``: the address of the segment's store. ``sequence`` is the generation of its
    entries too. The three columns are int64 arrays as bytes. ``counts``: a byte each, 0
    of a batch that has no rows; empty: all have.
    """

    store: str
    sequence: int
    bases: bytes
    positions: bytes
    lengths: bytes
    counts: bytes = b""


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


class Failed(NamedTuple):
    """A file that could not be written; ``stale``: plan again, the data are fine."""

    path: str
    why: str
    stale: bool


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
            done.append(Failed(task.path, str(error), stale=False))
    return done


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


def read_batches(slices: Sequence[Slice]) -> Iterator[memoryview]:
    """Each batch that counts, as a copy that nobody changes, verified to be the planned
    one. Those that do not count are looked at as well: damage must not hide in them."""
    import numpy as np

    for one in slices:
        columns = (np.frombuffer(c, np.int64).tolist() for c in one[2:5])
        counts = one.counts or bytes([True]) * (len(one.bases) // 8)
        with _store(one.store).opened(one.sequence) as segment:
            for base, position, length, counts_so in zip(*columns, counts, strict=True):
                batch = _batch(segment, one.sequence, base, position, length)
                if counts_so:
                    yield batch
                else:
                    _check_uncounted(batch)


def _check_uncounted(batch: memoryview) -> None:
    """Raise KafkaError CORRUPT_MESSAGE unless it is whole and of a transaction."""
    header = read_header(batch)
    is_whole = header.size == len(batch) and checksum(batch) == header.crc
    if not is_whole or not (header.is_transactional or header.is_control):
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"the batch at offset {header.base_offset} is not what it was taken for",
        )


@lru_cache(STORES_KEPT_MAX)
def _store(address: str) -> SegmentStore:
    """One per worker: it remembers where segments are."""
    return open_store(address)


def _batch(
    segment: SegmentBytes, sequence: int, base: int, position: int, length: int
) -> memoryview:
    start = position - ENTRY_HEADER_BYTES
    copy = segment.read_range(start, ENTRY_HEADER_BYTES + length)
    batch = memoryview(copy)[ENTRY_HEADER_BYTES:]
    mark = mark_of(sequence)
    if not copy.startswith(mark) or read_header(batch).base_offset != base:
        segment.check_current()
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {base} is damaged"
        )
    return batch


class Bounds:
    """What the statistics of a file will say; its row groups are added in order."""

    def __init__(self) -> None:
        self.rows = 0
        self.offsets: list[int] = []
        self.micros: list[int] = []

    def add(self, group: Any) -> None:
        import pyarrow.compute as pc

        micros: Any = pc.min_max(group["timestamp"].cast("int64"))
        self.rows += group.num_rows
        self.offsets += [group["offset"][0].as_py(), group["offset"][-1].as_py()]
        self.micros += [micros["min"].as_py(), micros["max"].as_py()]


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
        min(bounds.offsets), max(bounds.offsets),
        min(bounds.micros) // 1000, max(bounds.micros) // 1000,
        status.st_mtime_ns // 1_000_000,
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
