"""Letting segments go: once all that a segment holds stands in tables, for sure.

The problem: a segment holds batches of many topics, and its file should be used again
soon, but never before each of its records is durably in a table. The idea: a look every
half second. A sealed segment is due when, as far as the broker follows the tables, each
of its ranges lies below its table's end, and it was sealed some seconds ago. Then the
tables concerned are *verified* (`verify.py`) on a thread, and only what the verified
ends cover is released. A segment that nobody writes to any more is sealed first, when
its records stand in tables, so that a quiet broker ends with empty segments. While the
log has no written file to go on with, the seconds of grace are left out: a file that is
used again is faster than a new one.

What could go stays as a cache all the same while there is room, ``cache_bytes``: who
reads what was produced a minute ago then need not decode Parquet. The oldest go first,
when the cache is full or the log wants files. What an earlier process left is no cache:
nobody knows what owners did to the tables meanwhile.

What a damaged segment held is not in its ranges. So it stays as long as a partition
lacks offsets that may have been in it: with it goes what tells that damage took them.

The price: a record exists twice while its segment is a cache.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

import structlog

from broker.clock import Clock
from broker.failpoints import passing
from broker.ids import PartitionNumber, TopicNumber, TopicPartition
from broker.lake.verify import Lacking
from broker.protocol.errors import KafkaError

log = structlog.get_logger("lakelog.lake")

RANGES_A_TURN: Final = 2_000
"""Each is a look at a table's end and at a log's start: a microsecond or two."""

TOPICS_A_TURN: Final = 20_000
"""Ranges of which only the topic is asked: a tenth of a microsecond each."""
SEGMENT_AS_RANGES: Final = 20

CACHED_BATCH_BYTES: Final = 4 << 10
"""What a batch counts at least in the cache: each takes 44 bytes of memory in the index
of its partition, and 2 GiB may hold eleven million of the smallest."""

NOTHING_HELD: Final = 1 << 63

LOOK_AGAIN_MS: Final = 5_000
"""Between looks at tables that could not be verified as a whole, and at whether what a
damaged segment may have held is still missing."""

STAYS: Final = "records that are missing may have been in it"

NoteEnds = Callable[[Mapping[TopicPartition, int]], Awaitable[object]]
"""Notes durably how far partitions were released."""

MayHoldMissing = Callable[[Set[int]], Awaitable[Set[int]]]
"""Those of these damaged segments that offsets may have been in that nobody has."""

End = Callable[[TopicPartition], int | None]
"""End offset of a partition's table; None: the topic is deleted, nothing is needed."""


class Segment(Protocol):
    """A segment as ``broker.storage`` describes it."""

    @property
    def sequence(self) -> int: ...
    @property
    def sealed(self) -> bool: ...
    @property
    def bytes(self) -> int: ...
    @property
    def ranges(self) -> Mapping[TopicPartition, tuple[int, int]]: ...
    @property
    def sealed_at_ms(self) -> int: ...
    @property
    def intact(self) -> bool: ...
    @property
    def batches(self) -> int: ...


class Segments(Protocol):
    """What is asked of the write-ahead log."""

    @property
    def failed(self) -> Any: ...
    @property
    def slots_wanted(self) -> int: ...
    def segments(self) -> Sequence[Segment]: ...
    def release(self, sequence: int) -> None: ...
    def roll(self) -> None: ...


def cached_bytes(segment: Segment) -> int:
    """What a segment counts in the cache."""
    return max(segment.bytes, segment.batches * CACHED_BATCH_BYTES)


