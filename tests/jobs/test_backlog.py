"""What is pending is what the segments have and the tables have not."""

import pytest

from broker.storage.files import PosixFiles
from broker.storage.store import LocalSegmentStore
from jobs.backlog import Backlog
from tests.jobs.world import World
from tests.support.batches import Record


def backlog_of(world: World) -> Backlog:
    return Backlog(LocalSegmentStore(PosixFiles(), world.data_dir / "wal"))


def test_sealed_and_active_segments_together(world: World) -> None:
    topic, backlog = world.topic("t", 2), backlog_of(world)
    for _ in range(2):
        world.produce(topic, [Record()] * 3, 0)
        world.produce(topic, [Record()] * 2, 1)
        world.roll()
    world.produce(topic, [Record()], 0)
    backlog.refresh(1)
    assert backlog.ends == {(topic.number, 0): 7, (topic.number, 1): 4}
    ends = {(topic.number, 0): 3, (topic.number, 1): 4}
    [one] = backlog.pending(ends, [topic.number])
    assert (one.key, one.start) == ((topic.number, 0), 3)
    assert [(int(c.base[0]), int(c.last[-1])) for c in one.chunks] == [(3, 5), (6, 6)]
    assert backlog.pending({}, []) == []


def test_age_counts_from_when_it_was_first_seen(world: World) -> None:
    topic, backlog = world.topic("t"), backlog_of(world)
    key = topic.number, 0
    for now_ms in (100, 200, 300):
        world.produce(topic, [Record()])
        backlog.refresh(now_ms)

    def since(table_end: int) -> int:
        [one] = backlog.pending({key: table_end}, [topic.number])
        return one.since_ms

    backlog.refresh(400)
    assert [since(end) for end in (0, 1, 2)] == [100, 200, 300]
    assert backlog.pending({key: 3}, [topic.number]) == []


def test_what_is_released_is_forgotten(world: World) -> None:
    topic, backlog = world.topic("t"), backlog_of(world)
    world.produce(topic, [Record()])
    world.roll()
    backlog.refresh(0)
    assert backlog.topics() == {topic.number}
    world.wal.checkpoint(b"")
    world.wal.release(world.wal.segments()[0].sequence)

    def released() -> bool:
        backlog.refresh(0)
        return not backlog.topics()

    world._drain(released)
    assert backlog.pending({}, [topic.number]) == []


def test_what_waits_for_long_takes_no_more_memory_and_is_no_younger(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.backlog.MARKS_MAX", 16)
    topic, backlog = world.topic("t"), backlog_of(world)
    key, count = (topic.number, 0), 48
    for now_ms in range(count):
        world.produce(topic, [Record()])
        backlog.refresh(now_ms)
        assert len(backlog._marks[key]) <= 16
    ages = []
    for end in range(count):
        [one] = backlog.pending({key: end}, [topic.number])
        ages.append(end - one.since_ms)  # it came at the time that its offset says
    assert min(ages) == ages[0] == ages[-1] == 0
    assert max(ages) < 16
