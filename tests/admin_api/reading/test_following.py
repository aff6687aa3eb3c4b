"""A topic that grows while it is followed."""

import asyncio

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from admin_api.problems import Problem
from admin_api.reading import following
from admin_api.reading.following import Following
from admin_api.reading.plan import Wanted, from_the_end
from tests.support.confluent import produce_all
from tests.support.patience import IDLE_S, STUCK_S, wait_until


def grow(plane, topic, count):
    admin = AdminClient({"bootstrap.servers": plane.bootstrap})
    admin.create_partitions([NewPartitions(topic, count)])[topic].result(IDLE_S)


def produce(plane, topic, partition, value):
    produce_all(plane.bootstrap, topic, [(None, value, None, partition)])


def taken(consumer, _):
    """What comes next: its partition and value."""
    while True:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            return message.partition(), message.value()


def following_of(plane, topic):
    """A reader of partition 0 from its beginning, and what it follows."""
    kafka, partition = plane.app.state.kafka, Wanted(partitions=[0])
    found = asyncio.run(from_the_end(kafka, topic, partition))
    reader = plane.app.state.readers.reader(topic, found.starts)
    return reader, Following(kafka, topic, reader, found)


def told(story):
    asyncio.run(asyncio.wait_for(story, STUCK_S))


def test_partitions_that_are_added_are_followed_from_their_beginning(plane):
    plane.create("grows")
    reader, followed = following_of(plane, "grows")

    async def story():
        await asyncio.to_thread(produce, plane, "grows", 0, b"a")
        assert await reader.run(taken) == (0, b"a")
        await asyncio.to_thread(grow, plane, "grows", 3)
        await asyncio.to_thread(produce, plane, "grows", 2, b"b")
        await followed.look(all_of_it=True)
        assert await reader.run(taken) == (2, b"b")
        await asyncio.to_thread(produce, plane, "grows", 1, b"c")
        assert await reader.run(taken) == (1, b"c")
        await followed.look(all_of_it=True)
        await asyncio.to_thread(produce, plane, "grows", 0, b"d")
        assert await reader.run(taken) == (0, b"d")

    try:
        told(story())
    finally:
        reader.close()
    wait_until(lambda: plane.app.state.readers.open == 0)


def test_who_chose_partitions_follows_these(plane):
    plane.create("chosen")
    reader, followed = following_of(plane, "chosen")

    async def story():
        await asyncio.to_thread(grow, plane, "chosen", 2)
        await asyncio.to_thread(produce, plane, "chosen", 1, b"no")
        await followed.look(all_of_it=False)
        await asyncio.to_thread(produce, plane, "chosen", 0, b"yes")
        assert await reader.run(taken) == (0, b"yes")

    try:
        told(story())
    finally:
        reader.close()
    wait_until(lambda: plane.app.state.readers.open == 0)


def test_a_topic_that_becomes_too_large_is_followed_no_more(plane, monkeypatch):
    monkeypatch.setattr(following, "PARTITIONS_MAX", 2)
    plane.create("swells", 3)
    reader, followed = following_of(plane, "swells")
    try:
        with pytest.raises(Problem, match="at most 2"):
            told(followed.look(all_of_it=True))
    finally:
        reader.close()
    wait_until(lambda: plane.app.state.readers.open == 0)