class Coverage:
    """Which segments have all of their ranges below their tables' ends.

    Of a thousand segments with a thousand ranges each that is a second's work. So the
    loop has its turn now and then, and little is asked twice: the ends hardly ever go
    back, so a sealed segment that was covered is, until it is to be forgotten; and of
    one that was not, the range that was missing is asked for first.
    """

    def __init__(self, end: End) -> None:
        self._end = end
        self._lacking: dict[int, TopicPartition | None] = {}
        self._looked = 0

    async def covered(self, segments: Iterable[Segment]) -> list[Segment]:
        """Those of these sealed segments that are; of others nothing is remembered."""
        known, self._lacking = self._lacking, {}
        found = []
        for segment in segments:
            sequence = segment.sequence
            lacking = known.get(sequence)
            self._looked += 1
            if self._looked % RANGES_A_TURN == 0:
                await asyncio.sleep(0)
            if sequence not in known or (lacking and self._is_below(segment, lacking)):
                lacking = await self.lacking(segment)
            self._lacking[sequence] = lacking
            if lacking is None:
                found.append(segment)
        return found

    def forget(self, segments: Iterable[Segment]) -> None:
        """Look at all of these again: the ends have gone back, as where a table is to
        get now what lies below the log's start."""
        for segment in segments:
            self._lacking.pop(segment.sequence, None)

    def is_known(self, segment: Segment) -> bool:
        """Whether `covered` found this segment the last time."""
        return self._lacking.get(segment.sequence, segment) is None

    async def lacking(self, segment: Segment) -> TopicPartition | None:
        """A partition whose range is not below its table's end; None: all are."""
        for key, (_, past_last) in segment.ranges.items():
            self._looked += 1
            if self._looked % RANGES_A_TURN == 0:
                await asyncio.sleep(0)
            known = self._end(key)
            if known is not None and known < past_last:
                return key
        return None

    def _is_below(self, segment: Segment, key: TopicPartition) -> bool:
        known = self._end(key)
        return known is None or known >= segment.ranges.get(key, (0, 0))[1]


