"""librdkafka through confluent-kafka: VERSION VERB BOOTSTRAP TOPIC WORDS..."""

import sys

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.clients.python.words import Asked, Assigned, done, emit, record, start_of
from tests.support.confluent import held_to
from tests.support.patience import IDLE_S

version, verb, bootstrap, topic, *words = sys.argv[1:]
HELD = {} if version == "newest" else held_to(version)
SERVER = {"bootstrap.servers": bootstrap} | HELD
READING = {"enable.auto.commit": False, "auto.offset.reset": "earliest"}


def delivered(error, _message) -> None:
    assert error is None, error


def produce(codec: str, transaction: str) -> None:
    config = SERVER | {"compression.type": codec}
    producer = Producer(
        config if transaction == "-" else config | {"transactional.id": transaction}
    )
    if transaction != "-":
        producer.init_transactions(IDLE_S)
    asked = {
        "begin": producer.begin_transaction,
        "commit": producer.commit_transaction,
        "abort": producer.abort_transaction,
        "flush": lambda: None,
    }
    for line in sys.stdin:
        row = record(line)
        if row is not None:
            key, value, headers = row
            producer.produce(topic, value, key, 0, delivered, headers=headers or None)
            continue
        assert producer.flush(IDLE_S) == 0
        asked[line.strip()]()
        done()


def fetch(start: str, count: str, level: str) -> None:
    isolation = {"isolation.level": f"read_{level}"} if version == "newest" else {}
    consumer = Consumer(SERVER | READING | isolation | {"group.id": "unused"})
    offset, time_ms = start_of(start)
    if offset is None:
        asked = [TopicPartition(topic, 0, time_ms)]
        offset = consumer.offsets_for_times(asked, IDLE_S)[0].offset
    consumer.assign([TopicPartition(topic, 0, offset)])
    left = int(count)
    while left > 0:
        left -= read(consumer, IDLE_S)
    consumer.close()


def read(consumer, timeout_s: float) -> int:
    """How many records came: one at most."""
    message = consumer.poll(timeout_s)
    if message is None:
        return 0
    if message.error() is not None:
        print(message.error(), file=sys.stderr)
        return 0
    place = message.partition(), message.offset()
    emit(*place, message.key(), message.value(), message.headers() or [])
    return 1


def member(group: str) -> None:
    consumer = Consumer(SERVER | READING | {"group.id": group})
    consumer.subscribe([topic])
    asked, assigned = Asked(), Assigned()
    while not asked.ended:
        read(consumer, 0.05)
        assigned.tell({part.partition for part in consumer.assignment()})
        for _ in asked.take():
            commit(consumer)
            done()
    consumer.close()


def commit(consumer) -> None:
    """The positions of what was read; nothing was where nothing is to be committed."""
    parts = consumer.position(consumer.assignment())
    read_parts = [part for part in parts if part.offset >= 0]
    if read_parts:
        consumer.commit(offsets=read_parts, asynchronous=False)


{"produce": produce, "fetch": fetch, "member": member}[verb](*words)
