"""Clients of three libraries that come, work and go, as long as they are let.

The problem: what grows in a broker grows by what clients do beside plain load: groups
whose members change, transactions that are aborted, topics that are made and deleted,
connections that stay for a second, reads of old offsets, producers of old libraries.

The idea: an actor is a function that works until it is told to stop, on a thread of its
own, and adds what was acknowledged and read to one tally. Each topic of ``TOPICS`` is
written by one actor without transactions, so the tally and the broker's end offsets
must agree to the record.

The price: rates are low (some 2 MB/s), so that all of it fits beside other work.
"""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from threading import Event, Lock
from typing import Any
from uuid import uuid4

FLOW, PYTHON, ASYNC, MONEY = "flow", "python", "async", "money"
TRICKLES = 400
PARTITIONS = 4
VALUE = os.urandom(300) * 3
COLD_MB = 50


class Tally:
    """What was acknowledged and read, by topic. Any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.acknowledged: Counter[str] = Counter()
        self.read: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()

    def add(self, kind: str, topic: str, count: int = 1) -> None:
        with self._lock:
            getattr(self, kind)[topic] += count


def topics() -> dict[str, int]:
    """Each topic, and how many partitions it has."""
    trickles = {f"trickle-{number}": 1 for number in range(TRICKLES)}
    return dict.fromkeys((FLOW, PYTHON, ASYNC, MONEY), PARTITIONS) | trickles


Actor = Callable[[Event], None]
"""Works until the event is set, and raises what goes wrong."""


def actors(address: str, tally: Tally) -> dict[str, Actor]:
    """All of them, by name."""
    made = (
        _trickle, _flow, _flow_readers, _transactions, _committed_reader, _cold_reader,
        _python_writer, _python_reader, _async_pair, _short_topics, _short_visits,
    )  # fmt: skip
    return {one.__name__.strip("_"): partial(one, address, tally) for one in made}


def _producer(address: str, **config: Any) -> Any:
    from confluent_kafka import Producer

    return Producer({"bootstrap.servers": address, "linger.ms": 20} | config)


def _consumer(address: str, group: str, **config: Any) -> Any:
    from confluent_kafka import Consumer

    base = {"bootstrap.servers": address, "group.id": group}
    return Consumer(base | {"auto.offset.reset": "earliest"} | config)


def _noted(tally: Tally, topic: str) -> Callable[[Any, Any], None]:
    def noted(error: Any, _: Any) -> None:
        tally.add("failed" if error else "acknowledged", topic)

    return noted


def _trickle(address: str, tally: Tally, stop: Event) -> None:
    """A hundred records a second, over all of the many topics."""
    producer, number = _producer(address), 0
    while not stop.wait(0.05):
        for _ in range(5):
            topic = f"trickle-{number % TRICKLES}"
            producer.produce(topic, VALUE[:200], on_delivery=_noted(tally, topic))
            number += 1
        producer.poll(0)
    producer.flush(60)


def _flow(address: str, tally: Tally, stop: Event) -> None:
    """A megabyte a second, idempotent, in lz4."""
    config = {"enable.idempotence": True, "compression.type": "lz4"}
    producer, noted = _producer(address, **config), _noted(tally, FLOW)
    while not stop.wait(0.1):
        for number in range(110):
            producer.produce(FLOW, VALUE, key=str(number), on_delivery=noted)
        producer.poll(0)
    producer.flush(60)


def _flow_readers(address: str, tally: Tally, stop: Event) -> None:
    """A group of one that stays, and one that comes for ten seconds in each thirty."""
    staying, coming, since = _consumer(address, "readers"), None, time.monotonic()
    staying.subscribe([FLOW])
    while not stop.is_set():
        for member in (staying, coming):
            if member is not None:
                found = member.consume(500, 0.1)
                tally.add("read", FLOW, sum(not one.error() for one in found))
        age_s = (time.monotonic() - since) % 30
        if coming is None and age_s > 20:
            coming = _consumer(address, "readers")
            coming.subscribe([FLOW])
        elif coming is not None and age_s < 20:
            coming.close()
            coming = None
    for member in (staying, coming):
        if member is not None:
            member.close()


def _transactions(address: str, tally: Tally, stop: Event) -> None:
    """Two a second; each third is aborted."""
    producer, number = _producer(address, **{"transactional.id": "money"}), 0
    producer.init_transactions(60)
    while not stop.wait(0.5):
        producer.begin_transaction()
        for _ in range(20):
            producer.produce(MONEY, VALUE[:100])
        number += 1
        if number % 3:
            producer.commit_transaction(60)
            tally.add("acknowledged", MONEY, 20)
        else:
            producer.flush(60)
            producer.abort_transaction(60)


def _committed_reader(address: str, tally: Tally, stop: Event) -> None:
    reader = _consumer(address, "committed", **{"isolation.level": "read_committed"})
    reader.subscribe([MONEY])
    while not stop.is_set():
        found = reader.consume(100, 0.5)
        tally.add("read", MONEY, sum(not one.error() for one in found))
    reader.close()


def _python_writer(address: str, tally: Tally, stop: Event) -> None:
    """kafka-python: gzip, a hundred records a second."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=address, compression_type="gzip")
    while not stop.wait(0.2):
        sent = [producer.send(PYTHON, VALUE) for _ in range(20)]
        for future in sent:
            future.get(60)
            tally.add("acknowledged", PYTHON)
    producer.close()


