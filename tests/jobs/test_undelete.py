"""A deleted topic comes back with what its table has, and goes on from there."""

import asyncio
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from broker.catalog import released_ends
from broker.catalog import topics as catalog_topics
from broker.catalog.errors import CatalogMissing
from broker.catalog.missing import check_not_lost
from broker.configuration.loading import load
from broker.node import Node
from broker.protocol.errors import ErrorCode
from broker.storage.files import PosixFiles
from jobs.describe import facts_of
from jobs.lease import LeaseKeeper
from jobs.undelete import NotUndeleted, undelete
from lakehouse import warehouse_names
from lakehouse.log.delta_log import entry_path
from lakehouse.log.delta_log import load as load_table
from lakehouse.topic_facts import facts_of as said_by
from tests.jobs.world import DELAY, WEEK, World, aside, delete, later, start_at
from tests.support.batches import Record
from tests.support.patience import IDLE_S, STUCK_S
from tests.support.process import BrokerPart, told
from tests.support.rig import batch_of, fetch_one, produce_one, values_in
from tests.support.warehouses import Further


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


def bring_back(world: World, topic_id: str | None = None) -> Any:
    files = PosixFiles()
    return undelete(world.data_dir, "t", files, world.clock, topic_id).topic


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
    assert world.catalog.read(released_ends.load) == {(back.number, 0): 10}
    assert len(world.rows(back)) == 10
    assert said_by(load_table(str(world.path(back))).configuration) == facts_of(back)
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


def test_the_wanted_life_comes_back_whoever_made_another_since(world: World) -> None:
    """As a producer does that goes on: the name is there again at once."""
    first = grown(world)
    delete(world, first)
    world.clock.advance(1)
    delete(world, grown(world, 1))
    world.clock.advance(1)
    back = bring_back(world, first.id.hex())
    assert back.id == first.id
    assert len(world.rows(back)) == 10
    delete(world, back)
    with pytest.raises(NotUndeleted, match="with the id 77"):
        bring_back(world, "77" * 16)


def test_a_life_without_a_table_is_passed_over(world: World) -> None:
    first = grown(world)
    delete(world, first)
    world.clock.advance(1)
    delete(world, world.topic("t"))
    assert bring_back(world).id == first.id


def test_what_is_not_there_is_said(world: World) -> None:
    for _ in range(2):
        with pytest.raises(NotUndeleted, match="no topic 't' was deleted"):
            bring_back(world)
        delete(world, world.topic("t"))


