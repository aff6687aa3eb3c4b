"""The compiled writer does what Python's does, and hands over what it cannot."""

import errno
import os
import random
import select
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.ids import TopicPartition
from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import read_header
from broker.runtime.partitions.inspector import Inspector, Rules
from broker.storage.committed_position import (
    CommittedPosition,
    read_committed_position,
)
from broker.storage.entry import Append, sequence_of
from broker.storage.files import PosixFiles
from tests.broker.storage.driver import Driver, held
from tests.support.batches import BASE_TIMESTAMP, Record, make_batch
from tests.support.clock import ManualClock
from tests.support.patience import IDLE_S

SEGMENT_BYTES = 64 << 10
NOW_MS = BASE_TIMESTAMP


class Loop(Driver):
    """A log whose writer is compiled, or not, and the loop that it reports to."""

    def __init__(self, directory: Path, *, compiled: bool = True, **more: object):
        self.inspector = Inspector(lambda: NOW_MS)
        self.inspector.rules[2] = Rules(True, 10_000, 5_000)
        super().__init__(
            PosixFiles(), directory, segment_bytes=SEGMENT_BYTES,
            inspect=self.inspector, clock=ManualClock(), **more,
        )  # fmt: skip
        self.readers: dict[int, Callable[[], None]] = {}
        if compiled:
            self.wal.accelerate(
                self.inspector.bounds, self.readers.__setitem__, self.readers.pop
            )

    def turn(self, timeout: float = IDLE_S) -> None:
        for _ in range(int(timeout / 0.01)):
            if not self.calls.empty():
                self.calls.get()()
                return
            for file in select.select(list(self.readers), [], [], 0.01)[0]:
                self.readers[file]()
                return
        raise AssertionError("nothing happens")

    def put(self, records: list[Record], **more: object) -> Append:
        """Queue a batch at the next offset of topic 1 or another, partition 0."""
        topic = int(str(more.pop("topic", 1)))
        partition = int(str(more.pop("partition", 0)))
        key: TopicPartition = (topic, partition)
        base = self.next_offset.get(key, 0)
        data = make_batch(records, base, **more)  # type: ignore[arg-type]
        header = read_header(data)
        one = Append(
            topic, partition, data, header, base, header.last_offset,
            header.max_timestamp, self.finished.append,
        )  # fmt: skip
        self.next_offset[key] = one.last_offset + 1
        self.wal.append(one)
        return one


def values(count: int, size: int = 50) -> list[Record]:
    return [Record(b"k", bytes([i % 256]) * size) for i in range(count)]


def story(loop: Loop, seed: int) -> list[Append]:
    """Batches of all kinds, some of them wrong, in no particular rhythm."""
    chance, rhythm = random.Random(seed), random.Random(seed)
    kinds: list[Callable[[], Append]] = [
        lambda: loop.put(values(chance.randrange(1, 9)), partition=chance.randrange(3)),
        lambda: loop.put(values(3, 4000)),
        lambda: loop.put(values(5), codec=3),
        lambda: loop.put(values(5), topic=2),
        lambda: loop.put([Record(b"k"), Record(None)], topic=2),
        lambda: loop.put([Record(b"k", timestamp=NOW_MS + 5_001)], topic=2),
        lambda: loop.put([Record(b"k", timestamp=NOW_MS - 10_001)], topic=2),
        lambda: loop.put([Record(timestamp=-1)], topic=3),
        lambda: loop.put([Record(b"k")], max_timestamp=NOW_MS + 77),
        lambda: loop.put([Record(b"k")], attributes=0x08, max_timestamp=5),
        lambda: loop.put(values(2), deltas=[0, 5], topic=4),
    ]
    appends = []
    for _ in range(300):
        appends.append(chance.choices(kinds, [30, 3, 1, 9, 1, 1, 1, 3, 1, 1, 1])[0]())
        while rhythm.random() < 0.3 and len(loop.finished) < len(appends):
            loop.turn()
        if chance.random() < 0.01:
            loop.wal.roll()
    loop.finish(appends)
    return appends


def outcome(append: Append) -> object:
    if append.error is not None:
        return append.error.code, append.error.message, append.error.records
    return append.max_timestamp, bytes(append.batch)


