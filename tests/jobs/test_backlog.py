"""What is pending is what the segments have and the tables have not."""

from dataclasses import replace

import pytest

from broker.ids import TopicPartition
from broker.storage.columns import EntryColumns
from broker.storage.entry import position_of
from broker.storage.files import PosixFiles
from broker.storage.manifest import read_manifest, write_manifest
from broker.storage.objects import LocalObjects
from broker.storage.readable import PAGE_BYTES
from broker.storage.recovery import recover
from broker.storage.restart import begin_anew
from broker.storage.segment import slot_name
from broker.storage.store import LocalSegmentStore
from jobs.backlog import LOOK_AGAIN_MS, Backlog
from tests.jobs.world import World, WornFiles
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


def test_what_is_in_two_segments_waits_for_a_start(world: World) -> None:
    """As where a checkpoint of an older version lists what was carried and where it
    came from."""
    topic, backlog = world.topic("t"), backlog_of(world)
    wal, key = world.data_dir / "wal", (topic.number, 0)
    for _ in range(2):
        world.produce(topic, [Record()] * 5)
        world.roll()
    source = world.wal.segments()[1]
    kept = source.path.read_bytes()
    world.carry({})
    world.wait_for_recycler()
    (wal / slot_name(900)).write_bytes(kept)
    objects = LocalObjects(PosixFiles(), wal)
    manifest = read_manifest(objects)
    assert manifest is not None
    live = manifest.live | {source.sequence}
    write_manifest(objects, replace(manifest, live=live))
    backlog.refresh(0)
    [one] = backlog.pending({}, [topic.number])
    assert (one.key, one.chunks) == (key, [])
    assert "are in another one" in str(backlog.held[key])
    world.wal.close()
    found, _ = recover(PosixFiles(), wal)
    begin_anew(PosixFiles(), wal, found, now_ms=0)
    world.wal = world._open()
    backlog.refresh(0)
    [one] = backlog.pending({}, [topic.number])
    bases = [base for chunk in one.chunks for base in chunk.base.tolist()]
    assert (bases, backlog.held) == ([0, 5], {})


@pytest.mark.parametrize("is_sealed", [True, False])
def test_a_page_that_cannot_be_read_stops_its_partition_alone(
    world: World, is_sealed: bool
) -> None:
    """And only as long as it cannot."""
    files, topic = WornFiles(), world.topic("t", 2)
    for _ in range(3):
        world.produce(topic, [Record(b"k", bytes(2 * PAGE_BYTES))], 0)
    for _ in range(3):
        world.produce(topic, [Record(b"k", b"v")], 1)
    if is_sealed:
        world.roll()
    store = LocalSegmentStore(PosixFiles(), world.data_dir / "wal")
    (info,) = store.live()
    place = position_of(int(store.columns(info.sequence)[topic.number, 0].location[1]))
    files.bad = info.path.resolve(), place - place % PAGE_BYTES
    compactor = world.compactor(files=files)
    for _ in range(2):
        world.flush(compactor)
    assert len(world.rows(topic, 0)) < 3
    assert len(world.rows(topic, 1)) == 3
    compactor.step()
    stuck, *damage = compactor.status().problems
    assert "t-0 cannot be compacted" in stuck
    assert len(damage) == (not is_sealed)
    files.bad = None
    world.clock.advance(LOOK_AGAIN_MS)
    world.flush(compactor)
    world.check_rows()
    compactor.step()
    assert compactor.status().problems == ()


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


def test_a_log_at_rest_is_not_read_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, backlog = world.topic("t"), backlog_of(world)
    world.produce(topic, [Record()])
    world.roll()
    world.produce(topic, [Record()])
    backlog.refresh(0)
    read: list[int] = []
    columns = LocalSegmentStore.columns

    def counted(
        store: LocalSegmentStore, sequence: int
    ) -> dict[TopicPartition, EntryColumns]:
        read.append(sequence)
        return columns(store, sequence)

    monkeypatch.setattr(LocalSegmentStore, "columns", counted)
    for now_ms in range(0, LOOK_AGAIN_MS, 200):
        backlog.refresh(now_ms)
    assert len(read) <= 1
    read.clear()
    world.produce(topic, [Record()])
    backlog.refresh(LOOK_AGAIN_MS - 100)
    assert len(read) == 1
    assert backlog.ends == {(topic.number, 0): 3}
