"""What tests of transactions do with librdkafka: write, end, read at both levels."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from tests.support.patience import IDLE_S, Patience

LEVELS = ("read_committed", "read_uncommitted")


def transactional(bootstrap: str, name: str, **config: object) -> Producer:
    """A producer that has its epoch."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "linger.ms": 1,
            "transaction.timeout.ms": 900_000,  # longer than any test waits
        }
        | config
    )
    producer.init_transactions(IDLE_S)
    return producer


def write(producer: Producer, topic: str, *values: bytes, partitions: int = 1) -> None:
    """Records of the transaction that is open are durable."""
    refused = []
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value,
            partition=number % partitions,
            on_delivery=lambda error, _: error and refused.append(error),
        )
    assert producer.flush(IDLE_S) == 0
    assert not refused, refused


def write_in_time_or_late(producer: Producer, topic: str, value: bytes) -> None:
    """A record of a transaction that may have run out of time already."""
    producer.produce(topic, value, partition=0)
    assert producer.flush(IDLE_S) == 0


def commit(producer: Producer) -> None:
    """Commit, and ask again while the broker is not there."""
    patience = Patience()
    while (refused := _refusal(producer)) is not None:
        assert refused.retriable(), refused
        assert patience.lasts(), refused


def _refusal(producer: Producer) -> KafkaError | None:
    try:
        producer.commit_transaction(IDLE_S)
    except KafkaException as error:
        return error.args[0]
    return None


def read_all(bootstrap: str, topic: str, level: str, partitions: int = 1) -> list:
    """Every message of a topic up to where it ends now for readers of this level."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reads",
            "enable.auto.commit": False,
            "isolation.level": level,
            "enable.partition.eof": True,
        }
    )
    parts = [TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(partitions)]
    consumer.assign(parts)
    found, ended, patience = [], set(), Patience()
    while len(ended) < partitions and patience.lasts((len(found), len(ended))):
        for message in consumer.consume(1000, timeout=0.05):
            if message.error() is None:
                found.append(message)
            else:
                assert message.error().name() == "_PARTITION_EOF", message.error()
                ended.add(message.partition())
    consumer.close()
    assert len(ended) == partitions, "it never came to the end"
    return found


def values_of(bootstrap: str, topic: str, level: str, partitions: int = 1) -> list:
    """The values of ``read_all``, sorted."""
    found = read_all(bootstrap, topic, level, partitions)
    return sorted(message.value() for message in found)


class TransactionalLoad:
    """A producer whose transactions end one way or the other while brokers die.

    A transaction is ``kept`` once its commit was answered; each has one record in every
    partition.
    """

    def __init__(self, bootstrap: str, topic: str, name: str, partitions: int) -> None:
        self.topic, self.name, self.partitions = topic, name, partitions
        self.producer: Producer = transactional(bootstrap, name)
        self.kept: list[int] = []

    def values(self, number: int) -> list[bytes]:
        return [f"{self.name} {number} {i}".encode() for i in range(self.partitions)]

    def wanted(self) -> list[bytes]:
        """What who reads what is committed must find, and nothing else."""
        return [value for number in self.kept for value in self.values(number)]

    def run(self, enough: threading.Event) -> None:
        """One transaction after the other; every third is aborted."""
        number = 0
        while not enough.is_set():
            self.producer.begin_transaction()
            values = self.values(number)
            write(self.producer, self.topic, *values, partitions=self.partitions)
            if number % 3 == 2:
                self.producer.abort_transaction(IDLE_S)
            else:
                commit(self.producer)
                self.kept.append(number)
            number += 1


@contextmanager
def under_load(*loads: TransactionalLoad) -> Iterator[None]:
    """They run meanwhile, and have ended their last transactions afterwards."""
    enough = threading.Event()
    with ThreadPoolExecutor(len(loads)) as at_once:
        running = [at_once.submit(load.run, enough) for load in loads]
        try:
            yield
        finally:
            enough.set()
        for one in running:
            one.result()
