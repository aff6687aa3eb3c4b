"""Carrying what holds segments: one topic's trouble does not take everybody's disk.

The problem: a topic whose table takes no commits (its owner changed it) stops alone,
but each segment that holds a batch of it stays, with everything that others wrote
there. The idea: of segments that are held for long and of which little is needed, that
little is *carried* into one segment, which replaces them. What is needed is decided as
for a release: all that is not in its table for sure. Nobody asks why it is not there.

Which segments: a *run* of at least four that fit into one (`segment_run.py`). How much
is needed of each the partitions' indexes say. They have nothing below where a log
starts: what a table is to get all the same is measured in the segment's file.

The price: at most one segment is written in each step, for three or more that go; and
what stays held is up to four times as large as what is needed.
"""

import asyncio
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from typing import Any, Final, Protocol

import structlog

from broker.clock import Clock
from broker.failpoints import passing
from broker.ids import TopicPartition
from broker.lake.segment_retention import End, Segment, SegmentRetention
from broker.lake.segment_run import BATCHES_MAX, Held, choose

log = structlog.get_logger("lakelog.lake")

BATCH_OVERHEAD_BYTES: Final = 84
SEGMENT_OVERHEAD_BYTES: Final = 4096
PARTITIONS_A_TURN: Final = 500
AGAIN_MS: Final = 300_000
"""After so long a segment of which too much was needed is looked at again."""
NOT_NEEDED: Final = 1 << 62

PartOf = Callable[[TopicPartition, int, int], tuple[int, int] | None]
"""Bytes and batches of a partition in a segment from an offset on; None: its file has
to be asked."""


class Carried(Protocol):
    """What became of a run, as ``broker.storage`` describes it."""

    @property
    def sequence(self) -> int: ...
    @property
    def sequences(self) -> tuple[int, ...]: ...
    @property
    def bytes(self) -> int: ...


class Segments(Protocol):
    """What is asked of the write-ahead log."""

    @property
    def failed(self) -> Any: ...
    def segments(self) -> Sequence[Segment]: ...
    def takes_behind(self, sequence: int) -> bool: ...
    def part_of(
        self, sequence: int, needed: Mapping[TopicPartition, int]
    ) -> tuple[int, int] | None: ...
    def carry(
        self,
        sequences: Sequence[int],
        needed: Mapping[TopicPartition, int],
        done: Callable[[Any], None],
    ) -> None: ...
    def release_replaced(self, sequences: Sequence[int]) -> None: ...


