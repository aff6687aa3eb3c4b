"""How far topics reach, seen from beside: segments, tables, catalog."""

import threading
import time

import pytest

from broker.catalog import requests
from broker.catalog import topics as stored
from jobs.extent import Extents, NoSuchTopic, NotInTime
from tests.jobs.world import World
from tests.support.batches import Record


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


@pytest.fixture
def extents(world):
    found = Extents(world.data_dir)
    yield found
    found.close()


def records(count: int) -> list[Record]:
    return [Record(value=b"%d" % n) for n in range(count)]


def ends(extent) -> list[tuple[int, int, int]]:
    return [(p.log_start, p.table_end, p.high_watermark) for p in extent.partitions]


def test_a_topic_without_records_reaches_nowhere(world, extents):
    world.topic("t", 2)
    [found] = extents.of(["t"])
    assert (found.topic, found.version, ends(found)) == ("t", None, [(0, 0, 0)] * 2)
    assert found.pending() == 0


def test_what_is_durable_is_pending_until_it_is_in_the_table(world, extents):
    topic = world.topic("t", 2)
    world.produce(topic, records(3), 0)
    world.produce(topic, records(5), 1)
    world.produce(topic, records(1), 1)
    [found] = extents.of(["t"])
    assert ends(found) == [(0, 0, 3), (0, 0, 6)]
    assert found.pending() == 9
    assert all(part.segment_bytes > 0 for part in found.partitions)
    world.flush(world.compactor())
    [found] = extents.of(["t"])
    assert ends(found) == [(0, 3, 3), (0, 6, 6)]
    assert found.version is not None
    assert found.pending() == 0


def test_sealed_segments_count_like_the_active_one(world, extents):
    topic = world.topic("t")
    world.produce(topic, records(3))
    world.roll()
    world.produce(topic, records(4))
    assert ends(extents.of(["t"])[0]) == [(0, 0, 7)]


def test_records_below_the_log_start_are_not_pending(world, extents):
    topic = world.topic("t")
    world.produce(topic, records(3))
    world.catalog.change(lambda c: stored.set_log_start(c, {(topic.number, 0): 3}))
    [found] = extents.of(["t"])
    assert ends(found) == [(3, 3, 3)]
    assert found.pending() == 0


def test_all_topics_are_told_in_order_of_their_names(world, extents):
    for name in ("b", "a", "C"):
        world.topic(name)
    assert [found.topic for found in extents.of()] == ["C", "a", "b"]
    with pytest.raises(NoSuchTopic, match="there is no topic 'x'"):
        extents.of(["x"])


def test_the_table_of_an_earlier_topic_of_the_name_does_not_count(world, extents):
    topic = world.topic("t")
    world.produce(topic, records(3))
    world.flush(world.compactor())
    world.catalog.change(lambda c: stored.delete(c, topic.number, 1))
    world.topic("t")
    assert ends(extents.of(["t"])[0]) == [(0, 0, 0)]


def test_compact_asks_and_waits_until_it_is_done(world, extents):
    topic = world.topic("t")
    world.produce(topic, records(3))
    compactor = world.compactor(flush_ms=10**9)
    done = []
    waiting = threading.Thread(
        target=lambda: done.append(extents.compact(["t"], timeout_s=20))
    )
    waiting.start()
    deadline = time.monotonic() + 20
    while waiting.is_alive() and time.monotonic() < deadline:
        compactor.step()
        time.sleep(0.01)
    waiting.join()
    [[found]] = done
    assert ends(found) == [(0, 3, 3)]
    compactor.step()
    assert world.catalog.read(requests.pending) == []


def test_compact_without_a_compactor_says_what_is_late(world, extents):
    world.produce(world.topic("t"), records(3))
    world.topic("empty")
    with pytest.raises(NotInTime, match=r"after 0.1 s: t; is a compactor running\?"):
        extents.compact([], timeout_s=0.1)
    assert [found.topic for found in extents.compact(["empty"], 0.1)] == ["empty"]


def test_a_topic_that_is_deleted_meanwhile_is_not_waited_for(world, extents):
    topic = world.topic("t")
    world.produce(topic, records(3))
    delete = threading.Timer(
        0.2, lambda: world.catalog.change(lambda c: stored.delete(c, topic.number, 1))
    )
    delete.start()
    assert extents.compact([], timeout_s=10) == []
    delete.join()
