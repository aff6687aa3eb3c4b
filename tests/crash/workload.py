"""Clients under load while processes die, and the comparison afterwards.

A value names its producer and its number. What a client was told is kept: what was
acknowledged, what was read, what was committed. After the last restart the whole topic
is read and held against it.
"""

import json
import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.patience import IDLE_S, STUCK_S, Patience

Found = dict[tuple[int, int], bytes | None]
QUICK: dict[str, Any] = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "log_level": 0,
    "error_cb": lambda _error: None,
}
ANSWER_S = STUCK_S
ENDLESS_S = 1_800.0
"""No client gives up as long as a test may take, however slow the machine is."""


class Lost(AssertionError):
    """What was acknowledged is not there, or not what it was."""


class Doubled(AssertionError):
    """What an idempotent producer sent once stands twice."""


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
        timeout_s: float = ENDLESS_S,
        retries: int = 1 << 30,
        batch_records: int = 10_000,
    ) -> None:
        super().__init__(daemon=True)
        self.topic, self.partitions, self.name_ = topic, partitions, name
        self.idempotent, self.value_bytes = idempotent, value_bytes
        self.pause_s = pause_s
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.refused: list[str] = []
        self.twice: list[tuple[int, int]] = []
        self.sent = 0
        self.stopping = threading.Event()
        self._producer = Producer(
            QUICK
            | {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": idempotent,
                "acks": "all",
                "linger.ms": 2,
                "batch.num.messages": batch_records,
                "message.timeout.ms": int(timeout_s * 1000),
                "retry.backoff.ms": 20,
                "message.send.max.retries": retries,
            }
        )

    def _told(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self.refused.append(error.name())
            return
        key = (message.partition(), message.offset())
        if key in self.acknowledged:
            self.twice.append(key)
        self.acknowledged[key] = message.value()

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                self._send(20)
                self._producer.poll(0)
                time.sleep(self.pause_s)
            patience = Patience(ANSWER_S)
            while self._producer.flush(1) and patience.lasts(len(self.acknowledged)):
                pass
        except (KafkaException, SystemError) as error:
            # An idempotent producer was told to give up; SystemError is how the
            # binding says so when it tells of a delivery at the same time.
            self.refused.append(repr(error))

    def _send(self, count: int) -> None:
        try:
            for _ in range(count):
                value = f"{self.name_}:{self.sent}:".encode()
                self._producer.produce(
                    self.topic,
                    value.ljust(self.value_bytes, b"."),
                    partition=self.sent % self.partitions,
                    on_delivery=self._told,
                )
                self.sent += 1
        except BufferError:  # nobody answers for the time being
            self._producer.poll(0.1)

    def finish(self) -> None:
        """Stop producing and wait until everything was answered."""
        self.stopping.set()
        patience = Patience(ANSWER_S + 30)
        while self.is_alive() and patience.lasts(len(self.acknowledged)):
            self.join(1)
        assert not self.is_alive()


class Watcher(threading.Thread):
    """A consumer that reads along: what it was shown must be there for ever."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(daemon=True)
        self.seen: Found = {}
        self.changed: list[tuple[int, int]] = []
        self.stopping = threading.Event()
        self._consumer = a_consumer(bootstrap, topic, partitions)

    def run(self) -> None:
        while not self.stopping.is_set():
            for message in self._consumer.consume(1000, timeout=0.2):
                if message.error() is None:
                    key = (message.partition(), message.offset())
                    if self.seen.setdefault(key, message.value()) != message.value():
                        self.changed.append(key)
        self._consumer.close()

    def finish(self) -> None:
        self.stopping.set()
        self.join(STUCK_S)
        assert not self.is_alive()


def create_topic(
    bootstrap: str, name: str, partitions: int, configs: dict[str, str] | None = None
) -> None:
    """Made when this returns; raises KafkaException if it cannot be."""
    admin = AdminClient(QUICK | {"bootstrap.servers": bootstrap})
    topic = NewTopic(name, partitions, config=configs or {})
    admin.create_topics([topic])[name].result(IDLE_S)


def a_consumer(
    bootstrap: str, topic: str, partitions: int, *, check_crcs: bool = True
) -> Consumer:
    """Of all partitions from the beginning on, verifying checksums or not."""
    consumer = Consumer(
        QUICK
        | {
            "bootstrap.servers": bootstrap,
            "group.id": "judge",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "check.crcs": check_crcs,
        }
    )
    consumer.assign(
        [TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(partitions)]
    )
    return consumer


def read_everything(
    bootstrap: str, topic: str, partitions: int, *, lost: Callable[[], object] = list
) -> Found:
    """(partition, offset) -> value, from offset 0 to the end, by a new client. Raises
    Lost if a partition has no end or an error, at once when ``lost`` says what is
    gone."""
    consumer = a_consumer(bootstrap, topic, partitions)
    waiting = set(range(partitions))
    found: Found = {}
    patience = Patience()
    while waiting:
        if not patience.lasts((len(found), len(waiting))):  # refused, not skipped
            raise Lost(f"no end of partitions {waiting}")
        messages = consumer.consume(1000, timeout=0.1)
        if not messages and lost():
            raise Lost(lost())
        for message in messages:
            error = message.error()
            if error is None:
                key = (message.partition(), message.offset())
                assert key not in found, f"offset {key} read twice"
                found[key] = message.value()
            elif error.code() == KafkaError._PARTITION_EOF:
                waiting.discard(message.partition())
            else:  # as of a record that is not what was acknowledged
                raise Lost(error)
    consumer.close()
    return found


def judge(loads: Iterable[Load], found: Found, watcher: Watcher | None = None) -> None:
    """No record that was acknowledged or shown is lost or changed; none of an
    idempotent producer twice, or out of order. Raises Lost, Doubled."""
    loads = list(loads)
    told: Found = {}
    for load in loads:
        assert load.acknowledged, f"{load.name_}: nothing was acknowledged"
        told |= load.acknowledged
        if load.twice:
            raise Lost(f"{load.name_}: offset {load.twice[0]} was given twice")
    if watcher is not None:
        told |= watcher.seen
        if watcher.changed:
            raise Lost(f"offset {watcher.changed[0]} was read with two values")
    lost = sorted(key for key, value in told.items() if found.get(key) != value)
    if lost:
        raise Lost(f"{len(lost)} of {len(told)} records lost, first {lost[0]}")
    _once([load.name_ for load in loads if load.idempotent], found)
    _in_order([load for load in loads if load.idempotent], found)


def _once(names: Iterable[str], found: Found) -> None:
    exact = set(names)
    counts = Counter(found.values())
    twice = [
        value
        for value, count in counts.items()
        if count > 1 and value and value.split(b":")[0].decode() in exact
    ]
    if twice:
        raise Doubled(f"{len(twice)} records stand twice, one is {twice[0]!r}")


def _in_order(loads: Iterable[Load], found: Found) -> None:
    numbers: dict[tuple[str, int], list[int]] = defaultdict(list)
    for (partition, _offset), value in sorted(found.items()):
        name, number, _ = (value or b"").decode().split(":", 2)
        numbers[name, partition].append(int(number))
    for load in loads:
        for partition in range(load.partitions):
            seen = numbers[load.name_, partition]
            assert seen == sorted(seen), f"{load.name_} is out of order in {partition}"


@contextmanager
def running(*threads: Any) -> Iterator[None]:
    """The clients live as long as this; they are finished when it ends well."""
    for thread in threads:
        thread.start()
    try:
        yield
        for thread in threads:
            thread.finish()
    finally:
        for thread in threads:
            thread.stopping.set()


def wait_for(condition: Callable[[], object], timeout_s: float = STUCK_S) -> None:
    """Until it holds; AssertionError if it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


def tell(test: str, kills: int, loads: Iterable[Load]) -> None:
    """Add a line to the file that ``LAKELOG_CRASH_REPORT`` names, if it names one."""
    path = os.environ.get("LAKELOG_CRASH_REPORT")
    if path:
        records = sum(len(load.acknowledged) for load in loads)
        line = {"test": test, "kills": kills, "acknowledged": records}
        with Path(path).open("a") as report:
            report.write(json.dumps(line) + "\n")
