"""Reading for a fetch: from memory at once, from segments and tables on threads.

The problem: one answer holds many partitions, each of which may stand in memory, in an
older segment or only in the table, and the limits (each partition's, and the answer's)
run through all of them in order. The idea: plan first, without reading: the index says
which batches a partition would give and how many bytes they are. If all of them are in
memory, the answer is made of views and leaves at once. Otherwise the rest is read on
threads, everything side by side, and the answer follows. Thousands of partitions are
planned, and begun to be read, in several turns of the loop.

A partition's part comes from one place: where memory, segments and table meet, it ends,
and the client comes again. The price of planning: a cold partition reserves all that it
may give before anybody knows how much it has.

Rules of the limits: ``ReplicaManager.readFromLog`` and KIP-74: the first partition that
has anything gives at least one whole batch, however large; later ones give what fits.
"""

import asyncio
from collections.abc import Coroutine, Generator, Sequence
from typing import Any, TypeVar

import structlog

from broker.lake.buffer_pool import retained_bytes
from broker.log.transactions import AbortedTransaction
from broker.protocol.buffers import Buffer
from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import empty_batches
from broker.runtime.partitions.coverage import missing_error, undecided_error
from broker.runtime.partitions.partition import Partition, Spans, bare
from broker.runtime.ports import Tables
from broker.runtime.process.long_work import LongWork
from broker.storage.wal import StaleSegment, Wal

log = structlog.get_logger("lakelog.reads")

TURN_PLACES = 500
"""So many partitions of a fetch are looked at in one turn of the loop."""
TURN_READINGS = 20
"""So many begin to be read."""
JOINED_BELOW_BYTES = 4096
COLD_BYTES_MIN = 1 << 16
REPORTED_MAX = 1_000
LOOKS_MAX = 4
"""So often is a batch looked for whose segment is not there any more."""
BATCHES_MAX = 1_500
"""Of one partition in one answer. More tiny batches would hold up the loop for
milliseconds; the client comes again at once."""
ROUNDS_MAX = 20
"""So often does one answer go on to those behind what cannot be read."""


Reading = Coroutine[Any, Any, None]

T = TypeVar("T")

Steps = Generator[None, None, T]
"""Yields where others may have their turn; returns what came of it."""


