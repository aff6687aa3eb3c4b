"""A deleted topic comes back with what its table has, and goes on from there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from broker.catalog import topics as catalog_topics
from broker.storage.files import PosixFiles
from jobs.lease import LeaseKeeper
from jobs.undelete import NotUndeleted, undelete
from tests.jobs.world import DELAY, WEEK, World, aside, delete, later, start_at
from tests.support.batches import Record
from tests.support.patience import IDLE_S
from tests.support.process import BrokerPart, told


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


def grown(world: World, count: int = 10) -> Any:
    """A topic with so many records in its table."""
    topic = world.topic("t")
    world.produce(topic, [Record(b"k", b"%d" % i) for i in range(count)])
    world.flush(world.compactor())
    return topic


def bring_back(world: World) -> Any:
    return undelete(world.data_dir, "t", PosixFiles(), world.clock).topic


@pytest.mark.parametrize("wait_ms", [0, 2 * DELAY])
def test_it_is_itself_in_all_but_its_number(world: World, wait_ms: int) -> None:
    topic = grown(world)
    start_at(world, topic, 3)
    delete(world, topic)
    later(world, world.compactor(), wait_ms)
    back = bring_back(world)
    assert (back.id, back.name, back.partitions) == (topic.id, "t", topic.partitions)
    assert back.number != topic.number
    assert world.catalog.read(catalog_topics.load) == [back]
    assert world.catalog.read(catalog_topics.list_deleted) == []
    assert world.catalog.read(catalog_topics.load_log_starts) == {(back.number, 0): 3}
    assert len(world.rows(back)) == 10
    assert aside(world) == []
    later(world, world.compactor(), 2 * WEEK)
    assert len(world.rows(back)) == 10


def test_of_several_lives_the_last_comes_back(world: World) -> None:
    for count in (1, 2, 3):
        delete(world, grown(world, count))
        world.clock.advance(1)
    back = bring_back(world)
    assert len(world.rows(back)) == 3
    with pytest.raises(NotUndeleted, match="there is a topic 't'"):
        bring_back(world)
    delete(world, back)
    later(world, world.compactor(), 2 * DELAY)
    assert len(aside(world)) == 3


def test_what_is_not_there_is_said(world: World) -> None:
    with pytest.raises(NotUndeleted, match="no topic 't' was deleted"):
        bring_back(world)
    delete(world, world.topic("t"))
    with pytest.raises(NotUndeleted, match="no table of topic id"):
        bring_back(world)


def test_nothing_else_may_run_meanwhile(world: World) -> None:
    delete(world, grown(world))
    keeper = LeaseKeeper(world.catalog, "a compactor", world.clock)
    keeper.start()
    with pytest.raises(NotUndeleted, match="a compactor runs"):
        bring_back(world)
    keeper.stop()
    lock = PosixFiles().lock(world.data_dir / "lock")
    assert lock is not None
    with pytest.raises(NotUndeleted, match="is in use by"):
        bring_back(world)
    PosixFiles().close(lock)
    bring_back(world)


def test_a_broker_serves_it_and_goes_on_behind_it(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    world = World(tmp_path / "data")
    topic = grown(world)
    world.produce(topic, [Record(b"k", b"not in the table")])
    delete(world, topic)
    later(world, world.compactor(), 2 * DELAY)
    world.close()
    done = told("undelete", "t", "--data-dir", str(world.data_dir))
    assert (done.code, done.errors) == (0, "")
    part = BrokerPart(world.data_dir)
    part.start()
    try:
        producer = Producer({"bootstrap.servers": part.bootstrap})
        producer.produce("t", b"new", partition=0)
        assert producer.flush(IDLE_S) == 0
        assert consumed(part.bootstrap, 11) == [
            *((n, b"%d" % n) for n in range(10)), (10, b"new"),
        ]  # fmt: skip
    finally:
        part.end()


def consumed(bootstrap: str, count: int) -> list[tuple[int, bytes]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition("t", 0, 0)])
    found: list[tuple[int, bytes]] = []
    while len(found) < count and (message := consumer.poll(IDLE_S)) is not None:
        assert message.error() is None, message.error()
        found.append((message.offset(), message.value()))
    consumer.close()
    return found