@pytest.mark.parametrize("calls", range(3))
def test_a_table_that_is_being_dropped_comes_back_whole_or_not(
    world: World, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    topic = grown(world)
    delete(world, topic)
    later(world, world.compactor(), 2 * DELAY)
    with monkeypatch.context() as patch:
        for name in ("unlink", "rmdir"):
            patch.setattr(os, name, until(calls, getattr(os, name)))
        later(world, world.compactor(), 2 * WEEK)
    assert world.catalog.read(catalog_topics.list_deleted)
    with pytest.raises(NotUndeleted, match="no topic 't' was deleted"):
        bring_back(world)


def until(calls: int, act: Callable[..., None]) -> Callable[..., None]:
    """``act`` so many times, and then a disk that fails."""
    left = iter(range(calls))

    def failing(*args: Any, **more: Any) -> None:
        if next(left, None) is None:
            raise OSError(errno.EIO, "Input/output error")
        act(*args, **more)

    return failing


def test_a_table_whose_log_is_damaged_does_not_come_back(world: World) -> None:
    """Nobody would know where it ends, and its offsets would be given again."""
    topic = grown(world)
    delete(world, topic)
    later(world, world.compactor(), 2 * DELAY)
    entry = Path(entry_path(str(aside(world)[0]), 0))
    whole = entry.read_bytes()
    entry.write_bytes(b"x" + whole)
    with pytest.raises(NotUndeleted, match=entry.name):
        bring_back(world)
    entry.write_bytes(whole)
    assert len(world.rows(bring_back(world))) == 10


def test_what_a_late_engine_left_in_its_place_is_named(world: World) -> None:
    topic = grown(world)
    delete(world, topic)
    later(world, world.compactor(), 2 * DELAY)
    place = world.path(topic)
    (place / "partition=0").mkdir(parents=True)
    with pytest.raises(NotUndeleted, match=f"{place} is in the way"):
        bring_back(world)
    place.rename(place.with_name("moved"))
    assert len(world.rows(bring_back(world))) == 10


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


def test_no_catalog_is_made_where_one_is_lost(world: World) -> None:
    """A broker starts with one that is there, and lets go of all that it does not
    know."""
    delete(world, grown(world))
    lost = [*world.data_dir.glob("catalog.db*")]
    for path in lost:
        path.unlink()
    (world.data_dir / "catalog.db").touch()
    with pytest.raises(CatalogMissing, match="lakelog rebuild"):
        bring_back(world)
    with pytest.raises(CatalogMissing):
        check_not_lost(world.data_dir, has_log=True)


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
    # Its records are years old: retention would take them, were this story slow.
    part = BrokerPart(world.data_dir, "lake.retention_check_ms=3600000")
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


def test_a_broker_gives_no_offset_again_whose_table_it_cannot_read_yet(
    tmp_path: Path,
) -> None:
    """It was noted when the topic was brought back."""
    data_dir = tmp_path / "node"
    data_dir.mkdir()
    world = World(data_dir)
    topic = grown(world)
    delete(world, topic)
    bring_back(world)
    entry = Path(entry_path(str(world.path(topic)), 0))
    world.close()
    whole = entry.read_bytes()
    entry.write_bytes(b"x" + whole)

    async def story() -> None:
        flags = {"data_dir": str(data_dir), "listener": "127.0.0.1:0"}
        node = await Node.start(load(flags, environment={}))
        try:
            taken = await produce_one(node.broker, "t", batch_of(b"new"))
            assert (taken.error_code, taken.base_offset) == (0, 10)
            unread = await fetch_one(node.broker, "t", 9)
            assert unread.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            entry.write_bytes(whole)
            while node.broker.lake.unreadable_topics():
                await asyncio.sleep(0.01)
            taken = await produce_one(node.broker, "t", batch_of(b"new"))
            assert (taken.error_code, taken.base_offset) == (0, 11)
            assert values_in(await fetch_one(node.broker, "t", 9))[-1] == b"9"
        finally:
            await node.stop()

    asyncio.run(asyncio.wait_for(story(), STUCK_S))


def consumed(bootstrap: str, count: int) -> list[tuple[int, bytes]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition("t", 0, 0)])
    found: list[tuple[int, bytes]] = []
    while len(found) < count and (message := consumer.poll(IDLE_S)) is not None:
        assert message.error() is None, message.error()
        found.append((message.offset(), message.value()))
    consumer.close()
    return found


def test_it_comes_back_from_a_further_warehouse(tmp_path: Path, world: World) -> None:
    two = Further(tmp_path, "fast", warehouse=world.data_dir / "tables")
    topic = world.topic("t", 1, {warehouse_names.CONFIG: "fast"})
    world.produce(topic, [Record(b"k", b"v")] * 5)
    compactor = world.compactor()
    world.flush(compactor)
    before = world.rows(topic)
    delete(world, topic)
    later(world, compactor)
    compactor.stop()
    assert [one.name for one in two.roots["fast"].glob(".deleted-*")]
    two.unmount("fast")
    with pytest.raises(NotUndeleted, match="the warehouse fast is not there"):
        bring_back(world)
    two.mount("fast")
    back = bring_back(world)
    assert back.configs == {warehouse_names.CONFIG: "fast"}
    assert world.rows(back) == before
    assert os.path.islink(world.path(back))
