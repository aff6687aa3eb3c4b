"""Clients under load while processes die, and the comparison afterwards.

A value names its producer and its number. What the client saw acknowledged is kept;
after the last restart the whole topic is read and held against it.
"""

import threading
import time
from collections import Counter, defaultdict

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Producer,
    TopicPartition,
)

QUICK = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "log_level": 0}


class Load(threading.Thread):
    """One producer that keeps producing, whatever happens to the broker."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        name: str = "p",
        idempotent: bool = True,
        value_bytes: int = 200,
        pause_s: float = 0.002,
    ) -> None:
        super().__init__(daemon=True)
        self.topic, self.partitions, self.name_ = topic, partitions, name
        self.idempotent, self.value_bytes = idempotent, value_bytes
        self.pause_s = pause_s
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.refused: list[str] = []
        self.sent = 0
        self.stopping = threading.Event()
        self._producer = Producer(
            QUICK
            | {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": idempotent,
                "acks": "all",
                "linger.ms": 2,
                "message.timeout.ms": 120_000,
                "retry.backoff.ms": 20,
                "error_cb": lambda _error: None,
            }
        )

    def _told(self, error, message) -> None:
        if error is not None:
            self.refused.append(error.name())
            return
        key = (message.partition(), message.offset())
        assert key not in self.acknowledged, f"offset {key} acknowledged twice"
        self.acknowledged[key] = message.value()

    def run(self) -> None:
        while not self.stopping.is_set():
            for _ in range(20):
                value = f"{self.name_}:{self.sent}:".encode()
                self._producer.produce(
                    self.topic,
                    value.ljust(self.value_bytes, b"."),
                    partition=self.sent % self.partitions,
                    on_delivery=self._told,
                )
                self.sent += 1
            self._producer.poll(0)
            time.sleep(self.pause_s)
        deadline = time.monotonic() + 60
        while self._producer.flush(1) and time.monotonic() < deadline:
            pass

    def finish(self) -> None:
        """Stop producing and wait until everything was answered."""
        self.stopping.set()
        self.join(90)
        assert not self.is_alive()


def read_everything(bootstrap: str, topic: str, partitions: int) -> dict:
    """(partition, offset) -> value, from offset 0 to the end, by a new client."""
    consumer = Consumer(
        QUICK
        | {
            "bootstrap.servers": bootstrap,
            "group.id": "judge",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    waiting = set(range(partitions))
    consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in waiting])
    found: dict[tuple[int, int], bytes] = {}
    deadline = time.monotonic() + 60
    while waiting:
        assert time.monotonic() < deadline, f"no end of partitions {waiting}"
        for message in consumer.consume(1000, timeout=0.5):
            error = message.error()
            if error is None:
                key = (message.partition(), message.offset())
                assert key not in found, f"offset {key} read twice"
                found[key] = message.value()
            elif error.code() == KafkaError._PARTITION_EOF:
                waiting.discard(message.partition())
            else:
                raise AssertionError(error)
    consumer.close()
    return found


def judge(loads: list[Load], found: dict) -> None:
    """No acknowledged record lost or changed; none twice from an idempotent one."""
    for load in loads:
        lost = {k: v for k, v in load.acknowledged.items() if found.get(k) != v}
        assert not lost, f"{len(lost)} acknowledged records lost, first {min(lost)}"
    counts = Counter(found.values())
    exact = {load.name_ for load in loads if load.idempotent}
    twice = [
        value
        for value, count in counts.items()
        if count > 1 and value.split(b":")[0].decode() in exact
    ]
    assert not twice, f"{len(twice)} records of an idempotent producer stand twice"
    _in_order([load for load in loads if load.idempotent], found)


def _in_order(loads: list[Load], found: dict) -> None:
    numbers: dict[tuple[str, int], list[int]] = defaultdict(list)
    for (partition, _offset), value in sorted(found.items()):
        name, number, _ = value.decode().split(":", 2)
        numbers[name, partition].append(int(number))
    for load in loads:
        for partition in range(load.partitions):
            seen = numbers[load.name_, partition]
            assert seen == sorted(seen), f"{load.name_} is out of order in {partition}"
