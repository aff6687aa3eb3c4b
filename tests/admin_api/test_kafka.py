"""The broker through librdkafka: deadlines, and many topics."""

import asyncio
import signal
import socket
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from admin_api import kafka as kafka_module
from admin_api.kafka import Kafka, Watermarks
from admin_api.problems import problem_of
from admin_api.reading import tail
from tests.admin_api.conftest import Plane
from tests.crash.workload import create_topic
from tests.support.confluent import produce_all
from tests.support.patience import IDLE_S, Patience
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


def test_who_waits_for_watermarks_keeps_nobody_from_a_thread():
    async def story(kafka):
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        waiting = asyncio.create_task(kafka.watermarks([("t", 0)], IDLE_S))
        await asyncio.sleep(0)  # it has the thread, or had it
        await asyncio.to_thread(lambda: None)
        assert not waiting.done()
        waiting.cancel()

    with nobody() as address:
        asyncio.run(story(Kafka(address, timeout_s=IDLE_S)))


class Noting:
    """librdkafka's client, and of how many resources it was asked at a time."""

    def __init__(self, client):
        self.client, self.asked = client, []

    def describe_configs(self, resources, **more):
        self.asked.append(len(resources))
        return self.client.describe_configs(resources, **more)


class Deaf:
    """librdkafka's client that waits for a group's coordinator, and only for it."""

    def __init__(self, client):
        self.client = client

    def __getattr__(self, name):
        return getattr(self.client, name)

    def list_consumer_group_offsets(self, asked, **_more):
        return {one.group_id: Future() for one in asked}

    def describe_consumer_groups(self, ids, **_more):
        return {one: Future() for one in ids}


@pytest.mark.parametrize(
    "ask",
    [
        lambda kafka: kafka.committed("groups"),
        lambda kafka: kafka.describe_groups(["groups"]),
    ],
)
def test_a_client_that_waits_for_a_coordinator_for_ever_is_replaced(plane, ask):
    async def story(kafka):
        kafka._client = deaf = Deaf(kafka._client)
        with pytest.raises(KafkaException, match="did not answer"):
            await ask(kafka)
        renewed = kafka._client
        assert renewed is not deaf
        kafka._renew()
        assert kafka._client is renewed  # no second one so soon
        kafka.timeout_s = IDLE_S
        await ask(kafka)

    asyncio.run(story(Kafka(plane.bootstrap, timeout_s=0.1)))


def test_configurations_are_asked_for_a_few_in_each_turn(plane, monkeypatch):
    monkeypatch.setattr("admin_api.kafka.RESOURCES_A_TURN", 2)
    for number in range(5):
        plane.create(f"turn-{number}", **{"retention.ms": str(1000 + number)})
    kafka = Kafka(plane.bootstrap, IDLE_S)
    kafka._client = noting = Noting(kafka._client)
    asked = [ConfigResource(ResourceType.TOPIC, f"turn-{n}") for n in range(5)]
    found = asyncio.run(kafka.configs(asked))
    assert [int(one["retention.ms"].value) for one in found] == [*range(1000, 1005)]
    assert noting.asked == [2, 2, 1]


ASKER = """
import asyncio, sys
from confluent_kafka import KafkaException
from admin_api.kafka import Kafka

async def story():
    kafka = Kafka(sys.argv[1], timeout_s=0.2)
    for group in map(str.strip, sys.stdin):
        try:
            await kafka.committed(group)
            await kafka.describe_groups([group])
            print("answered", flush=True)
        except KafkaException as error:
            print(error.args[0].name(), flush=True)

asyncio.run(story())
"""


