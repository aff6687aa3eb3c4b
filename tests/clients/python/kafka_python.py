"""kafka-python: VERSION VERB BOOTSTRAP TOPIC WORDS..."""

import sys

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.clients.python.words import Asked, Assigned, done, emit, record, start_of
from tests.support.patience import IDLE_S

version, verb, bootstrap, topic, *words = sys.argv[1:]
numbers = None if version == "newest" else tuple(map(int, version.split(".")))
SERVER = {"bootstrap_servers": bootstrap, "api_version": numbers}


def produce(codec: str, transaction: str) -> None:
    config = SERVER | {"compression_type": None if codec == "none" else codec}
    if transaction != "-":
        config |= {"transactional_id": transaction}
    producer = KafkaProducer(**config, linger_ms=5, acks="all")
    if transaction != "-":
        producer.init_transactions()
    asked = {
        "begin": lambda: producer.begin_transaction(),
        "commit": lambda: producer.commit_transaction(),
        "abort": lambda: producer.abort_transaction(),
        "flush": lambda: None,
    }
    sent = []
    for line in sys.stdin:
        row = record(line)
        if row is not None:
            key, value, headers = row
            sent.append(producer.send(topic, value, key, headers, partition=0))
            continue
        for one in sent:
            one.get(IDLE_S)
        sent = []
        asked[line.strip()]()
        done()
    producer.close()


def fetch(start: str, count: str, level: str) -> None:
    consumer = KafkaConsumer(
        **SERVER, isolation_level=f"read_{level}", enable_auto_commit=False
    )
    part = TopicPartition(topic, 0)
    consumer.assign([part])
    offset, time_ms = start_of(start)
    if offset is None:
        offset = consumer.offsets_for_times({part: time_ms})[part].offset
    consumer.seek(part, offset)
    left = int(count)
    while left > 0:
        left -= read(consumer, left)
    consumer.close()


def read(consumer: KafkaConsumer, records_max: int = 500) -> int:
    """How many records came within 100 ms."""
    found = consumer.poll(timeout_ms=100, max_records=records_max)
    rows = [row for rows in found.values() for row in rows]
    for row in rows:
        emit(row.partition, row.offset, row.key, row.value, list(row.headers))
    return len(rows)


def member(group: str) -> None:
    consumer = KafkaConsumer(
        topic,
        **SERVER,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    asked, assigned = Asked(), Assigned()
    while not asked.ended:
        read(consumer)
        assigned.tell({part.partition for part in consumer.assignment()})
        for _ in asked.take():
            consumer.commit()
            done()
    consumer.close()


{"produce": produce, "fetch": fetch, "member": member}[verb](*words)