def _python_reader(address: str, tally: Tally, stop: Event) -> None:
    """kafka-python: a group that is left and joined again each half minute."""
    from kafka import KafkaConsumer

    while not stop.is_set():
        reader = KafkaConsumer(
            PYTHON,
            bootstrap_servers=address,
            group_id="python",
            auto_offset_reset="earliest",
        )
        until = time.monotonic() + 30
        while time.monotonic() < until and not stop.is_set():
            found = reader.poll(500)
            tally.add("read", PYTHON, sum(map(len, found.values())))
        reader.close()


def _async_pair(address: str, tally: Tally, stop: Event) -> None:
    asyncio.run(_async_work(address, tally, stop))


async def _async_work(address: str, tally: Tally, stop: Event) -> None:
    """aiokafka: a writer and a group of one in turns."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    producer = AIOKafkaProducer(bootstrap_servers=address)
    reader = AIOKafkaConsumer(
        ASYNC, bootstrap_servers=address, group_id="async", auto_offset_reset="earliest"
    )
    await producer.start()
    await reader.start()
    while not stop.is_set():
        sent = [await producer.send(ASYNC, VALUE) for _ in range(20)]
        await asyncio.gather(*sent)
        tally.add("acknowledged", ASYNC, len(sent))
        found = await reader.getmany(timeout_ms=200)
        await asyncio.sleep(0.1)
        tally.add("read", ASYNC, sum(map(len, found.values())))
    await reader.stop()
    await producer.stop()


def _cold_reader(address: str, tally: Tally, stop: Event) -> None:
    """Each minute somebody reads from the beginning."""
    from confluent_kafka import OFFSET_BEGINNING, TopicPartition

    while not stop.wait(60):
        reader, seen = _consumer(address, "cold"), 0
        reader.assign([TopicPartition(FLOW, 0, OFFSET_BEGINNING)])
        while seen < COLD_MB * 1e6 and (found := reader.consume(1000, 2.0)):
            seen += sum(len(one.value() or b"") for one in found)
        tally.add("read", "cold, bytes", seen)
        reader.close()


def _short_topics(address: str, tally: Tally, stop: Event) -> None:
    """Each ten seconds a topic is made, written and deleted."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": address})
    while not stop.wait(10):
        name = f"short-{uuid4().hex[:8]}"
        admin.create_topics([NewTopic(name, 2, 1)])[name].result(60)
        producer = _producer(address)
        for _ in range(100):
            producer.produce(name, VALUE)
        producer.flush(60)
        admin.delete_topics([name])[name].result(60)
        tally.add("read", "topics made and deleted")


def _short_visits(address: str, tally: Tally, stop: Event) -> None:
    """Five clients a second that ask for all topics, and go."""
    from confluent_kafka.admin import AdminClient

    while not stop.wait(0.2):
        visitor = AdminClient({"bootstrap.servers": address, "log_level": 3})
        visitor.list_topics(timeout=60)
        tally.add("read", "visits")
