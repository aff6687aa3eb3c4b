"""From where to where is read, asked of a real broker."""

import asyncio

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from admin_api import refusals
from admin_api.kafka import Kafka
from admin_api.problems import Problem
from admin_api.reading.plan import Wanted, from_the_end, plan
from tests.support.patience import IDLE_S
from tests.support.ports import nobody


@pytest.fixture(scope="module")
def topic(plane):
    """Partition 0 has 3 to 10, a second of its own for each; 1 has none."""
    plane.create("planned", partitions=2)
    producer = Producer({"bootstrap.servers": plane.bootstrap})
    for n in range(10):
        producer.produce("planned", b"v", partition=0, timestamp=1000 * (n + 1))
    assert producer.flush(IDLE_S) == 0
    admin = AdminClient({"bootstrap.servers": plane.bootstrap})
    for future in admin.delete_records([TopicPartition("planned", 0, 3)]).values():
        future.result(IDLE_S)
    return "planned"


def planned(plane, name, **wanted):
    found = asyncio.run(plan(plane.app.state.kafka, name, Wanted(**wanted)))
    assert found.firsts.keys() == found.spans.keys()
    return found.spans


@pytest.mark.parametrize(
    ("wanted", "spans"),
    [
        ({}, {0: (3, 10), 1: (0, 0)}),
        ({"partitions": [0, 0]}, {0: (3, 10)}),
        ({"offset": 5, "partitions": [0]}, {0: (5, 10)}),
        ({"offset": 1, "partitions": [0]}, {0: (3, 10)}),
        ({"offset": 10, "partitions": [0]}, {0: (10, 10)}),
        ({"timestamp_ms": 7000}, {0: (6, 10), 1: (0, 0)}),
        ({"timestamp_ms": 99_000}, {0: (10, 10), 1: (0, 0)}),
        ({"last": 2}, {0: (8, 10), 1: (0, 0)}),
        ({"last": 99}, {0: (3, 10), 1: (0, 0)}),
        ({"last": 0}, {0: (10, 10), 1: (0, 0)}),
        ({"places": ["0:7"]}, {0: (7, 10)}),
        ({"places": ["1:0", "0:9"]}, {0: (9, 10), 1: (0, 0)}),
    ],
)
def test_where_it_begins_and_ends(plane, topic, wanted, spans):
    assert planned(plane, topic, **wanted) == spans


@pytest.mark.parametrize(
    ("wanted", "code", "why"),
    [
        ({"offset": 11, "partitions": [0]}, 400, "from 3 up to 10"),
        ({"partitions": [7]}, 40402, "no partition 7"),
        ({"places": ["7:0"]}, 40402, "no partition 7"),
        ({"places": ["0:1", "0:2"]}, 400, "once"),
        ({"places": ["0"]}, 400, "partition:offset"),
        ({"places": ["\u0660:1"]}, 400, "partition:offset"),
        ({"offset": 1, "last": 1}, 400, "one of"),
        ({"places": ["0:1"], "partitions": [0]}, 400, "leave partition out"),
    ],
)
def test_what_cannot_be_read_says_why(plane, topic, wanted, code, why):
    with pytest.raises(Problem, match=why) as caught:
        planned(plane, topic, **wanted)
    assert caught.value.error_code == code


def test_a_topic_that_is_not_there(plane):
    with pytest.raises(KafkaException):
        planned(plane, "nobody")


def test_a_topic_is_followed_from_its_end_or_from_where_one_was(plane, topic):
    def starts(**wanted):
        kafka = plane.app.state.kafka
        found = asyncio.run(from_the_end(kafka, topic, Wanted(**wanted)))
        [described] = asyncio.run(kafka.describe_topics([topic]))
        assert found.topic_id == str(described.topic_id)
        return found.starts

    assert starts() == {0: 10, 1: 0}
    assert starts(partitions=[1]) == {1: 0}
    assert starts(places=["0:4"]) == {0: 4}
    assert starts(places=["0:1"]) == {0: 3}


@pytest.mark.parametrize("asked", [plan, from_the_end])
def test_where_connections_are_refused_no_answer_is_waited_for(asked, monkeypatch):
    monkeypatch.setattr(refusals, "LOOK_S", 0.05)
    with (
        nobody() as address,
        pytest.raises(KafkaException, match="connections are refused"),
    ):
        asyncio.run(asked(Kafka(address, IDLE_S), "t", Wanted()))
