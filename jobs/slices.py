"""Reading what was planned out of segments, and noticing that it is not there any more.

The problem: a segment's file is used again once everything in it stands in tables, so
whoever reads it with an old plan must notice; and what is to be asked of each batch
takes far longer than its record if it has but one. The idea: batches are copied first
and looked at then. Of each the entry must name the segment's generation, the offset
must be the planned one and the checksum right. Where they lie close together, a
mebibyte of the segment is copied at once and all of its batches are asked at once; of
one that is not as planned nothing is said there: each is read by itself then, and the
one says what is wrong with it. The price: what lies between them is copied, too.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import checksum, read_header
from broker.records.layout import CONTROL_BIT, TRANSACTIONAL_BIT
from broker.records.runs import Ints, Run
from broker.storage.entry import ENTRY_HEADER_BYTES, mark_of
from broker.storage.many_entries import planned
from broker.storage.open_segment import SegmentBytes
from broker.storage.store import SegmentStore, open_store

STORES_KEPT_MAX: Final = 4
RUN_BYTES: Final = 1 << 20
"""So much of a segment is copied at once, and one batch more."""
APART_BYTES: Final = 8 << 10
"""Batches that take more of the segment than so much each are read one by one."""


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


def read_batches(slices: Sequence[Slice]) -> Iterator[memoryview | Run]:
    """The batches that count, verified to be the planned ones, as copies that nobody
    changes: memoryviews and `Run` s, in order. Those that do not count are looked at as
    well: damage must not hide in them.

    Raises StaleSegment; KafkaError CORRUPT_MESSAGE for one that is damaged; OSError.
    """
    for one in slices:
        plan = _Plan.of(one)
        with _store(one.store).opened(one.sequence) as segment:
            for some in plan.windows():
                run = some.run(segment) if some.is_dense else None
                if run is None:
                    yield from some.one_by_one(segment)
                elif len(run):
                    yield run


class _Plan(NamedTuple):
    """A slice, or some of it, as arrays; ``counts``: which have rows."""

    sequence: int
    bases: Ints
    positions: Ints
    lengths: Ints
    counts: npt.NDArray[np.bool_]

    @staticmethod
    def of(one: Slice) -> "_Plan":
        bases, positions, lengths = (np.frombuffer(c, np.int64) for c in one[2:5])
        counts = one.counts or bytes([True]) * len(bases)
        return _Plan(
            one.sequence, bases, positions, lengths, np.frombuffer(counts, np.bool_)
        )

    def windows(self) -> Iterator["_Plan"]:
        """In parts, each of which begins within one `RUN_BYTES` of the segment."""
        edges = np.flatnonzero(np.diff(self.positions // RUN_BYTES)) + 1
        bounds = [0, *edges.tolist(), len(self.positions)]
        for start, stop in pairwise(bounds):
            some = slice(start, stop)
            yield _Plan(
                self.sequence, self.bases[some], self.positions[some],
                self.lengths[some], self.counts[some],
            )  # fmt: skip

    @property
    def is_dense(self) -> bool:
        """Whether to read all of it at once takes less than each by itself."""
        count = len(self.positions)
        return count > 1 and self._end - self._start <= APART_BYTES * count

    @property
    def _start(self) -> int:
        return int(self.positions[0]) - ENTRY_HEADER_BYTES

    @property
    def _end(self) -> int:
        return int(self.positions[-1] + self.lengths[-1])

    def run(self, segment: SegmentBytes) -> Run | None:
        """Those that count, as a `Run`; None unless all is as it should be."""
        data = segment.read_range(self._start, self._end - self._start)
        at = self.positions - self._start
        found = planned(memoryview(data), at, self.lengths, self.bases, self.sequence)
        if found is None:
            return None
        attributes = found["attributes"].astype(np.int64)
        records = found["record_count"].astype(np.int64)
        uncounted = attributes[~self.counts]
        if not (uncounted & (TRANSACTIONAL_BIT | CONTROL_BIT)).all():
            return None
        return Run(data, at, self.lengths, records, attributes).cut(self.counts)

    def one_by_one(self, segment: SegmentBytes) -> Iterator[memoryview]:
        """Each that counts; raises as `read_batches` at the first that is not as
        planned."""
        arrays = self.bases, self.positions, self.lengths, self.counts
        columns = (array.tolist() for array in arrays)
        for base, position, length, counts in zip(*columns, strict=True):
            batch = _batch(segment, self.sequence, base, position, length)
            if counts:
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
