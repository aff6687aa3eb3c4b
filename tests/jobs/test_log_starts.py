"""Log starts are read when somebody asks, and anew when a segment may have gone."""

from broker.catalog import topics as stored
from jobs.log_starts import AGAIN_MS, LogStarts
from tests.jobs.world import World, start_at


def test_they_are_read_once_a_second(world: World) -> None:
    topic, starts = world.topic("t"), LogStarts(world.catalog, world.clock)
    key = topic.number, 0
    assert starts.of(key) == 0
    start_at(world, topic, 5)
    assert starts.look() == {}
    world.clock.advance(AGAIN_MS)
    assert (starts.look(), starts.of(key)) == ({key: 5}, 5)


def test_none_is_older_than_the_segments_that_are_there(world: World) -> None:
    """What let one go was in the catalog before it went."""
    topic, starts = world.topic("t"), LogStarts(world.catalog, world.clock)
    starts.behind({1, 2})
    assert starts.look() == {}
    start_at(world, topic, 5)
    starts.behind({1, 2})
    assert starts.look() == {}
    starts.behind({2})
    assert starts.look() == world.catalog.read(stored.load_log_starts)
