"""The broker through librdkafka: deadlines, and many topics."""

import asyncio
import signal

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from admin_api.kafka import Kafka, Watermarks
from admin_api.problems import problem_of
from tests.admin_api.conftest import Plane
from tests.support.confluent import produce_all
from tests.support.patience import IDLE_S
from tests.support.ports import nobody
from tests.support.process import BrokerPart

MANY = 1000


def problem_of_error(story):
    """The error code that a client would get."""
    with pytest.raises(KafkaException) as caught:
        asyncio.run(story)
    return problem_of(caught.value).error_code


@pytest.mark.parametrize(
    "ask",
    [
        Kafka.cluster,
        Kafka.topics,
        Kafka.groups,
        lambda kafka: kafka.describe_topics(["t"]),
        lambda kafka: kafka.delete_topic("t"),
        lambda kafka: kafka.describe_groups(["g"]),
        lambda kafka: kafka.committed("g"),
        lambda kafka: kafka.offsets([("t", 0)], OffsetSpec.latest()),
        lambda kafka: kafka.watermarks([("t", 0)], 5.0),
    ],
)
def test_what_nobody_answers_ends_at_its_deadline(ask):
    with nobody() as address:
        assert problem_of_error(ask(Kafka(address, timeout_s=0.2))) == 50302


def test_nothing_asked_for_is_nothing_asked():
    async def story(kafka):
        return (
            await kafka.describe_topics([]),
            await kafka.describe_groups([]),
            await kafka.configs([]),
            await kafka.offsets([], OffsetSpec.latest()),
            await kafka.watermarks([], 1.0),
        )

    assert asyncio.run(story(Kafka("127.0.0.1:1", 0.1))) == ([], [], [], {}, {})


def test_partitions_that_are_not_there_have_no_offset(plane):
    plane.create("offsets")
    kafka = plane.app.state.kafka
    asked = [("offsets", 0), ("offsets", 7), ("nobody", 0)]
    found = asyncio.run(kafka.offsets(asked, OffsetSpec.latest()))
    assert found == {("offsets", 0): 0}


def test_watermarks_are_those_of_the_partitions_that_are_there(plane):
    plane.create("marked", partitions=2)
    produce_all(plane.bootstrap, "marked", [(None, b"v", None, 1)] * 3)
    asked = [("marked", 0), ("marked", 1), ("marked", 7), ("nobody", 0)]
    found = asyncio.run(plane.app.state.kafka.watermarks(asked, IDLE_S))
    assert found == {
        ("marked", 0): Watermarks(0, 0, 0),
        ("marked", 1): Watermarks(0, 3, 3),
    }


def test_a_broker_that_hangs_is_a_503_until_it_goes_on(tmp_path):
    part = BrokerPart(tmp_path / "data")
    part.start()
    patient = Plane(part.bootstrap, part.data_dir)
    hasty = Plane(part.bootstrap, part.data_dir, timeout_s=0.2)
    topics = f"{patient.cluster}/topics"
    part.process.send_signal(signal.SIGSTOP)
    assert part.stopped(IDLE_S)
    answer = hasty.get(topics)
    assert (answer.status_code, answer.json()["error_code"]) == (503, 50302)
    assert hasty.get("/livez").status_code == 200
    part.go_on()
    assert patient.get(topics).status_code == 200
    hasty.close()
    patient.close()
    part.end()


def test_many_topics_are_all_listed_and_pages_lose_none(tmp_path):
    part = BrokerPart(tmp_path / "data")
    part.start()
    plane = Plane(part.bootstrap, part.data_dir)
    names = [f"t-{number:05}" for number in range(MANY)]
    client = AdminClient({"bootstrap.servers": part.bootstrap})
    wanted = [NewTopic(name, num_partitions=1) for name in names]
    for future in client.create_topics(wanted).values():
        future.result(IDLE_S)
    topics = f"{plane.cluster}/topics"
    whole = plane.get(topics).json()["data"]
    assert [one["topic_name"] for one in whole] == ["__consumer_offsets", *names]
    found, following = [], f"{topics}?page_size=300"
    while following:
        page = plane.get(following).json()
        found += page["data"]
        following = page["metadata"]["next"]
    assert found == whole
    plane.close()
    part.end()
