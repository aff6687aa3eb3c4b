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

The price: half a second and the seconds of grace, during which a record exists twice.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import structlog

from broker.clock import Clock
from broker.failpoints import passing

log = structlog.get_logger("lakelog.lake")

TopicPartition = tuple[int, int]
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


class Segments(Protocol):
    """What is asked of the write-ahead log."""

    @property
    def failed(self) -> Any: ...
    @property
    def is_short_of_slots(self) -> bool: ...
    def segments(self) -> Sequence[Segment]: ...
    def release(self, sequence: int) -> None: ...
    def roll(self) -> None: ...


def is_covered(segment: Segment, end: End) -> bool:
    """Whether each range of the segment lies below its table's end."""
    for key, (_, past_last) in segment.ranges.items():
        known = end(key)
        if known is not None and known < past_last:
            return False
    return True


def due(
    segments: Iterable[Segment], end: End, now_ms: int, keep_ms: int
) -> list[Segment]:
    """The sealed segments that may go, as far as ``end`` knows."""
    return [
        segment
        for segment in segments
        if segment.sealed
        and now_ms - segment.sealed_at_ms >= keep_ms
        and is_covered(segment, end)
    ]


class Releaser:
    """Releases what is due; `tick` is called on the loop, every half second or so.

    ``table_end`` is what the broker follows; ``is_deleted`` tells a deleted topic from
    one that has no table yet; ``verified_ends`` reads a topic's table again, on a
    thread (`Lake.verified_ends`); ``before_release`` is told the sequence of a segment
    that goes next.
    """

    def __init__(
        self,
        wal: Segments,
        *,
        table_end: Callable[[int, int], int],
        is_deleted: Callable[[int], bool],
        verified_ends: Callable[[int], Mapping[int, int]],
        before_release: Callable[[int], None],
        clock: Clock,
        keep_ms: int,
        idle_seal_ms: int,
    ) -> None:
        self._wal = wal
        self._table_end = table_end
        self._is_deleted = is_deleted
        self._verified_ends = verified_ends
        self._before_release = before_release
        self._clock = clock
        self._keep_ms = keep_ms
        self._idle_seal_ms = idle_seal_ms
        self._quiet_since: tuple[tuple[int, int], int] | None = None
        self._busy = False
        self._pool = ThreadPoolExecutor(1, "lake-release")

    async def tick(self) -> list[int]:
        """Seal and release what may be; the sequences that were released.

        A tick that comes while one is under way does nothing.
        """
        if self._busy:
            return []
        self._busy = True
        try:
            segments = self._wal.segments()
            self._seal_if_idle(segments)
            return await self._release_due(segments)
        finally:
            self._busy = False

    def close(self) -> None:
        """Finish what is under way; blocks."""
        self._pool.shutdown(cancel_futures=True)

    def _end(self, key: TopicPartition) -> int | None:
        return None if self._is_deleted(key[0]) else self._table_end(*key)

    def _seal_if_idle(self, segments: Sequence[Segment]) -> None:
        """Seal the active segment when it is quiet and all in tables."""
        active = next((s for s in segments if not s.sealed and s.ranges), None)
        if active is None or self._wal.failed is not None:
            self._quiet_since = None
            return
        state, now_ms = (active.sequence, active.bytes), self._clock.monotonic_ms()
        if self._quiet_since is None or self._quiet_since[0] != state:
            self._quiet_since = state, now_ms
        quiet_ms = now_ms - self._quiet_since[1]
        if quiet_ms >= self._idle_seal_ms and is_covered(active, self._end):
            self._wal.roll()
            self._quiet_since = None

    async def _release_due(self, segments: Sequence[Segment]) -> list[int]:
        keep_ms = 0 if self._wal.is_short_of_slots else self._keep_ms
        wanted = due(segments, self._end, self._clock.now_ms(), keep_ms)
        if not wanted:
            return []
        numbers = {number for segment in wanted for number, _ in segment.ranges}
        loop = asyncio.get_running_loop()
        passing("release.before_sync")
        verified = await loop.run_in_executor(self._pool, self._verify, numbers)
        passing("release.after_sync")
        released = []
        for segment in wanted:
            if is_covered(segment, self._verified_end(verified)):
                self._let_go(segment.sequence)
                released.append(segment.sequence)
        return released

    def _verify(self, numbers: Iterable[int]) -> dict[int, Mapping[int, int]]:
        """Topic number -> the verified ends of its table; on a thread."""
        return {number: self._verified_ends(number) for number in sorted(numbers)}

    def _verified_end(self, verified: Mapping[int, Mapping[int, int]]) -> End:
        def end(key: TopicPartition) -> int | None:
            number, partition = key
            if self._is_deleted(number):
                return None
            followed = self._table_end(number, partition)
            return min(followed, verified[number].get(partition, 0))

        return end

    def _let_go(self, sequence: int) -> None:
        self._before_release(sequence)
        self._wal.release(sequence)
        passing("release.after")
        log.debug("segment released", sequence=sequence)