class Ages:
    """How long segments have been sealed, whatever becomes of the wall clock.

    What a segment says of its age is believed once, when it is first seen: of those
    that an earlier process sealed nothing else is known. From then on the monotonic
    clock counts.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sealed_ms: dict[int, int] = {}
        self.last: dict[int, int] = {}
        """What `look` gave the last time."""

    def look(self, segments: Iterable[Segment]) -> dict[int, int]:
        """Sequence -> milliseconds since it was sealed, of those that are."""
        now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.now_ms()
        self._sealed_ms = {
            segment.sequence: self._sealed_ms.get(
                segment.sequence, now_ms - max(0, wall_ms - segment.sealed_at_ms)
            )
            for segment in segments
            if segment.sealed
        }
        self.last = {
            sequence: now_ms - sealed_ms
            for sequence, sealed_ms in self._sealed_ms.items()
        }
        return self.last


async def _hold_nothing_more(_: Set[int]) -> Set[int]:
    return frozenset()


class SegmentRetention:
    """Releases what is due; `tick` is called on the loop, every half second or so.

    ``table_end`` is what the broker follows; ``is_deleted`` tells a deleted topic from
    one that has no table yet; ``verified_ends`` reads a topic's table again, on a
    thread (`Lake.verified_ends`), and ``lacking`` tells which ranges below these ends
    it has not got all the same; ``unverified`` names the topics of which either has a
    problem to tell; ``log_start`` is durable, and nothing below it is
    needed; ``may_hold_missing`` is asked before damaged segments go; ``note_ends`` is
    awaited with the ends of what segments hold before they go, ``before_release`` with
    the sequence of the one that goes next.
    """

    def __init__(
        self,
        wal: Segments,
        *,
        table_end: Callable[[TopicNumber, PartitionNumber], int],
        is_deleted: Callable[[TopicNumber], bool],
        verified_ends: Callable[[TopicNumber], Mapping[int, int]],
        lacking: Callable[[TopicNumber], Lacking] = lambda _: {},
        unverified: Callable[[], Iterable[TopicNumber]] = tuple,
        log_start: Callable[[TopicNumber, PartitionNumber], int] = lambda *_: 0,
        may_hold_missing: MayHoldMissing = _hold_nothing_more,
        note_ends: NoteEnds,
        before_release: Callable[[int], Awaitable[object]],
        clock: Clock,
        keep_ms: int,
        idle_seal_ms: int,
        cache_bytes: int = 0,
    ) -> None:
        self._wal = wal
        self._table_end = table_end
        self._is_deleted = is_deleted
        self._verified_ends = verified_ends
        self._lacking = lacking
        self._unverified, self._again_ms = unverified, 0
        self._log_start = log_start
        self._may_hold_missing = may_hold_missing
        self._damaged: Set[int] = frozenset()  # those of the last look
        self._kept_damaged: Set[int] = frozenset()
        self._damaged_again_ms = 0
        self._note_ends = note_ends
        self._before_release = before_release
        self._ages = Ages(clock)
        self._coverage = Coverage(self.followed_end)
        self._clock = clock
        self._keep_ms = keep_ms
        self._idle_seal_ms = idle_seal_ms
        self._cache_bytes = cache_bytes
        self._found: frozenset[int] | None = None
        self._quiet_since: tuple[tuple[int, int], int] | None = None
        self._busy = False
        self._pool = ThreadPoolExecutor(1, "lake-release")
        self.to_evict: Set[int] = frozenset()
        """Sequences of segments that go as soon as tables cover them."""
        self.releasing = asyncio.Lock()
        """The lock of whoever releases segments that others read."""

    async def tick(self) -> list[int]:
        """Seal and release what may be; the sequences that were released.

        A tick that comes while one is under way does nothing.
        """
        if self._busy:
            return []
        self._busy = True
        try:
            await self._look_again()
            segments = self._wal.segments()
            await asyncio.sleep(0)  # of ten thousand each step takes milliseconds
            await self._seal_if_idle(segments)
            return await self._release_due(segments)
        finally:
            self._busy = False

    @property
    def ages_ms(self) -> Mapping[int, int]:
        """Sequence -> since when it is sealed, ms, as of the last tick."""
        return self._ages.last

    def close(self) -> None:
        """Finish what is under way; blocks."""
        self._pool.shutdown(cancel_futures=True)

    def is_covered(self, segment: Segment) -> bool:
        """Whether it was, as far as the tables are followed, at the last look."""
        return self._coverage.is_known(segment)

    def followed_end(self, key: TopicPartition) -> int | None:
        """Below it all is in the table, as far as that is followed, or not needed;
        None: nothing is."""
        if self._is_deleted(key[0]):
            return None
        return max(self._table_end(*key), self.log_start(key))

    def log_start(self, key: TopicPartition) -> int:
        """The offset below which no record of the partition is needed."""
        return self._log_start(*key)

    async def verified_end(self, numbers: Iterable[TopicNumber]) -> End:
        """The same as `followed_end`, for sure, of the partitions of these topics; or
        where the first range begins that a table lacks and a segment may have.

        What is behind that in the partition stays with it: in segments it is read
        without a gap, or not at all.
        """
        loop = asyncio.get_running_loop()
        verified = await loop.run_in_executor(self._pool, self._verify, numbers)
        end, cuts = self._verified_end(verified), await self._cuts(verified)

        def cut(key: TopicPartition) -> int | None:
            known = end(key)
            return None if known is None else min(known, cuts.get(key, known))

        return cut

    async def _cuts(self, numbers: Iterable[TopicNumber]) -> dict[TopicPartition, int]:
        """Partition -> the first offset that its table lacks and a segment may have."""
        lacking = {
            (number, PartitionNumber(partition)): ranges
            for number in numbers
            for partition, ranges in self._lacking(number).items()
        }
        cuts = dict[TopicPartition, int]()
        first_held = await self._first_held(lacking.keys()) if lacking else {}
        for count, (key, ranges) in enumerate(lacking.items(), 1):
            start = max(self.log_start(key), first_held.get(key, NOTHING_HELD))
            lows = [max(low, start) for low, high in ranges if high > start]
            if lows:
                cuts[key] = min(lows)
            if count % RANGES_A_TURN == 0:
                await asyncio.sleep(0)
        return cuts

    async def _first_held(self, keys: Set[TopicPartition]) -> dict[TopicPartition, int]:
        """Partition -> the first offset of those in segments."""
        held, looked = dict[TopicPartition, int](), 0
        for ranges in [segment.ranges for segment in self._wal.segments()]:
            for key in keys:
                found = ranges.get(key)
                if found is not None:
                    held[key] = min(found[0], held.get(key, NOTHING_HELD))
                looked += 1
                if looked % RANGES_A_TURN == 0:
                    await asyncio.sleep(0)
        return held

    async def _look_again(self) -> None:
        """See whether what keeps tables from being verified is over: nobody asks while
        no segment with their records is to go, and it would be told for ever."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._again_ms:
            return
        self._again_ms = now_ms + LOOK_AGAIN_MS
        numbers = list(self._unverified())
        if numbers:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._pool, self._verify, numbers)

    async def _seal_if_idle(self, segments: Sequence[Segment]) -> None:
        """Seal the active segment when it is quiet and all in tables."""
        active = next((s for s in segments if not s.sealed and s.ranges), None)
        if active is None or self._wal.failed is not None:
            self._quiet_since = None
            return
        state, now_ms = (active.sequence, active.bytes), self._clock.monotonic_ms()
        if self._quiet_since is None or self._quiet_since[0] != state:
            self._quiet_since = state, now_ms
        quiet_ms = now_ms - self._quiet_since[1]
        if quiet_ms < self._idle_seal_ms or await self._coverage.lacking(active):
            return
        self._wal.roll()
        self._quiet_since = None

    async def _release_due(self, segments: Sequence[Segment]) -> list[int]:
        slots = self._wal.slots_wanted
        ages_ms = self._ages.look(segments)
        await asyncio.sleep(0)
        keep_ms = 0 if slots else self._keep_ms
        to_evict = self.to_evict
        old = [
            s
            for s in segments
            if s.sealed and (ages_ms[s.sequence] >= keep_ms or s.sequence in to_evict)
        ]
        covered = await self._coverage.covered(old)
        wanted = self._beyond_cache(await self._without_missing(covered), slots)
        if not wanted:
            return []
        numbers = await _topics_of(wanted)
        passing("release.before_sync")
        sure = await self.verified_end(numbers)
        passing("release.after_sync")
        going = await Coverage(sure).covered(wanted)
        if len(going) < len(wanted):
            self._coverage.forget(wanted)
        if not going or not await self.note_released(going, sure):
            return []
        passing("release.noted")
        released = []
        async with self.releasing:
            live = {segment.sequence for segment in self._wal.segments()}
            for segment in going:
                if segment.sequence in live:  # else it was carried into another one
                    await self._release(segment.sequence)
                    released.append(segment.sequence)
                    await asyncio.sleep(0)
        return released

    async def _without_missing(self, covered: Sequence[Segment]) -> list[Segment]:
        """Those but for damaged ones that offsets may have been in that nobody has, and
        all damaged ones in between looks."""
        damaged = {each.sequence for each in covered if not each.intact}
        kept: Set[int] = damaged
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._damaged_again_ms or not damaged <= self._damaged:
            self._damaged_again_ms, self._damaged = now_ms + LOOK_AGAIN_MS, damaged
            kept = await self._may_hold_missing(damaged)
            for sequence in sorted(kept - self._kept_damaged):
                log.warning("a damaged segment stays", sequence=sequence, why=STAYS)
            self._kept_damaged = kept
        return [each for each in covered if each.sequence not in kept]

    async def note_released(self, segments: Iterable[Segment], sure: End) -> bool:
        """Have it noted how far ``sure`` covers these: what lies below may be in tables
        alone from then on. False: it cannot be now, and they stay."""
        ends, looked = dict[TopicPartition, int](), 0
        for segment in segments:
            for key, (_, end) in segment.ranges.items():
                looked += 1
                if looked % RANGES_A_TURN == 0:
                    await asyncio.sleep(0)
                known = sure(key)
                if known is not None and min(end, known) > ends.get(key, 0):
                    ends[key] = min(end, known)
        try:
            await self._note_ends(ends)
        except KafkaError as error:
            log.warning("segments stay: their ends cannot be noted", why=str(error))
            return False
        return True

    def _beyond_cache(self, ready: Sequence[Segment], slots: int) -> list[Segment]:
        """Those that go now, the oldest first: the rest stays as a cache."""
        if not self._cache_bytes:
            return list(ready)
        if self._found is None:
            self._found = frozenset(self._ages.last)
        kept_bytes = sum(map(cached_bytes, ready))
        wanted: list[Segment] = []
        no_cache = self._found | self.to_evict
        for segment in ready:
            goes = segment.sequence in no_cache or len(wanted) < slots
            if goes or kept_bytes > self._cache_bytes:
                wanted.append(segment)
                kept_bytes -= cached_bytes(segment)
        return wanted

    def _verify(
        self, numbers: Iterable[TopicNumber]
    ) -> dict[TopicNumber, Mapping[int, int]]:
        """Topic number -> the verified ends of its table; on a thread."""
        return {number: self._verified_ends(number) for number in sorted(numbers)}

    def _verified_end(self, verified: Mapping[TopicNumber, Mapping[int, int]]) -> End:
        def end(key: TopicPartition) -> int | None:
            number, partition = key
            if self._is_deleted(number):
                return None
            followed = self._table_end(number, partition)
            known = min(followed, verified[number].get(partition, 0))
            return max(known, self._log_start(number, partition))

        return end

    async def _release(self, sequence: int) -> None:
        await self._before_release(sequence)
        self._wal.release(sequence)
        passing("release.after")
        log.debug("segment released", sequence=sequence)


async def _topics_of(segments: Iterable[Segment]) -> set[TopicNumber]:
    """The numbers of all topics of which they hold anything."""
    numbers, looked = set[TopicNumber](), 0
    for segment in segments:
        numbers.update(number for number, _ in segment.ranges)
        looked += len(segment.ranges) + SEGMENT_AS_RANGES
        if looked >= TOPICS_A_TURN:
            looked = 0
            await asyncio.sleep(0)
    return numbers