@pytest.mark.parametrize("seed", range(3))
def test_both_writers_give_the_same_answers_and_the_same_log(
    tmp_path: Path, seed: int
) -> None:
    outcomes, logs, segments = [], [], []
    for name, compiled in (("python", False), ("compiled", True)):
        loop = Loop(tmp_path / name, compiled=compiled)
        appends = story(loop, seed)
        assert loop.finished == appends
        outcomes.append([outcome(one) for one in appends])
        for one in appends:
            if one.error is None:
                assert loop.wal.read([(one.location, len(one.batch))]) == [one.batch]
        segments.append([info.ranges for info in loop.wal.segments()])
        loop.close()
        again = Loop(tmp_path / name, compiled=False)
        assert not again.recovery.damage
        logs.append(held(again.recovery, again.wal))
        again.close()
    assert outcomes[0] == outcomes[1]
    assert logs[0] == logs[1]
    assert segments[0] == segments[1]
    assert any(isinstance(one, tuple) and len(one) == 3 for one in outcomes[0])


@pytest.mark.parametrize("compiled", [False, True])
def test_syncs_and_groups_are_counted_by_whoever_makes_them(
    tmp_path: Path, *, compiled: bool
) -> None:
    loop = Loop(tmp_path, compiled=compiled)
    before = sum(loop.wal.sync_times().buckets)
    for number in range(5):
        loop.finish([loop.put(values(1))])
        assert sum(loop.wal.sync_times().buckets) == before + number + 1
    assert loop.wal.sync_times().total > 0
    groups = loop.wal.group_sizes()
    assert (groups.total, groups.buckets[0]) == (5, 5)
    loop.close()


