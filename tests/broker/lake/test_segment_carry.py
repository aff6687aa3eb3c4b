"""Which segments are carried into one, and when the old ones go."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from broker.assembly import Assembly, bring_maintenance
from broker.ids import TopicPartition
from broker.lake.segment_carry import (
    AGAIN_MS,
    BATCH_OVERHEAD_BYTES,
    NOT_NEEDED,
    SEGMENT_OVERHEAD_BYTES,
    SegmentCarry,
)
from broker.lake.segment_retention import SegmentRetention
from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.partitions.partition import Partition
from broker.runtime.process.maintenance import MaintenanceScheduler, stuck_after_ms
from broker.runtime.services import Broker
from broker.storage.files import PosixFiles
from broker.storage.recovery import Recovery
from broker.storage.store import LocalSegmentStore
from tests.support.clock import ManualClock
from tests.support.rig import (
    SEGMENT_BYTES,
    Tables,
    batch_of,
    create,
    fetch_one,
    produce_one,
    rig,
    run,
    values_in,
)

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
    in_files: dict[int, tuple[int, int]] = field(default_factory=dict)
    read: list[tuple[int, Mapping[TopicPartition, int]]] = field(default_factory=list)

    def segments(self) -> list[ASegment]:
        return self.held

    def release(self, sequence: int) -> None:
        raise AssertionError("nothing is released from here")

    def roll(self) -> None:
        raise AssertionError("nothing is sealed from here")

    def takes_behind(self, sequence: int) -> bool:
        return True

    def part_of(
        self, sequence: int, needed: Mapping[TopicPartition, int]
    ) -> tuple[int, int] | None:
        self.read.append((sequence, dict(needed)))
        return self.in_files.get(sequence)

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
        self.part: tuple[int, int] | None = 100, 1
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


def test_what_the_index_has_no_more_is_measured_in_the_segments(scene: Scene) -> None:
    scene.part = None
    scene.wal.in_files = dict.fromkeys(range(5), (1_500, 1))
    assert scene.tick() == 0  # three fit into one, which is not worth it
    assert scene.wal.read == [(n, {STUCK: n * 10}) for n in range(5)]
    assert scene.tick(1) == 0
    assert len(scene.wal.read) == 5  # nothing else is asked for
    scene.ends[STUCK] = 5
    scene.wal.in_files[0] = 100, 1
    assert scene.tick(1) == 77
    assert scene.wal.read[5:] == [(0, {STUCK: 5})]
    assert scene.runs == [[0, 1, 2, 3]]


def test_a_batch_that_is_measured_in_its_segment_counts_with_its_overhead(
    scene: Scene,
) -> None:
    room, some = (10_000 - SEGMENT_OVERHEAD_BYTES) // 4, 10
    scene.part = None
    too_many = (room - some * BATCH_OVERHEAD_BYTES + 1, some)
    scene.wal.in_files = dict.fromkeys(range(5), too_many)
    assert scene.tick() == 0  # three fit into one, which is not worth it
    scene.ends[STUCK] = 5
    scene.wal.in_files[0] = too_many[0] - 4, some
    assert scene.tick(1) == 77
    assert scene.runs == [[0, 1, 2, 3]]


def test_of_segments_that_are_gone_nothing_is_remembered(scene: Scene) -> None:
    """Of one of which much is needed, nor of one that was measured in its file."""
    scene.part = None
    scene.wal.in_files = dict.fromkeys(range(5), (1_500, 1)) | {4: (6_000, 1)}
    assert scene.tick() == 0
    assert scene.carry._in_file.keys() == set(range(5))
    assert scene.carry._again_ms.keys() == {4}
    scene.wal.held = scene.wal.held[:3]
    assert scene.tick(1) == 0
    assert scene.carry._in_file.keys() == set(range(3))
    assert not scene.carry._again_ms


def test_a_segment_that_cannot_be_read_is_measured_later(scene: Scene) -> None:
    scene.part = None
    scene.wal.in_files = dict.fromkeys((0, 1, 3, 4), (100, 1))
    assert scene.tick() == 0
    scene.wal.in_files[2] = 100, 1
    assert scene.tick(1) == 0
    assert scene.tick(AGAIN_MS) == 77
    assert scene.runs == [[0, 1, 2, 3, 4]]


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


@asynccontextmanager
async def maintained(
    path: Path, tables: Tables, clock: ManualClock
) -> AsyncIterator[tuple[Broker, MaintenanceScheduler]]:
    async with (
        rig(path, tables=tables, clock=clock) as broker,
        AsyncExitStack() as ends,
    ):
        nobody: Any = None
        assembly = Assembly(broker, tables, Recovery(), nobody)
        yield broker, bring_maintenance(assembly, ends)


async def carried_for_long(
    broker: Broker, maintenance: MaintenanceScheduler, clock: ManualClock
) -> int:
    """How many bytes were carried until nothing more is."""
    for _ in range(20):
        await maintenance.release()
        await maintenance.carry()
        broker.partitions.checkpoint()
        clock.advance(stuck_after_ms(broker.settings.lake))
        await asyncio.sleep(0.01)
    return broker.counters.carried_bytes


def batches_of(key: TopicPartition, path: Path) -> list[int]:
    """The base offsets of a partition's batches, as the compactor finds them."""
    store = LocalSegmentStore(PosixFiles(), path / "wal")
    found = [store.columns(info.sequence).get(key) for info in store.live()]
    return [base for columns in found if columns for base in columns.base.tolist()]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_waits_for_its_table_is_carried_below_the_start_of_its_log_too(
    tmp_path: Path, *, is_restarted: bool
) -> None:
    """A topic's table is to keep what DeleteRecords took from consumers; it and another
    one are stuck."""
    tables, clock, segments = Tables(), ManualClock(), 12

    async def fill(broker: Broker) -> tuple[Partition, Partition]:
        trimmed = await create(broker, "trimmed", lake_retention_ms="-1")
        small, busy = await create(broker, "small"), await create(broker, "busy")
        for n in range(segments):
            await produce_one(broker, "small", batch_of(b"%d" % n))
            await produce_one(broker, "trimmed", batch_of(b"y" * (SEGMENT_BYTES // 5)))
            await produce_one(broker, "busy", batch_of(b"x" * (SEGMENT_BYTES // 2)))
            broker.wal.roll()
            while not all(info.sealed for info in broker.wal.segments()):
                await asyncio.sleep(0.001)
        await produce_one(broker, "busy", batch_of(b"active"))
        broker.partitions.checkpoint()
        tables.compact(broker, busy)
        await broker.partitions.raise_log_starts({trimmed: segments - 1})
        return trimmed, small

    async def play() -> None:
        async with maintained(tmp_path, tables, clock) as (broker, maintenance):
            topics = await fill(broker)
            if not is_restarted:
                assert (
                    await carried_for_long(broker, maintenance, clock)
                    > 2 * SEGMENT_BYTES
                )
        async with maintained(tmp_path, tables, clock) as (broker, maintenance):
            if is_restarted:
                assert (
                    await carried_for_long(broker, maintenance, clock)
                    > 2 * SEGMENT_BYTES
                )
            assert len(broker.wal.segments()) <= 5
            for topic in topics:
                assert batches_of(topic.key, tmp_path) == list(range(segments))
            trimmed = broker.partitions.named("trimmed", 0)
            assert trimmed.log_start == segments - 1
            answer = await fetch_one(broker, "trimmed", segments - 1)
            assert values_in(answer) == [b"y" * (SEGMENT_BYTES // 5)]
            for topic in topics:
                tables.ends[topic.key] = segments
            maintenance._segment_retention._cache_bytes = 0
            await carried_for_long(broker, maintenance, clock)
            assert len(broker.wal.segments()) <= 1  # the last one

    run(play)