class SegmentCarry:
    """Carries when there is something to carry; `tick` is called every few seconds.

    ``part_of`` tells how much of a partition lies in a segment; ``unreadable`` which
    topics' tables cannot be read; ``moved`` is awaited before the old segments go.
    ``held_ms``: what was sealed since then is left alone.
    """

    def __init__(
        self,
        wal: Segments,
        retention: SegmentRetention,
        *,
        part_of: PartOf,
        unreadable: Callable[[], Collection[int]],
        moved: Callable[[Any], Awaitable[None]],
        clock: Clock,
        held_ms: int,
        segment_bytes: int,
    ) -> None:
        self._wal = wal
        self._retention = retention
        self._part_of = part_of
        self._unreadable = unreadable
        self._moved = moved
        self._clock = clock
        self._held_ms = held_ms
        self._bytes_max = segment_bytes - SEGMENT_OVERHEAD_BYTES
        self._again_ms: dict[int, int] = {}
        self._in_file: dict[int, tuple[int, tuple[int, int]]] = {}
        """Sequence -> what was asked for, as a hash, and what its file said."""
        self._heard: asyncio.Future[Carried | None] | None = None
        self._looked = 0
        self._busy = self._closed = False

    async def tick(self) -> int:
        """Carry one run, if there is one; how many bytes were written."""
        if self._busy or self._wal.failed is not None:
            return 0
        self._busy = True
        try:
            return await self._carry_one()
        finally:
            self._busy = False

    async def _carry_one(self) -> int:
        segments = self._wal.segments()
        self._forget({segment.sequence for segment in segments})
        unreadable = set(self._unreadable())
        guess = self._guess(unreadable)
        looked_at = segments
        if not unreadable:  # else who knows what is covered
            covered = self._retention.is_covered
            looked_at = [s for s in segments if not (s.intact and covered(s))]
        run = await choose(
            [await self._look(each, guess) for each in looked_at], self._bytes_max
        )
        if not run:
            return 0
        chosen = {one.sequence for one in run}
        # Those that seemed to be covered as well: verified, the ends may be lower.
        within = [s for s in segments if run[0].sequence <= s.sequence]
        keys = await _keys_of([s for s in within if s.sequence in chosen])
        sure = await self._retention.verified_end({number for number, _ in keys})
        run = await choose(
            [await self._look(each, sure, chosen) for each in within], self._bytes_max
        )
        chosen = {one.sequence for one in run}
        return await self._carry([s for s in within if s.sequence in chosen], sure)

    async def _carry(self, run: Sequence[Segment], sure: End) -> int:
        needed = {}
        for count, key in enumerate(await _keys_of(run)):
            needed[key] = _from(sure(key))
            if count % PARTITIONS_A_TURN == 0:
                await asyncio.sleep(0)
        if not run or not await self._retention.note_released(run, sure):
            return 0
        if self._closed:
            return 0
        heard: asyncio.Future[Carried | None]
        heard = self._heard = asyncio.get_running_loop().create_future()
        self._wal.carry([each.sequence for each in run], needed, self._carried)
        carried = await heard
        if carried is None:
            again_ms = self._clock.monotonic_ms() + AGAIN_MS
            self._again_ms |= {segment.sequence: again_ms for segment in run}
            return 0
        async with self._retention.releasing:
            await self._moved(carried)
            passing("carry.moved")
            self._wal.release_replaced(carried.sequences)
        log.info(
            "batches were carried", into=carried.sequence, bytes=carried.bytes,
            released=len(carried.sequences),
        )  # fmt: skip
        return carried.bytes

    def close(self) -> None:
        """Wait no more for what is being carried: a disk that is full may not let it
        come to an end. A start finds it done, or not begun."""
        self._closed = True
        self._carried(None)

    def _carried(self, carried: Carried | None) -> None:
        if self._heard is not None and not self._heard.done():
            self._heard.set_result(carried)

    async def _look(
        self, segment: Segment, end: End, only: Collection[int] | None = None
    ) -> Held:
        """What is needed of a segment, if it may be carried at all."""
        sequence = segment.sequence
        stays = Held(sequence, segment.ranges.keys())
        if not segment.intact:
            return Held(sequence, damaged=True)
        if not self._is_due(segment) or (only is not None and sequence not in only):
            return stays
        keys, size, batches = await self._needed(segment, end)
        if self._is_much(size, batches):
            self._again_ms[sequence] = self._clock.monotonic_ms() + AGAIN_MS
            return stays
        if not batches:
            return stays
        ends = self._wal.takes_behind(sequence)
        return Held(sequence, frozenset(keys), size, batches, movable=True, ends=ends)

    async def _needed(
        self, segment: Segment, end: End
    ) -> tuple[list[TopicPartition], int, int]:
        """The partitions of which something is needed, and how many bytes and batches;
        no more of them than it takes to be too much."""
        keys: list[TopicPartition] = []
        in_file: dict[TopicPartition, int] = {}
        size = batches = 0
        for key, (first, past_last) in segment.ranges.items():
            self._looked += 1
            if self._looked % PARTITIONS_A_TURN == 0:
                await asyncio.sleep(0)
            known = end(key)
            if known is None or known >= past_last:
                continue
            keys.append(key)
            start = max(known, first)
            part = self._part_of(key, segment.sequence, start)
            if part is None:
                in_file[key] = start
                continue
            size += part[0] + BATCH_OVERHEAD_BYTES * part[1]
            batches += part[1]
            if self._is_much(size, batches):
                return keys, size, batches
        if in_file:
            some_bytes, some = await self._part_in_file(segment.sequence, in_file)
            size += some_bytes + BATCH_OVERHEAD_BYTES * some
            batches += some
        return keys, size, batches

    async def _part_in_file(
        self, sequence: int, needed: Mapping[TopicPartition, int]
    ) -> tuple[int, int]:
        """Bytes and batches of what is needed of these partitions, as the segment's
        file says, which is not read again while that is the same. Too much if it cannot
        be read."""
        asked = hash(frozenset(needed.items()))
        known = self._in_file.get(sequence)
        if known is not None and known[0] == asked:
            return known[1]
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(None, self._wal.part_of, sequence, needed)
        if found is None:
            return self._bytes_max, 0
        self._in_file[sequence] = asked, found
        return found

    def _is_much(self, size: int, batches: int) -> bool:
        return size > self._bytes_max // 2 or batches > BATCHES_MAX // 2

    def _is_due(self, segment: Segment) -> bool:
        age_ms = self._retention.ages_ms.get(segment.sequence, -1)
        again_ms = self._again_ms.get(segment.sequence, 0)
        return (
            segment.sealed
            and age_ms >= self._held_ms
            and self._clock.monotonic_ms() >= again_ms
        )

    def _guess(self, unreadable: Collection[int]) -> End:
        """Where tables end, before they are verified; of one that cannot be read
        nothing is sure."""

        def end(key: TopicPartition) -> int | None:
            if key[0] in unreadable:
                return self._retention.log_start(key)
            return self._retention.followed_end(key)

        return end

    def _forget(self, live: Collection[int]) -> None:
        for known in (self._again_ms, self._in_file):
            for gone in known.keys() - live:
                del known[gone]


async def _keys_of(segments: Iterable[Segment]) -> set[TopicPartition]:
    """All partitions of which they hold anything."""
    keys: set[TopicPartition] = set()
    for segment in segments:
        keys.update(segment.ranges)
        await asyncio.sleep(0)
    return keys


def _from(end: int | None) -> int:
    """The offset from which on something is needed."""
    return NOT_NEEDED if end is None else end