class Asker:
    """A process that asks for groups: librdkafka once ended it."""

    def __init__(self, bootstrap):
        words = [sys.executable, "-c", ASKER, bootstrap]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(words, text=True, **pipes)

    def ask(self, group):
        """What came of it; nothing if the process has ended."""
        self.process.stdin.write(f"{group}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()  # it ends there
        self.process.wait(IDLE_S)
        self.process.stdout.close()

    def until_answered(self, group):
        patience = Patience()
        while (said := self.ask(group)) != "answered":
            assert said, "it has ended"
            assert patience.lasts(), said


def test_a_broker_that_is_killed_while_it_hangs_ends_nobody_who_asks_for_groups(
    tmp_path,
):
    part = BrokerPart(tmp_path / "data")
    part.start()
    with Asker(part.bootstrap) as asker:
        asker.until_answered("one")
        part.process.send_signal(signal.SIGSTOP)
        assert part.stopped(IDLE_S)
        asked = [asker.ask(f"new-{number}") for number in range(5)]
        assert asked == ["_TIMED_OUT"] * 5
        part.kill()
        part.start()
        for group in ("one", "new-0", "new-5"):
            asker.until_answered(group)
    assert asker.process.returncode == 0
    part.end()


def test_who_waits_a_second_for_watermarks_of_a_broker_that_is_gone_waits_no_longer(
    tmp_path,
):
    """Then librdkafka has no leader, and it is asked whether there is such a topic."""
    broker = BrokerPart(tmp_path / "data")
    broker.start()
    create_topic(broker.bootstrap, "t", 1)
    kafka = Kafka(broker.bootstrap, IDLE_S)

    async def story():
        assert await kafka.watermarks([("t", 0)], IDLE_S)
        broker.kill()
        begun_s = monotonic()
        with pytest.raises(KafkaException):
            await kafka.watermarks([("t", 0)], 1.0)
        return monotonic() - begun_s

    try:
        assert asyncio.run(story()) < IDLE_S
    finally:
        broker.end()


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


@pytest.mark.parametrize(
    ("first", "method", "path"),
    [
        ("cluster", "GET", "{}/consumer-groups/late/lags"),
        ("describe_groups", "POST", "/v1/groups/late:reset-offsets"),
    ],
)
def test_what_is_asked_for_one_answer_has_the_time_of_one_question(
    tmp_path, monkeypatch, first, method, path
):
    """Of a group's lags: the cluster, the group, what it committed, and the ends. When
    the first answer has taken all of the time, a broker that answers comes too late."""
    part = BrokerPart(tmp_path / "data")
    part.start()
    plane = Plane(part.bootstrap, part.data_dir)
    plane.create("lagging")
    body = {"to": "EARLIEST", "topics": [{"topic_name": "lagging"}], "dry_run": False}
    assert plane.post("/v1/groups/late:reset-offsets", body).is_success
    url, kafka = path.format(plane.cluster), plane.app.state.kafka
    answers, came = getattr(kafka, first), []

    async def late(*said):
        found = await answers(*said)
        loop, time = asyncio.get_running_loop(), asyncio.get_running_loop().time
        monkeypatch.setattr(loop, "time", lambda: time() + 2 * IDLE_S)
        came.append(found)
        return found

    monkeypatch.setattr(kafka, first, late)
    answer = plane.ask(method, url, json=body)
    assert len(came) == 1
    assert answer.status_code == 503
    assert answer.json()["error_code"] == 50302
    monkeypatch.undo()
    assert plane.ask(method, url, json=body).is_success, "it would have answered"
    plane.close()
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


def test_the_deadline_of_an_answer_is_not_that_of_the_request_behind_it(
    plane, address, monkeypatch
):
    """Both are sent at once; the second follows a topic for longer than the first may
    ask the broker."""
    plane.create("behind")

    def begin():
        kafka_module._due_s.set(asyncio.get_running_loop().time() + 0.1)

    monkeypatch.setattr(plane.app.state.kafka, "begin", begin)
    monkeypatch.setattr(tail, "CHECK_MS", 200)
    paths = ("/v3/clusters", "/v1/topics/behind/tail?duration_s=2")
    with socket.create_connection(address, IDLE_S) as client:
        asked = [f"GET {path} HTTP/1.1\r\nHost: plane\r\n" for path in paths]
        client.sendall("\r\n".join(asked).encode() + b"Connection: close\r\n\r\n")
        said = b"".join(iter(lambda: client.recv(1 << 16), b""))
    assert b"event: end" in said, said


class Leaderless:
    """A real client that finds no leader of any partition, the first so many times: it
    says so in some moments of a topic's deletion."""

    def __init__(self, client, times):
        self._client, self._left = client, times

    def __getattr__(self, name):
        return getattr(self._client, name)

    def list_offsets(self, wanted, **named):
        if not self._left:
            return self._client.list_offsets(wanted, **named)
        self._left -= 1
        failed = Future()
        failed.set_exception(KafkaException(KafkaError(KafkaError._NOENT, "no leader")))
        return dict.fromkeys(wanted, failed)


@pytest.mark.parametrize("times", [1, 3])
def test_of_a_topic_without_a_leader_it_is_asked_whether_it_is_there(plane, times):
    name = f"led-{times}"
    plane.create(name)
    kafka = Kafka(plane.bootstrap)
    own, led = kafka._client, (name, 0)

    async def asked(places):
        kafka._client = Leaderless(own, 1)
        offsets = await kafka.offsets(places, OffsetSpec.latest())
        kafka._client = Leaderless(own, times)
        marks = await kafka.watermarks(places, IDLE_S)
        return offsets, marks

    gone = ("deleted", 0)
    assert asyncio.run(asked([gone])) == ({}, {})
    there = {led: 0}, {led: Watermarks(0, 0, 0)}
    assert asyncio.run(asked([gone, led])) == there
    with pytest.raises(KafkaException, match="no leader"):
        asyncio.run(asked([led]))
