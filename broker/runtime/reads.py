"""Reading for a fetch: from memory at once, from segments and tables on threads.

The problem: one answer holds many partitions, each of which may stand in memory, in an
older segment or only in the table, and the limits (each partition's, and the answer's)
run through all of them in order. The idea: plan first, without reading: the index says
which batches a partition would give and how many bytes they are. If all of them are in
memory, the answer is made of views and leaves at once. Otherwise the rest is read on
threads, everything side by side, and the answer follows.

A partition's part comes from one place: where memory, segments and table meet, it ends,
and the client comes again. The price of planning: a cold partition reserves all that it
may give before anybody knows how much it has.

Rules of the limits: ``ReplicaManager.readFromLog`` and KIP-74: the first partition that
has anything gives at least one whole batch, however large; later ones give what fits.
"""

import asyncio
from collections.abc import Awaitable, Sequence

import structlog

from broker.protocol.buffers import Buffer
from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import empty_batches
from broker.runtime.partition import Partition, Spans
from broker.runtime.ports import Lake
from broker.storage.wal import StaleSegment, Wal

log = structlog.get_logger("lakelog.reads")

JOINED_BELOW_BYTES = 4096
COLD_BYTES_MIN = 1 << 16
BATCHES_MAX = 1_500
"""Of one partition in one answer. More tiny batches would hold up the loop for
milliseconds; the client comes again at once."""


class Place:
    """Where a fetch reads in one partition, and what it got there.

    Without a partition, or with an error, nothing is read. ``spans`` and
    ``cold_bytes_max`` are the plan of what a thread reads; both empty: all is there.
    """

    __slots__ = (
        "buffers", "bytes_max", "cold_bytes_max", "error", "offset", "partition",
        "spans",
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
        self.buffers: Sequence[Buffer] = ()
        self.spans: Spans = []
        self.cold_bytes_max = 0

    @property
    def is_later(self) -> bool:
        """Whether a thread must read."""
        return bool(self.spans) or self.cold_bytes_max > 0

    @property
    def size(self) -> int:
        """Bytes that were read."""
        return sum(map(len, self.buffers))


class Reader:
    """Fills the places of a fetch under the limits of one answer."""

    def __init__(self, wal: Wal, lake: Lake) -> None:
        self._wal = wal
        self._lake = lake
        self._damage_told: set[str] = set()

    def available(self, partition: Partition, offset: int) -> int:
        """About how many bytes a fetch finds; see ``Partition.available``."""
        if offset >= partition.high_watermark:
            return 0
        return partition.available(offset, self._table_end(partition))

    def read(self, places: Sequence[Place], bytes_max: int) -> Awaitable[None] | None:
        """Fill ``buffers`` of each place; None if that is done when this returns."""
        room, nothing_yet, later = bytes_max, True, False
        for place in places:
            if place.partition is None or place.error is not None:
                continue
            limit = min(place.bytes_max, room)
            size = self._plan(place, place.partition, limit, nothing_yet)
            if size:
                nothing_yet = False
                room -= size
                later = later or place.is_later
        return self._read_later(places, bytes_max) if later else None

    def _table_end(self, partition: Partition) -> int:
        return self._lake.table_end(partition.number, partition.index)

    def _plan(
        self, place: Place, partition: Partition, limit: int, greedy: bool
    ) -> int:
        """Bytes that the place gives within ``limit``; greedy: one batch at least."""
        offset, end = place.offset, partition.high_watermark
        if offset >= end or (limit <= 0 and not greedy):
            return 0
        if partition.is_cold(offset, self._table_end(partition)):
            place.cold_bytes_max = max(limit, 1)
            return place.cold_bytes_max
        spans = partition.spans(offset, limit, greedy)
        if spans is None:
            place.buffers = empty_batches(offset, end)
            return place.size
        return self._take(place, spans[:BATCHES_MAX])

    def _take(self, place: Place, spans: Spans) -> int:
        """Views of what is in memory, up to the first batch that is not; or, if that
        is the very first, where all of them lie. Returns their bytes."""
        views: list[Buffer] = []
        size = 0
        view_of = self._wal.view
        for location, length in spans:
            view = view_of(location, length)
            if view is None:
                break
            views.append(view)
            size += length
        if views:
            place.buffers = coalesced(views, size)
            return size
        place.spans = spans
        return sum(length for _, length in spans)

    async def _read_later(self, places: Sequence[Place], bytes_max: int) -> None:
        later = [place for place in places if place.is_later]
        await asyncio.gather(*(self._fill(place) for place in later))
        room, nothing_yet = bytes_max, True
        for place in places:
            # Those in memory, too: a cold one gives a batch larger than it reserved.
            limit = min(place.bytes_max, room)
            place.buffers = _fitting(place.buffers, limit, nothing_yet)
            size = place.size
            room -= size
            nothing_yet = nothing_yet and size == 0

    async def _fill(self, place: Place) -> None:
        partition = place.partition
        assert partition is not None
        try:
            if place.spans:
                await self._read_segments(place, partition)
            else:
                await self._read_table(place, partition)
        except KafkaError as error:
            self._tell(partition, error)
            place.error, place.buffers = error, ()
        except OSError as error:
            log.error("cannot read", partition=partition.key, why=str(error))
            place.error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
            place.buffers = ()

    def _tell(self, partition: Partition, error: KafkaError) -> None:
        """Once: a client that is refused what is damaged asks again and again."""
        if error.message not in self._damage_told:
            self._damage_told.add(error.message)
            log.error("cannot serve", partition=partition.key, why=str(error))

    async def _read_segments(self, place: Place, partition: Partition) -> None:
        try:
            loop = asyncio.get_running_loop()
            place.buffers = await loop.run_in_executor(
                None, self._wal.read, place.spans
            )
        except StaleSegment:  # it was let go meanwhile: the table has its records
            place.cold_bytes_max = sum(length for _, length in place.spans)
            await self._read_table(place, partition)

    async def _read_table(self, place: Place, partition: Partition) -> None:
        cold = await self._lake.read(
            partition.number,
            partition.index,
            place.offset,
            max(place.cold_bytes_max, COLD_BYTES_MIN),
        )
        place.buffers = list(cold.batches)
        if not place.buffers and cold.next_offset > place.offset:
            place.buffers = empty_batches(place.offset, cold.next_offset)


def coalesced(buffers: list[Buffer], size: int) -> list[Buffer]:
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
