"""The appender, step by step, without threads."""

import pytest

from broker.storage.active_segment import ActiveSegment
from broker.storage.appender import SegmentAppender
from broker.storage.committed_position import (
    CommittedPosition,
    CommittedPositionFile,
    read_committed_position,
)
from broker.storage.entry import location_of
from broker.storage.layout import HEADER_BLOCK_BYTES
from broker.storage.pool import NoSlot
from broker.storage.segment import SealedSegment, Slot, slot_name
from tests.broker.storage.driver import SEGMENT_BYTES, WAL, an_append, batch
from tests.support.clock import ManualClock
from tests.support.files import ForgetfulFiles


class Bench:
    def __init__(self, slots: int = 2, written: int = SEGMENT_BYTES) -> None:
        self.files = ForgetfulFiles()
        self.slots = slots
        self.written = written
        self.began: list[ActiveSegment] = []
        self.sealed: list[SealedSegment] = []
        self.appender = SegmentAppender(
            CommittedPositionFile(self.files, WAL),
            ManualClock(),
            next_sequence=5,
            begin=self.begin,
            sealed=self.sealed.append,
        )

    def begin(self, sequence: int) -> ActiveSegment:
        if not self.slots:
            raise NoSlot("none is left")
        self.slots -= 1
        path = WAL / slot_name(self.slots)
        file = self.files.create(path)
        self.files.allocate(file, SEGMENT_BYTES)
        slot = Slot(self.slots, path, file, SEGMENT_BYTES, self.written)
        self.began.append(ActiveSegment(self.files, slot, sequence, 0))
        return self.began[-1]


def test_a_group_is_one_write_and_one_sync() -> None:
    bench = Bench()
    bench.appender.commit([an_append(batch(0))], 0)
    writes, syncs = bench.files.count("pwritev"), bench.files.count("fdatasync")
    group = [an_append(batch(i)) for i in range(1, 21)]
    assert bench.appender.commit(group, 0) == 20
    assert (
        bench.files.count("pwritev") - writes == 2
    )  # the entries, the committed position
    assert bench.files.count("fdatasync") - syncs == 1


def test_small_groups_touch_the_blocks_of_those_that_follow() -> None:
    bench = Bench(written=0)
    bench.appender.commit([an_append(batch(0, 300))], 0)
    (segment,) = bench.began
    slot, end = segment.slot, segment.end
    assert slot.written == slot.size
    assert bench.files.pread(slot.file, 1 << 20, end) == bytes(slot.size - end)
    bench.appender.commit([an_append(batch(1, 300))], 0)
    assert segment.end == end + 348


def test_locations_and_committed_position_follow_the_entries() -> None:
    bench = Bench()
    group = [an_append(batch(i, 100)) for i in range(3)]
    bench.appender.commit(group, 0)
    assert [one.location for one in group] == [
        location_of(5, HEADER_BLOCK_BYTES + 48 + i * 148) for i in range(3)
    ]
    end = HEADER_BLOCK_BYTES + 3 * 148
    assert read_committed_position(bench.files, WAL) == CommittedPosition(5, end)
    assert bench.appender.position() == (5, end)
    assert bench.appender.last_durable == 5


def test_a_full_segment_is_sealed_before_the_next_is_begun() -> None:
    bench = Bench()
    group = [an_append(batch(i, 1000)) for i in range(14)]
    done = 0
    while done < len(group):
        done = bench.appender.commit(group, done)
    assert [segment.sequence for segment in bench.sealed] == [5]
    assert [segment.sequence for segment in bench.began] == [5, 7]
    assert group[-1].location > location_of(6, 0)


def test_without_a_slot_nothing_was_written() -> None:
    bench = Bench(slots=0)
    calls = len(bench.files.calls)
    with pytest.raises(NoSlot):
        bench.appender.commit([an_append(batch(0))], 0)
    assert len(bench.files.calls) == calls
    assert bench.appender.last_durable == 4


def test_sealing_nothing_is_nothing() -> None:
    bench = Bench()
    bench.appender.seal()
    assert bench.sealed == []


def test_a_sealed_segment_tells_how_many_batches_it_has() -> None:
    bench = Bench()
    bench.appender.commit([an_append(batch(n)) for n in range(3)], 0)
    bench.appender.seal()
    (segment,) = bench.sealed
    assert segment.info.batches == 3
