"""What tests do with librdkafka: make topics, produce, read, join groups."""

import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.patience import IDLE_S, Patience

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def held_to(version: str) -> dict[str, object]:
    """What makes a client speak as with a broker of ``version``, older than 0.10."""
    return {"api.version.request": False, "broker.version.fallback": version}


def create(bootstrap: str, topic: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = NewTopic(topic, num_partitions=partitions, config=config)
    admin.create_topics([wanted])[topic].result(IDLE_S)


def produce_all(bootstrap: str, topic: str, records: list, **config: object) -> list:
    """Produce (key, value, headers, partition) records; the delivered messages."""
    delivered, refused = [], []

    def told(error, message):
        (refused if error else delivered).append(error or message)

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5} | config)
    for key, value, headers, partition in records:
        producer.produce(
            topic, value, key, partition, on_delivery=told, headers=headers
        )
        producer.poll(0)
    assert producer.flush(IDLE_S) == 0
    assert not refused, refused
    return delivered


def read(bootstrap: str, topic: str, count: int, partitions: int = 1) -> list:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "r", "enable.auto.commit": False}
    )
    consumer.assign(
        [
            TopicPartition(topic, number, OFFSET_BEGINNING)
            for number in range(partitions)
        ]
    )
    found, patience = [], Patience()
    while len(found) < count and patience.lasts(len(found)):
        for message in consumer.consume(1000, timeout=0.05):
            assert message.error() is None, message.error()
            found.append(message)
    consumer.close()
    return found


class Member:
    """A consumer in a group that gathers what it reads."""

    def __init__(self, bootstrap: str, topic: str, group: str, **config) -> None:
        self.assigned: set[int] = set()
        self.values: list[bytes] = []
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 60_000,
                "heartbeat.interval.ms": 200,
                "enable.auto.commit": False,
            }
            | config
        )
        self.consumer.subscribe([topic])

    def poll(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for message in self.consumer.consume(100, timeout=0.05):
                assert message.error() is None, message.error()
                self.values.append(message.value())
            self.assigned = {p.partition for p in self.consumer.assignment()}


def until(condition, members, seconds=IDLE_S) -> None:
    """Poll ``members`` until it is so; AssertionError when they stand still."""
    patience = Patience(seconds)
    while not condition() and patience.lasts(
        [(len(member.values), member.assigned) for member in members]
    ):
        for member in members:
            member.poll(0.1)
    assert condition()
