"""The log says what it holds, and changes nothing."""

import pytest

from broker.runtime.rebuilding.found_log import find_orphans, found_log
from tests.broker.runtime.rebuilding.world import NOW_MS, marker, transactional
from tests.jobs.world import World
from tests.support.batches import Record

WHERE = (0, 0)


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    yield world
    world.close()


def test_where_there_is_no_log_nothing_is_held(tmp_path):
    with found_log(tmp_path / "wal") as log:
        assert (log.held, log.ends, log.damage) == ({}, {}, [])
        assert find_orphans(log, {}, NOW_MS) == ([], [], -1)


def test_it_says_what_segments_hold_and_what_the_checkpoint_knows(world):
    topic, other = world.topic("t", 2), world.topic("u")
    world.produce(topic, [Record(b"k", b"v")] * 3)
    world.produce(other, [Record(b"k", b"v")] * 5)
    world.release()
    world.produce(topic, [Record(b"k", b"v")] * 2, partition=1)
    with found_log(world.data_dir / "wal") as log:
        assert log.held == {(topic.number, 1): (0, 2)}
        assert log.ends == {
            (topic.number, 0): 3, (topic.number, 1): 2, (other.number, 0): 5,
        }  # fmt: skip
        assert log.damage == []


def test_what_is_open_is_found_with_the_markers_behind_it(world):
    topic, other = world.topic("t"), world.topic("u")
    marker(world, other, 0, 8, commit=False)
    transactional(world, topic, 0, producer=8)
    transactional(world, topic, 1, producer=9, epoch=3)
    transactional(world, other, 1, producer=8)
    transactional(world, topic, 2, producer=5)
    marker(world, topic, 3, 5, commit=True)
    marker(world, other, 2, 8, commit=True)
    places = {(topic.number, 0): WHERE, (other.number, 0): WHERE}
    with found_log(world.data_dir / "wal") as log:
        found = find_orphans(log, places, NOW_MS)
    assert [part[:4] for part in found.open] == [
        (8, 0, (topic.number, 0), 0), (9, 3, (topic.number, 0), 1),
    ]  # fmt: skip
    [seen] = found.markers
    assert (seen.producer_id, seen.key, seen.commits) == (8, (other.number, 0), True)
    assert seen.location > found.open[0].location
    assert found.producer_id_max == 9


def test_a_damaged_checkpoint_is_said_and_left_where_it_is(world):
    topic = world.topic("t")
    world.produce(topic, [Record(b"k", b"v")] * 3)
    path = world.data_dir / "wal" / "checkpoint"
    path.write_bytes(b"x" + path.read_bytes()[1:])
    with found_log(world.data_dir / "wal") as log:
        assert log.held == {(topic.number, 0): (0, 3)}
        assert "checkpoint" in log.damage[0]
    assert path.exists()
