"""The topics are read again when they changed, by whomever, and not else."""

from collections.abc import Callable

import pytest
from sqlalchemy import Connection, update

from broker.catalog import topics as stored
from broker.catalog.catalog import Catalog
from broker.catalog.schema import topics as table
from broker.topics.topic import Topic
from jobs.topics import AGAIN_MS, KnownTopics
from tests.jobs.world import World


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many topics each load brought."""
    found: list[int] = []

    def load(connection: Connection) -> list[Topic]:
        topics = _load(connection)
        found.append(len(topics))
        return topics

    monkeypatch.setattr(stored, "load", load)
    return found


_load = stored.load


def test_topics_at_rest_are_read_once(world: World, loads: list[int]) -> None:
    topic = world.topic("t")
    topics = KnownTopics(world.catalog, world.clock)
    found = topics.look()
    for _ in range(10):
        world.clock.advance(200)
        assert topics.look() is found
    assert (found, loads) == ({topic.number: topic}, [1])


@pytest.mark.parametrize(
    "change",
    [
        lambda c, number: stored.create(c, "another", bytes(16), 1, {}, 1),
        lambda c, number: stored.alter_configs(c, number, {"retention.ms": "5"}),
        lambda c, number: stored.add_partitions(c, number, 3),
        lambda c, number: stored.delete(c, number, 5),
        lambda c, number: (stored.delete(c, number, 5), stored.revive(c, number, {})),
        lambda c, number: stored.restore(
            c, Topic(number + 9, bytes(16), "again", 1, {}), 1
        ),
    ],
    ids=["create", "alter", "partitions", "delete", "revive", "restore"],
)
def test_whatever_another_process_changes_is_seen_in_the_next_look(
    world: World, loads: list[int], change: Callable[[Connection, int], object]
) -> None:
    topic = world.topic("t")
    topics = KnownTopics(world.catalog, world.clock)
    before = topics.look()
    with Catalog.open(world.data_dir / "catalog.db") as other:
        other.change(lambda c: change(c, topic.number))
    after = topics.look()
    assert after != before
    assert list(after.values()) == world.catalog.read(_load)
    assert topics.look() is after
    assert len(loads) == 2


def test_other_changes_to_the_catalog_do_not_have_them_read(
    world: World, loads: list[int]
) -> None:
    topic = world.topic("t")
    topics = KnownTopics(world.catalog, world.clock)
    topics.look()
    world.catalog.change(lambda c: stored.set_log_start(c, {(topic.number, 0): 5}))
    topics.look()
    assert len(loads) == 1


def test_a_change_that_was_not_counted_is_seen_later(world: World) -> None:
    """By a program of the version before."""
    world.topic("t")
    topics = KnownTopics(world.catalog, world.clock)
    topics.look()
    world.catalog.change(lambda c: c.execute(update(table).values(partitions=7)))
    world.clock.advance(AGAIN_MS)
    (found,) = topics.look().values()
    assert found.partitions == 7
