"""No turn of the loop is longer than ten milliseconds, however much there is.

What is measured is the processor time of the loop's thread in one callback, so that
neither company on the machine nor other threads count. The best of some rounds counts.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from broker.ids import TopicNumber, TopicPartition
from broker.lake.lake import Lake
from broker.lake.segment_carry import SegmentCarry
from broker.lake.segment_retention import SegmentRetention
from broker.log.partition import PartitionLog
from broker.log.restoring import restore_log
from broker.records.batch import BatchHeader
from broker.runtime.partitions.checkpoint import Checkpoint
from broker.runtime.partitions.inspector import Inspector
from broker.runtime.partitions.overdue import Overdue, Waiting
from broker.runtime.partitions.partitions import TRIMMED_A_TURN, Partitions
from broker.runtime.partitions.released_ends import ReleasedEnds
from broker.runtime.partitions.waiting_topics import WaitingTopic, WaitingTopics
from broker.runtime.process.status import Counters
from broker.storage.columns import ROW_TYPE
from broker.storage.ranges import pack_ranges
from broker.storage.segment import SealedSegment, SegmentInfo, Slot
from broker.storage.segment_registry import SegmentRegistry
from broker.storage.wal import Wal
from broker.topics.configs import TopicConfig
from broker.topics.topic import Topic
from tests.support.clock import ManualClock
from tests.support.turns import callbacks_ms, check_turn, turn_ms, turns_ms, uncollected

PARTITIONS, PRODUCERS, SEGMENTS = 1_000, 100, 1_000


def a_batch(producer: int, sequence: int, base: int) -> BatchHeader:
    return BatchHeader(base, 100, 0, 2, 0, 0, 0, 1, 1, producer, 0, sequence, 1)


def partitions() -> list[Any]:
    made = []
    for index in range(PARTITIONS):
        log = PartitionLog()
        for number in range(PRODUCERS):
            log.admit(a_batch(number, 0, number), now_ms=1)
        log.commit(0, PRODUCERS - 1, 1, 4096, 100)
        made.append(SimpleNamespace(key=(1, index), log=log, deleted=False))
    return made


def test_a_checkpoint_of_a_thousand_partitions_with_a_hundred_producers() -> None:
    found = partitions()
    log: Any = SimpleNamespace(finished=lambda: (1, 0), checkpoint=lambda *_: None)
    rounds = itertools.count(1)

    def longest_ms() -> float:
        round_number = next(rounds)
        for partition in found:  # each has changed
            next_offset = partition.log.next
            partition.log.admit(a_batch(0, round_number, next_offset), now_ms=1)
            partition.log.commit(next_offset, next_offset, 1, 4096 + next_offset, 100)
        turns: list[float] = []
        made: list[Checkpoint] = []
        turns.append(turn_ms(lambda m=made: m.append(Checkpoint(found, log))))
        done: list[bool] = []
        while not any(done):
            turns.append(turn_ms(lambda d=done, m=made: d.append(m[0].step())))
        return max(turns)

    check_turn("checkpoint", longest_ms)


@pytest.fixture
def a_thousand_segments() -> Wal:
    """As a log has them that waits for a compactor; nothing here reads a file."""
    ranges = pack_ranges({(1, index): (0, 5) for index in range(PARTITIONS)})
    wal: Any = object.__new__(Wal)
    pending = (0, np.zeros(0, ROW_TYPE))
    wal._writer = SimpleNamespace(pending=lambda: pending)  # it writes nothing now
    wal._segments = SegmentRegistry(
        SealedSegment(
            Slot(sequence, Path(), 0, 1),
            SegmentInfo(sequence, True, 5000, ranges, 1, 1),
        )
        for sequence in range(1, SEGMENTS + 1)
    )
    return wal  # type: ignore[no-any-return]


def test_a_look_at_a_thousand_segments(a_thousand_segments: Wal) -> None:
    check_turn("segments", lambda: turn_ms(a_thousand_segments.segments))


@pytest.mark.parametrize("stuck", [None, PARTITIONS - 1])
def test_a_release_that_looks_at_segments_of_a_thousand_partitions(
    stuck: int | None,
) -> None:
    """The cache of 2 GiB has 32 of them; with a stuck topic there are many more."""
    count = 32 if stuck is None else 200
    ranges = pack_ranges({(1, index): (0, 5) for index in range(PARTITIONS)})
    held = [SegmentInfo(n, True, 64 << 20, ranges) for n in range(1, count + 1)]
    wal: Any = SimpleNamespace(
        failed=None, slots_wanted=0, segments=lambda: held, roll=lambda: None
    )

    def longest_ms() -> float:
        release = SegmentRetention(
            wal,
            table_end=lambda _, index: 0 if index == stuck else 5,
            is_deleted=lambda _: False,
            verified_ends=lambda _: {},
            note_ends=lambda _: asyncio.sleep(0),
            before_release=lambda _: asyncio.sleep(0),
            clock=ManualClock(),
            keep_ms=0,
            idle_seal_ms=0,
            cache_bytes=1 << 50,
        )
        release._found = frozenset()  # all of them are this process's own
        turns = [ms for _ in range(2) for ms in turns_ms(release.tick())]
        release.close()
        return max(turns)

    check_turn("release", longest_ms)


def test_a_release_that_notes_where_partitions_end() -> None:
    ranges = pack_ranges({(1, index): (0, 5) for index in range(PARTITIONS)})
    held = [SegmentInfo(n, True, 64 << 20, ranges) for n in range(1, 201)]
    wal: Any = SimpleNamespace(
        failed=None, slots_wanted=0, segments=lambda: held, release=lambda _: None
    )
    noted: list[int] = []

    async def note(ends: Mapping[TopicPartition, int]) -> None:
        noted.append(len(ends))

    def longest_ms() -> float:
        release = SegmentRetention(
            wal,
            table_end=lambda *_: 5,
            is_deleted=lambda _: False,
            verified_ends=lambda _: dict.fromkeys(range(PARTITIONS), 5),
            note_ends=note,
            before_release=lambda _: asyncio.sleep(0),
            clock=ManualClock(),
            keep_ms=0,
            idle_seal_ms=0,
        )
        with callbacks_ms() as turns:
            released = asyncio.run(release.tick())
        release.close()
        assert len(released) == 200
        return max(turns)

    check_turn("release noted", longest_ms)
    assert set(noted) == {PARTITIONS}


def test_a_release_while_a_table_lacks_files_of_a_thousand_partitions() -> None:
    ranges = pack_ranges({(1, index): (0, 5) for index in range(PARTITIONS)})
    held = [SegmentInfo(n, True, 64 << 20, ranges) for n in range(1, 201)]
    wal: Any = SimpleNamespace(segments=lambda: held)
    retention = SegmentRetention(
        wal,
        table_end=lambda *_: 5,
        is_deleted=lambda _: False,
        verified_ends=lambda _: dict.fromkeys(range(PARTITIONS), 5),
        lacking=lambda _: {index: [(3, 5)] for index in range(PARTITIONS)},
        note_ends=lambda _: asyncio.sleep(0),
        before_release=lambda _: asyncio.sleep(0),
        clock=ManualClock(),
        keep_ms=0,
        idle_seal_ms=0,
    )

    def longest_ms() -> float:
        with callbacks_ms() as turns:
            sure = asyncio.run(retention.verified_end({1}))
        assert [sure((1, index)) for index in range(PARTITIONS)] == [3] * PARTITIONS
        return max(turns)

    check_turn("what tables lack", longest_ms)
    retention.close()


@pytest.mark.parametrize("part", [1, 100, 1 << 20])
def test_a_carry_that_looks_at_segments_of_a_thousand_partitions(part: int) -> None:
    """Nothing is in a table: little of each segment is needed, or some, or all."""
    ranges = pack_ranges({(1, index): (0, 5) for index in range(PARTITIONS)})
    held = [SegmentInfo(2 * n, True, 64 << 20, ranges) for n in range(1, 101)]

    wal: Any = SimpleNamespace(
        failed=None, segments=lambda: held, takes_behind=lambda _: False
    )
    retention: Any = SegmentRetention(
        wal,
        table_end=lambda *_: 0,
        is_deleted=lambda _: False,
        verified_ends=lambda _: {},
        note_ends=lambda _: asyncio.sleep(0),
        before_release=lambda _: asyncio.sleep(0),
        clock=ManualClock(),
        keep_ms=0,
        idle_seal_ms=0,
    )
    retention.ages_ms.update({info.sequence: 60_000 for info in held})

    def longest_ms() -> float:
        carry = SegmentCarry(
            wal,
            retention,
            part_of=lambda *_: (part, 1),
            unreadable=tuple,
            moved=lambda _: asyncio.sleep(0),
            clock=ManualClock(),
            held_ms=60_000,
            segment_bytes=64 << 20,
        )
        return max(turns_ms(carry.tick()))

    check_turn("carry", longest_ms)
    retention.close()


@pytest.mark.parametrize(("count", "producers"), [(50_000, 0), (3_000, 100)])
def test_silent_producers_of_as_many_partitions_as_there_may_be(
    count: int, producers: int
) -> None:
    one = PartitionLog()
    for number in range(producers):
        one.admit(a_batch(number, 0, number), now_ms=1)
    found: Any = [SimpleNamespace(log=one)] * count  # nobody of them is silent
    check_turn(
        "silent producers",
        lambda: max(turns_ms(Partitions.expire_producers(found, 2, 1_000))),
    )


def test_a_hundred_thousand_batches_that_wait_for_a_disk_that_hangs() -> None:
    told: list[int] = []
    header = a_batch(-1, -1, 0)

    def waiting(owner: Any) -> Waiting:
        one = Waiting(1, 0, b"", header, 0, 0, 1, lambda _: None)
        one.owner, one.timeout_ms, one.expires_ms = owner, 1_000, -1
        one.reply = lambda base, _stamp, _error: told.append(base)
        return one

    def longest_ms() -> float:
        wal: Any = SimpleNamespace(look_at_space=lambda: None)
        clock, timers = ManualClock(), Later()
        overdue = Overdue(wal, clock, 1 << 40)
        owner = SimpleNamespace(expire_retries=lambda _: None)
        overdue.queue.extend(waiting(owner) for _ in range(100_000))
        overdue.start(timers)
        told.clear()
        turns = []
        for pass_ms in (0, 0, 2_000):
            clock.advance(pass_ms)
            turns.append(turn_ms(overdue.look))
            while timers.soon:
                turns.append(turn_ms(timers.soon.pop()))
        assert len(told) == 100_000
        return max(turns)

    check_turn("overdue", longest_ms)


def test_a_waiting_topic_of_ten_thousand_partitions_becomes_known(
    tmp_path: Path,
) -> None:
    topic = Topic(TopicNumber(1), b"i" * 16, "t", 10_000)
    nothing = PartitionLog().snapshot()

    def log_of(_key: TopicPartition) -> PartitionLog:
        return restore_log(nothing, start=0, table_end=10)

    def longest_ms() -> float:
        turns: list[Callable[[], None]] = []
        found = waiting_topic(topic, log_of, turns.append, tmp_path)
        with uncollected():
            taken_ms = [turn_ms(lambda: found.get(topic.number, 0))]
            while turns:
                taken_ms.append(turn_ms(turns.pop()))
        known = found.get(topic.number, topic.partitions - 1)
        assert known is not None
        assert known.high_watermark == 10
        return max(taken_ms)

    check_turn("a topic that waited for its table", longest_ms)


def test_an_owner_changes_the_table_of_ten_thousand_partitions(
    tmp_path: Path,
) -> None:
    topic = Topic(TopicNumber(1), b"i" * 16, "t", 10_000)
    nothing = PartitionLog().snapshot()
    turns: list[Callable[[], None]] = []
    found = waiting_topic(
        topic,
        lambda _: restore_log(nothing, start=0, table_end=0),
        turns.append,
        tmp_path,
    )
    found.get(topic.number, 0)
    while turns:
        turns.pop()()

    async def story() -> None:
        for _ in found.reading_from_table(topic.number):
            await asyncio.sleep(0)

    def longest_ms() -> float:
        with uncollected():
            taken_ms = turns_ms(story())
        assert len(taken_ms) > 10_000 / TRIMMED_A_TURN
        return max(taken_ms)

    check_turn("an owner's change of a table", longest_ms)


def waiting_topic(
    topic: Topic,
    log_of: Callable[[TopicPartition], PartitionLog],
    call_soon: Callable[[Callable[[], None]], object],
    warehouse: Path,
) -> Partitions:
    """Partitions of a topic whose table can be read since this moment."""
    none: Any = None
    topics: Any = SimpleNamespace(watch=lambda _: None)
    lake = Lake(warehouse, call_soon=call_soon)
    config = TopicConfig(-1, -1, 1 << 20, "CreateTime", 1, 1, "delete", 1, -1)
    found = Partitions(
        topics, none, lake, none, Inspector(lambda: 0), Counters(),
        config_of=lambda _: config, call_soon=call_soon,
        overdue=SimpleNamespace(queue=deque()),  # type: ignore[arg-type]
        released_ends=ReleasedEnds(SimpleNamespace(write=lambda *_: None)),  # type: ignore[arg-type]
    )  # fmt: skip
    found.restore(topic, {}, unknown=log_of)
    return found


def test_a_thousand_waiting_topics_become_known_together() -> None:
    """As when the disk of all their tables comes back, and a checkpoint is wanted."""
    lake: Any = SimpleNamespace(unreadable=lambda _: None)
    made: list[object] = []

    def make(number: int, indexes: Sequence[int], log_of: Any) -> None:
        made.extend(log_of((number, index)) for index in indexes)

    nothing = PartitionLog().snapshot()
    waiting = WaitingTopic(lambda _: restore_log(nothing, table_end=10), frozenset())

    def longest_ms() -> float:
        turns: list[Callable[[], None]] = []
        found = WaitingTopics(lake, make, lambda _: 5, turns.append)
        for number in map(TopicNumber, range(PARTITIONS)):
            found.add(number, waiting, is_unsaid=True)
        made.clear()
        with uncollected():
            taken_ms = [turn_ms(found.is_all_said)]
            while not found.is_all_said():
                taken_ms += [turn_ms(turns.pop()), turn_ms(found.is_all_said)]
        assert len(made) == 5 * PARTITIONS
        return max(taken_ms)

    check_turn("topics that waited for their tables", longest_ms)


class Later:
    """Timers of which those that are due at once can be run by hand."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def after(self, delay_ms: int, callback: Callable[[], None]) -> Any:
        if not delay_ms:
            self.soon.append(callback)