def to_its_end(steps: Steps[T]) -> T:
    """Return what the steps return, without a turn for others."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            made: T = end.value
            return made


class Place:
    """Where a fetch reads in one partition, and what it got there.

    Without a partition, or with an error, nothing is read. ``spans`` and
    ``cold_bytes_max`` are the plan of what a thread reads; both empty: all is there.
    ``at_least_one``: it gives a whole batch, however large, while the answer has room.
    ``committed``: nothing of an open transaction is read, and ``aborted`` says what of
    it does not count.
    """

    __slots__ = (
        "aborted", "at_least_one", "buffers", "bytes_max", "cold_bytes_max",
        "committed", "error", "offset", "partition", "spans",
    )  # fmt: skip

    def __init__(
        self,
        partition: Partition | None,
        offset: int,
        bytes_max: int,
        error: KafkaError | None = None,
    ) -> None:
        self.partition = partition
        self.offset = offset
        self.bytes_max = bytes_max
        self.error = error
        self.at_least_one = False
        self.committed = False
        self.aborted: Sequence[AbortedTransaction] = ()
        self.buffers: Sequence[Buffer] = ()
        self.spans: Spans = []
        self.cold_bytes_max = 0

    @property
    def is_later(self) -> bool:
        """Whether a thread must read."""
        return bool(self.spans) or self.cold_bytes_max > 0

    def clear(self) -> None:
        """Forget the plan and what was read."""
        self.buffers, self.spans, self.cold_bytes_max = (), [], 0
        self.aborted = ()

    @property
    def later_bytes(self) -> int:
        """About how many bytes a thread will read."""
        return self.cold_bytes_max + sum(length for _, length in self.spans)

    @property
    def size(self) -> int:
        """Bytes that were read."""
        return sum(map(len, self.buffers))

    @property
    def retained_bytes(self) -> int:
        """Bytes that stay in memory for what was read: batches that were rebuilt out of
        a table share theirs with all of a chunk, and each keeps the whole of it."""
        if not self.cold_bytes_max:
            return self.size
        return retained_bytes(self.buffers)

    def detach(self) -> None:
        """Copy what shares its memory; blocks for a millisecond or so per MiB."""
        self.buffers = [bytes(buffer) for buffer in self.buffers]


class Reader:
    """Fills the places of a fetch under the limits of one answer."""

    def __init__(self, wal: Wal, lake: Tables) -> None:
        self._wal = wal
        self._lake = lake
        self._reported: set[str] = set()

    def available(
        self, partition: Partition, offset: int, committed: bool = False
    ) -> int:
        """About how many bytes a fetch finds; see ``Partition.available``."""
        if offset >= partition.end(committed=committed):
            return 0
        return partition.available(offset, self._table_end(partition), committed)

    def read(self, places: Sequence[Place], bytes_max: int) -> Reading | None:
        """As ``read_in_turns``, in one."""
        return to_its_end(self.read_in_turns(places, bytes_max))

    def read_in_turns(
        self, places: Sequence[Place], bytes_max: int
    ) -> Steps[Reading | None]:
        """Fill ``buffers`` of each place; returns what reads the rest, None if all is
        there. Yields after each ``TURN_PLACES``."""
        later = yield from self._plan_in_turns(places, bytes_max)
        return self._read_later(places, bytes_max) if later else None

    def _plan_in_turns(self, places: Sequence[Place], bytes_max: int) -> Steps[bool]:
        """Take what is in memory, and plan the rest; whether anything is left to be
        read. Yields after each ``TURN_PLACES``."""
        room, nothing_yet, later = bytes_max, True, False
        for count, place in enumerate(places):
            if count and count % TURN_PLACES == 0:
                yield
            if place.partition is None or place.error is not None:
                continue
            limit = min(place.bytes_max, room)
            greedy = nothing_yet or (place.at_least_one and room > 0)
            size = self._plan(place, place.partition, limit, greedy)
            if size:
                nothing_yet = False
                room -= size
                later = later or place.is_later
        return later

    def _table_end(self, partition: Partition) -> int:
        return self._lake.table_end(partition.number, partition.index)

    def _plan(
        self, place: Place, partition: Partition, limit: int, greedy: bool
    ) -> int:
        """Bytes that the place gives within ``limit``; greedy: one batch at least."""
        offset, end = place.offset, partition.end(committed=place.committed)
        if offset >= end or (limit <= 0 and not greedy):
            return 0
        if partition.log.is_in_segments(offset):
            if place.committed and (error := undecided_error(partition, offset)):
                self._fail(place, error)
                return 0
            return self._take(place, _span(place, partition, limit, greedy))
        if offset < self._table_end(partition):
            place.cold_bytes_max = max(limit, 1)
            return place.cold_bytes_max
        return self._plan_hole(place, partition)

    def _plan_hole(self, place: Place, partition: Partition) -> int:
        """Bytes that carry a consumer over a refused batch; anything else is lost."""
        hole_end = partition.log.hole_end(place.offset)
        if hole_end is None:
            self._fail(place, missing_error(partition, place.offset, self._lake))
            return 0
        place.buffers = empty_batches(place.offset, hole_end)
        return place.size

    def _take(self, place: Place, spans: Spans) -> int:
        """Views of what is in memory, up to the first batch that is not; or, if that
        is the very first, where all of them lie. Returns their bytes."""
        views = self._wal.views(spans)
        if views:
            size = sum(map(len, views))
            place.buffers = coalesced(views, size)
            return size
        place.spans = spans
        return sum(length for _, length in spans)

    async def _read_later(self, places: Sequence[Place], bytes_max: int) -> None:
        """Read what is planned. Where nothing comes of it, as of files that are gone,
        what found no room behind it has its turn: who reads on elsewhere must not be
        kept from it by what cannot be read."""
        for _ in range(ROUNDS_MAX):
            if await self._read_planned(places, bytes_max):
                return
            places = [place for place in places if not place.is_later]
            if not await LongWork().completed(self._plan_in_turns(places, bytes_max)):
                return

    async def _read_planned(self, places: Sequence[Place], bytes_max: int) -> bool:
        """Read it, and keep what the limits allow; whether that is anything."""
        later = [place for place in places if place.is_later]
        tasks = []
        for place in later:
            tasks.append(asyncio.ensure_future(self._fill(place)))
            if len(tasks) % TURN_READINGS == 0:
                await asyncio.sleep(0)
        for task in tasks:
            await task
        room, nothing_yet = bytes_max, True
        for place in places:
            # Those in memory, too: a cold one gives a batch larger than it reserved.
            limit = min(place.bytes_max, room)
            greedy = nothing_yet or (place.at_least_one and room > 0)
            place.buffers = _fitting(place.buffers, limit, greedy)
            size = place.size
            room -= size
            nothing_yet = nothing_yet and size == 0
        return not nothing_yet

    async def _fill(self, place: Place) -> None:
        partition = place.partition
        assert partition is not None
        try:
            if place.spans:
                await self._read_segments(place, partition)
            else:
                await self._read_table(place, partition)
        except KafkaError as error:
            self._fail(place, error)
        except OSError as error:
            self._fail(place, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))

    def _fail(self, place: Place, error: KafkaError) -> None:
        """Refuse the place; log it once, as the client will ask again and again."""
        place.error, place.buffers = bare(error), ()
        reported = self._reported
        if place.partition is None or error.message in reported:
            return
        if self._wal.is_closed:  # it reads for nobody: its connection is gone
            return
        if len(reported) >= REPORTED_MAX:
            reported.clear()
        reported.add(error.message)
        log.error("cannot serve", partition=place.partition.key, why=str(error))

    async def _read_segments(self, place: Place, partition: Partition) -> None:
        bytes_max = sum(length for _, length in place.spans)
        loop = asyncio.get_running_loop()
        for _ in range(LOOKS_MAX):
            try:
                place.buffers = await loop.run_in_executor(
                    None, self._wal.read, place.spans
                )
            except StaleSegment:
                if not partition.log.is_in_segments(place.offset):
                    break
                # it was carried into another one
                place.spans = _span(place, partition, bytes_max, greedy=True)
            else:
                return
        place.cold_bytes_max = bytes_max  # it was released: the table has its records
        await self._read_table(place, partition)

    async def _read_table(self, place: Place, partition: Partition) -> None:
        cold = await self._lake.read(
            partition.number,
            partition.index,
            place.offset,
            max(place.cold_bytes_max, COLD_BYTES_MIN),
        )
        place.buffers = list(cold.batches)
        if place.buffers:
            return
        if cold.next_offset <= place.offset:  # the table is not what it was
            raise missing_error(partition, place.offset, self._lake)
        end = min(cold.next_offset, partition.end(committed=place.committed))
        place.buffers = empty_batches(place.offset, end)


def _span(place: Place, partition: Partition, limit: int, greedy: bool) -> Spans:
    """Where the batches lie that a place gives; and what is aborted among them.

    That is looked up now: when they have been read, their segment may be released, and
    with it what was known of it.
    """
    span = partition.span(place.offset, limit, greedy, place.committed)
    if place.committed:
        place.aborted = partition.log.aborted(place.offset, span.next_offset)
    return span.locations[:BATCHES_MAX]


def coalesced(buffers: Sequence[Buffer], size: int) -> Sequence[Buffer]:
    """Many small pieces as one: a copy is cheaper than a long ``writev``."""
    if len(buffers) > 1 and size < JOINED_BELOW_BYTES * len(buffers):
        return [b"".join(buffers)]
    return buffers


def _fitting(buffers: Sequence[Buffer], limit: int, greedy: bool) -> Sequence[Buffer]:
    """The first batches within ``limit``; greedy: the first one whatever its size."""
    kept: list[Buffer] = []
    size = 0
    for buffer in buffers:
        size += len(buffer)
        if size > limit and not (greedy and not kept):
            break
        kept.append(buffer)
    return kept
