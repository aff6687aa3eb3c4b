"""The unmodified Kafka clients of the demo: a producer, a group, a reader."""

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from infra.demo.fingerprint import Fingerprint
from infra.demo.flights import Flight

Progress = Callable[[int], None]


class Acknowledged:
    """What the broker acknowledged, and when."""

    def __init__(self) -> None:
        self.fingerprint = Fingerprint()
        self.at: dict[tuple[int, int], float] = {}
        self.bytes = 0
        self.errors: list[str] = []

    def __call__(self, flight: Flight, error: Any, message: Any) -> None:
        if error is not None:
            self.errors.append(error.str())
            return
        self.fingerprint.acknowledged(message, *flight)
        self.at[message.partition(), message.offset()] = time.monotonic()


def produce(
    bootstrap: str, topic: str, flights: list[Flight], progress: Progress
) -> Acknowledged:
    """Every flight through an idempotent lz4 producer; returns when all are in."""
    acknowledged = Acknowledged()
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 5,
        }
    )
    for number, flight in enumerate(flights):
        _send(producer, topic, flight, acknowledged)
        acknowledged.bytes += len(flight.value) + len(flight.key or b"")
        if number % 2000 == 0:
            progress(acknowledged.fingerprint.records)
    while producer.flush(0.1):
        progress(acknowledged.fingerprint.records)
    progress(acknowledged.fingerprint.records)
    if acknowledged.errors:
        raise RuntimeError(
            f"{len(acknowledged.errors)} refused: {acknowledged.errors[0]}"
        )
    return acknowledged


def _send(
    producer: Producer, topic: str, flight: Flight, acknowledged: Acknowledged
) -> None:
    while True:
        try:
            producer.produce(
                topic,
                flight.value,
                flight.key,
                on_delivery=partial(acknowledged, flight),
                headers=flight.headers,
            )
        except BufferError:
            producer.poll(0.05)
        else:
            producer.poll(0)
            return


class GroupReader(threading.Thread):
    """One member of a consumer group, reading until the group has seen all."""

    def __init__(
        self, bootstrap: str, topic: str, seen: Fingerprint, lock: threading.Lock
    ) -> None:
        super().__init__(daemon=True)
        self._seen, self._lock = seen, lock
        self.stopping = threading.Event()
        self.assigned = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "flight-watchers",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": True,
            }
        )
        self._consumer.subscribe([topic], on_assign=lambda *_: self.assigned.set())

    def run(self) -> None:
        while not self.stopping.is_set():
            for message in self._consumer.consume(500, timeout=0.2):
                if message.error() is None:
                    with self._lock:
                        self._seen.consumed(message)
        self._consumer.close()


def read_all(
    bootstrap: str, topic: str, partitions: int, progress: Progress
) -> Fingerprint:
    """The whole topic from offset 0 to its end, by a client that never saw it."""
    seen = Fingerprint()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "proof",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    numbers = set(range(partitions))
    consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in numbers])
    try:
        while numbers:
            for message in consumer.consume(1000, timeout=1.0):
                _take(message, seen, numbers)
            progress(seen.records)
    finally:
        consumer.close()
    return seen


def _take(message: Any, seen: Fingerprint, waiting: set[int]) -> None:
    error = message.error()
    if error is None:
        seen.consumed(message)
    elif error.code() == KafkaError._PARTITION_EOF:
        waiting.discard(message.partition())
    else:
        raise KafkaException(error)