def test_a_segment_in_use_says_what_is_durable_in_it(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    for count in (1, 4, 2):
        loop.finish([loop.put(values(count))])
    (info,) = loop.wal.segments()
    assert info.ranges == {(1, 0): (0, 7)}
    committed_position = read_committed_position(PosixFiles(), tmp_path)
    assert committed_position is not None
    assert (committed_position.sequence, committed_position.position) == (
        info.sequence,
        info.bytes,
    )
    loop.close()


@pytest.mark.parametrize("compiled", [False, True])
def test_what_is_written_and_not_synced_is_noted_as_that(
    tmp_path: Path, *, compiled: bool
) -> None:
    loop = Loop(tmp_path, compiled=compiled, sync=False)
    for count in (1, 4):
        loop.finish([loop.put(values(count))])
    (info,) = loop.wal.segments()
    noted = read_committed_position(PosixFiles(), tmp_path)
    assert noted == CommittedPosition(info.sequence, info.bytes, synced=False)
    syncs = sum(loop.wal.sync_times().buckets)
    loop.finish([loop.append_marker()])
    (info,) = loop.wal.segments()
    noted = read_committed_position(PosixFiles(), tmp_path)
    assert noted == CommittedPosition(info.sequence, info.bytes)
    assert sum(loop.wal.sync_times().buckets) == syncs + 1
    loop.finish([loop.put(values(1))])
    noted = read_committed_position(PosixFiles(), tmp_path)
    assert noted is not None
    assert not noted.synced
    loop.close()
    noted = noted._replace(synced=True)
    assert read_committed_position(PosixFiles(), tmp_path) == noted


def test_who_looks_at_a_segment_in_use_does_not_change_it(tmp_path: Path) -> None:
    """It is the writer's: what the loop sees of it is a copy."""
    loop = Loop(tmp_path)
    loop.finish([loop.put(values(1))])
    loop.finish([loop.put(values(2), partition=n % 2) for n in range(4)])
    active = loop.wal._appender.active
    assert active is not None
    before = active.end
    (info,) = loop.wal.segments()
    assert info.bytes > active.end == before
    assert info.ranges == {(1, 0): (0, 5), (1, 1): (0, 4)}
    assert loop.wal.segments() == [info]
    loop.wal.roll()
    loop.until(lambda: len(loop.sealed) == 1)
    assert loop.sealed[0].ranges == info.ranges
    assert loop.sealed[0].bytes == info.bytes
    loop.close()


def test_calls_are_made_between_what_was_put_before_and_what_comes_after(
    tmp_path: Path,
) -> None:
    loop = Loop(tmp_path)
    loop.finish([loop.put(values(1))])
    runs: list[list[Append]] = []
    for number in range(20):
        runs.append([loop.put(values(1)) for _ in range(1 + number % 3)])
        loop.wal.roll()
        if number % 4 == 0:
            loop.finish(runs[-1])
    for run in runs:
        loop.finish(run)
    sequences = [{sequence_of(one.location) for one in run} for run in runs]
    assert [len(found) for found in sequences] == [1] * len(runs)
    numbers = [found.pop() for found in sequences]
    assert numbers == sorted(set(numbers))
    loop.close()


def test_a_checkpoint_is_behind_what_the_loop_has_heard_of(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.finish([loop.put(values(1)) for _ in range(5)])
    loop.finish([loop.put(values(1)) for _ in range(5)])
    loop.wal.checkpoint(b"ten")
    loop.finish([loop.put(values(2))])
    loop.close()
    again = Loop(tmp_path, compiled=False)
    assert again.recovery.payload == b"ten"
    assert len(again.recovery.replay) == 1
    again.close()


def test_a_full_disk_or_a_dying_one_refuses_all_that_follows(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    kept = loop.put(values(1))
    loop.finish([kept])
    loop.finish([loop.put(values(1))])
    active = loop.wal._appender.active
    assert active is not None
    spare = os.dup(active.slot.file)
    full = os.open("/dev/full", os.O_RDWR)
    os.dup2(full, active.slot.file)
    lost = [loop.put(values(1)) for _ in range(5)]
    loop.finish(lost)
    later = loop.put(values(1))
    loop.finish([later])
    for one in [*lost, later]:
        assert one.error is not None
        assert one.error.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert os.strerror(errno.ENOSPC) in str(loop.wal.failed)
    committed_position = read_committed_position(PosixFiles(), tmp_path)
    assert committed_position is not None
    assert (committed_position.final, committed_position.position) == (True, active.end)
    os.dup2(spare, active.slot.file)
    assert loop.wal.read([(kept.location, len(kept.batch))]) == [kept.batch]
    loop.close()
    os.close(spare)
    os.close(full)


def test_a_refusal_takes_what_follows_of_the_producer_until_the_loop_knows(
    tmp_path: Path,
) -> None:
    loop = Loop(tmp_path)
    loop.finish([loop.put(values(1), topic=2) for _ in range(2)])
    refused = loop.put([Record(None)], topic=2, producer=(7, 0, 0))
    unknowing = loop.put(values(1), topic=2, producer=(7, 0, 1))
    other = loop.put(values(1), topic=2, producer=(8, 0, 0))
    loop.finish([refused, unknowing, other])
    assert [one.error and one.error.code for one in (refused, unknowing, other)] == [
        ErrorCode.INVALID_RECORD, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None,
    ]  # fmt: skip
    knowing = loop.put(values(1), topic=2, producer=(7, 0, 1))
    loop.finish([knowing])
    assert knowing.error is None
    loop.close()


def test_more_than_the_table_holds_comes_through_in_order(tmp_path: Path) -> None:
    from broker.storage.lane import CAPACITY

    loop = Loop(tmp_path)
    appends = [loop.put(values(1, 1)) for _ in range(CAPACITY + 500)]
    while len(loop.finished) < len(appends):
        loop.turn()
    assert loop.finished == appends
    assert [one.error for one in appends] == [None] * len(appends)
    loop.close()


def test_close_finishes_what_is_in_the_lane(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    appends = [loop.put(values(1)) for _ in range(200)]
    loop.close()
    assert loop.finished == appends
    assert all(one.location > 0 for one in appends)


def test_a_fault_of_a_listener_does_not_rob_the_others(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.finish([loop.put(values(1))])
    bad = loop.put(values(1))

    def fault(append: Append) -> None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "a fault of the listener")

    bad.done = fault
    loop.finish([loop.put(values(1))])
    loop.close()


@pytest.mark.parametrize("sync", [True, False])
def test_what_cannot_be_synced_is_refused_where_a_sync_was_promised(
    tmp_path: Path, sync: bool
) -> None:
    """The null device takes every write, and no sync."""
    loop = Loop(tmp_path, sync=sync)
    loop.finish([loop.put(values(1))])
    loop.finish([loop.put(values(1))])
    active = max(loop.wal._segments.all(), key=lambda one: one.sequence)
    spare, null = os.dup(active.slot.file), os.open(os.devnull, os.O_RDWR)
    os.dup2(null, active.slot.file)
    one = loop.put(values(1))
    loop.finish([one])
    assert (one.error is not None) == sync
    if sync:
        assert os.strerror(errno.EINVAL) in str(loop.wal.failed)
    os.dup2(spare, active.slot.file)
    loop.close()
    os.close(spare)
    os.close(null)
