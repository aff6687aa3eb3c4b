"""Which segments are carried into one, and when the old ones go."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from broker.ids import TopicPartition
from broker.lake.segment_carry import (
    AGAIN_MS,
    NOT_NEEDED,
    SegmentCarry,
)
from broker.lake.segment_retention import SegmentRetention
from broker.protocol.errors import ErrorCode, KafkaError
from tests.support.clock import ManualClock

STUCK, BUSY, GONE = (1, 0), (2, 0), (3, 0)
HELD_MS = 60_000


@dataclass
class ASegment:
    sequence: int
    ranges: dict[TopicPartition, tuple[int, int]]
    sealed: bool = True
    bytes: int = 1_000
    sealed_at_ms: int = 0
    intact: bool = True
    batches: int = 1


@dataclass
class Carried:
    sequence: int
    sequences: tuple[int, ...]
    bytes: int = 77


@dataclass
class SomeSegments:
    """The write-ahead log, as far as a carry needs it: lists."""

    held: list[ASegment] = field(default_factory=list)
    failed: object = None
    slots_wanted: int = 0
    refuses: bool = False
    is_slow: bool = False
    answer: Callable[[], None] = lambda: None
    asked: list[tuple[list[int], Mapping[TopicPartition, int]]] = field(
        default_factory=list
    )
    said: list[str] = field(default_factory=list)

    def segments(self) -> list[ASegment]:
        return self.held

    def release(self, sequence: int) -> None:
        raise AssertionError("nothing is released from here")

    def roll(self) -> None:
        raise AssertionError("nothing is sealed from here")

    def takes_behind(self, sequence: int) -> bool:
        return True

    def carry(
        self,
        sequences: Sequence[int],
        needed: Mapping[TopicPartition, int],
        done: Callable[[Any], None],
    ) -> None:
        self.asked.append((list(sequences), needed))
        result = Carried(sequences[-1] + 1, tuple(sequences))
        self.answer = lambda: done(None if self.refuses else result)
        if not self.is_slow:
            asyncio.get_running_loop().call_soon(self.answer)

    def release_replaced(self, sequences: Sequence[int]) -> None:
        self.said.append(f"released {sequences}")


class Scene:
    """Five segments; of STUCK 10 offsets in each, none of which is in its table."""

    def __init__(self) -> None:
        self.wal = SomeSegments(
            [
                ASegment(n, {STUCK: (n * 10, n * 10 + 10), BUSY: (n * 10, n * 10 + 10)})
                for n in range(5)
            ]
        )
        self.clock = ManualClock()
        for segment in self.wal.held:
            segment.sealed_at_ms = self.clock.now_ms()
        self.ends: dict[TopicPartition, int] = {BUSY: 50}
        self.verified: dict[TopicPartition, int] | None = None
        self.unreadable: set[int] = set()
        self.deleted: set[int] = set()
        self.part = 100, 1
        self.cannot_note = False
        self.retention = SegmentRetention(
            self.wal,
            table_end=lambda *key: self.ends.get(key, 0),
            is_deleted=self.deleted.__contains__,
            verified_ends=self._verified_ends,
            note_ends=self._note_ends,
            before_release=lambda _: asyncio.sleep(0),
            clock=self.clock,
            keep_ms=0,
            idle_seal_ms=1 << 40,
        )
        self.carry = SegmentCarry(
            self.wal,
            self.retention,
            part_of=lambda *_: self.part,
            unreadable=lambda: self.unreadable,
            moved=self._moved,
            clock=self.clock,
            held_ms=HELD_MS,
            segment_bytes=10_000,
        )

    def _verified_ends(self, number: int) -> dict[int, int]:
        if number in self.unreadable:
            return {}
        ends = self.ends if self.verified is None else self.verified
        return {key[1]: end for key, end in ends.items() if key[0] == number}

    async def _note_ends(self, ends: Mapping[TopicPartition, int]) -> None:
        if self.cannot_note:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the catalog is locked")
        self.wal.said.append(f"noted {ends}")

    async def _moved(self, carried: Carried) -> None:
        self.wal.said.append(f"moved into {carried.sequence}")

    def tick(self, later_ms: int = HELD_MS) -> int:
        self.clock.advance(later_ms)
        asyncio.run(self.retention.tick())
        return asyncio.run(self.carry.tick())

    @property
    def runs(self) -> list[list[int]]:
        return [sequences for sequences, _ in self.wal.asked]


@pytest.fixture
def scene():
    made = Scene()
    made.tick(0)
    yield made
    made.retention.close()


def test_what_is_held_for_long_is_carried_and_then_released(scene: Scene) -> None:
    assert scene.tick(HELD_MS - 1) == 0
    assert scene.wal.asked == []
    assert scene.tick(1) == 77
    [(sequences, needed)] = scene.wal.asked
    assert sequences == [0, 1, 2, 3, 4]
    assert needed == {STUCK: 0, BUSY: 50}
    assert scene.wal.said == [
        f"noted {{{BUSY}: 50}}", "moved into 5", "released (0, 1, 2, 3, 4)"
    ]  # fmt: skip


def test_nothing_is_carried_while_it_cannot_be_noted_what_is_left_behind(
    scene: Scene,
) -> None:
    scene.cannot_note = True
    assert scene.tick() == 0
    assert scene.wal.asked == []
    scene.cannot_note = False
    assert scene.tick(1) == 77


def test_what_everybody_needs_is_left_where_it_is(scene: Scene) -> None:
    scene.part = 6_000, 1
    assert scene.tick() == 0
    assert scene.wal.asked == []
    scene.part = 100, 1
    assert scene.tick(1) == 0  # it was looked at a moment ago
    assert scene.tick(AGAIN_MS) == 77


def test_what_was_refused_is_tried_again_later(scene: Scene) -> None:
    scene.wal.refuses = True
    assert scene.tick() == 0
    assert scene.tick(1) == 0
    assert len(scene.runs) == 1
    assert "moved into 5" not in scene.wal.said
    scene.wal.refuses = False
    assert scene.tick(AGAIN_MS) == 77


def test_only_what_is_verified_is_left_behind(scene: Scene) -> None:
    scene.verified = {BUSY: 25}
    assert scene.tick() == 77
    [(_, needed)] = scene.wal.asked
    assert needed == {STUCK: 0, BUSY: 25}


def test_no_run_passes_a_segment_that_is_covered_by_what_cannot_be_verified(
    scene: Scene,
) -> None:
    """The batch of BUSY in segment 2 would lie before those of segments 0 and 1."""
    scene.retention._cache_bytes = 1 << 30  # segment 2 need not go
    scene.retention._found = frozenset()
    scene.wal.held[2].ranges = {BUSY: (20, 30)}
    scene.verified = {}
    assert scene.tick() == 0
    assert scene.runs == []
    scene.verified = None
    assert scene.tick() == 77
    assert scene.runs == [[0, 1, 3, 4]]


def test_a_segment_of_which_nothing_is_needed_is_passed_and_not_carried(
    scene: Scene,
) -> None:
    scene.retention._cache_bytes = 1 << 30  # it need not go
    scene.retention._found = frozenset()
    scene.wal.held[2].ranges = {BUSY: (20, 30)}
    scene.unreadable = {STUCK[0]}  # so all segments are looked at
    assert scene.tick() == 77
    assert scene.runs == [[0, 1, 3, 4]]


def test_what_a_table_holds_that_cannot_be_read_is_carried_too(scene: Scene) -> None:
    scene.ends[STUCK] = 50  # all is covered, but who can tell?
    scene.unreadable = {STUCK[0]}
    assert scene.tick() == 77
    [(_, needed)] = scene.wal.asked
    assert needed == {STUCK: 0, BUSY: 50}


def test_of_a_deleted_topic_nothing_is_needed(scene: Scene) -> None:
    for segment in scene.wal.held:
        segment.ranges[GONE] = (0, 1)
    scene.deleted.add(GONE[0])
    assert scene.tick() == 77
    [(_, needed)] = scene.wal.asked
    assert needed == {STUCK: 0, BUSY: 50, GONE: NOT_NEEDED}


def test_nothing_is_carried_over_a_damaged_segment_or_by_a_broken_log(
    scene: Scene,
) -> None:
    scene.wal.failed = object()
    assert scene.tick() == 0
    scene.wal.failed = None
    scene.wal.held[2].intact = False
    assert scene.tick() == 0
    assert scene.wal.asked == []


def test_the_active_segment_and_a_young_one_stay(scene: Scene) -> None:
    scene.clock.advance(HELD_MS)
    now_ms = scene.clock.now_ms()
    scene.wal.held.append(ASegment(5, {STUCK: (50, 60)}, sealed_at_ms=now_ms))
    scene.wal.held.append(ASegment(6, {STUCK: (60, 70)}, sealed=False))
    assert scene.tick(0) == 77
    assert scene.runs == [[0, 1, 2, 3, 4]]


def test_a_close_waits_for_nothing_that_is_being_carried(scene: Scene) -> None:
    async def story() -> int:
        scene.wal.is_slow = True
        tick = asyncio.get_running_loop().create_task(scene.carry.tick())
        while not scene.wal.asked:
            await asyncio.sleep(0.001)
        scene.carry.close()
        scene.wal.answer()  # too late
        return await tick

    scene.clock.advance(HELD_MS)
    asyncio.run(scene.retention.tick())
    assert asyncio.run(story()) == 0
    assert scene.wal.said == [f"noted {{{BUSY}: 50}}"]
    assert scene.tick(AGAIN_MS) == 0  # nothing is begun any more
    assert len(scene.runs) == 1


def test_nothing_is_begun_by_a_carry_that_was_closed_meanwhile(scene: Scene) -> None:
    verified_end = scene.retention.verified_end

    async def then_closed(numbers: Any) -> Any:
        end = await verified_end(numbers)
        asyncio.get_running_loop().call_soon(scene.carry.close)
        return end

    scene.retention.verified_end = then_closed  # type: ignore[method-assign]
    assert scene.tick() == 0
    assert scene.wal.asked == []


def test_what_is_covered_is_not_looked_at(scene: Scene) -> None:
    asked: list[TopicPartition] = []
    table_end = scene.retention._table_end

    def counted(*key: int) -> int:
        asked.append((key[0], key[1]))
        return table_end(*key)

    scene.ends[STUCK] = 50
    scene.retention._cache_bytes = 1 << 30
    scene.retention._found = frozenset()  # of none that an earlier process left
    scene.tick()
    scene.retention._table_end = counted
    assert asyncio.run(scene.carry.tick()) == 0
    assert asked == []
