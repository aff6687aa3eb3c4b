"""kafka-python: the pure-Python client."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.support.confluent import create
from tests.support.patience import IDLE_S, wait_until


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_as_they_were_produced(broker, topic, codec):
    create(broker.bootstrap, topic)
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap, compression_type=codec, acks="all"
    )
    records = [(b"k", b"v" * 50, [("h", b"1")]), (None, b"n", []), (b"t", None, [])]
    sent = [
        producer.send(topic, value, key, headers=headers, partition=0).get(IDLE_S)
        for key, value, headers in records
    ]
    producer.close()
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap, consumer_timeout_ms=int(IDLE_S * 1000)
    )
    part = TopicPartition(topic, 0)
    consumer.assign([part])
    consumer.seek_to_beginning(part)
    back = [next(consumer) for _ in records]
    consumer.close()
    assert [(m.key, m.value, list(m.headers)) for m in back] == records
    assert [m.offset for m in back] == [s.offset for s in sent] == [0, 1, 2]


def test_a_group_reads_everything_once(broker, topic):
    create(broker.bootstrap, topic, 2)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for i in range(100):
        producer.send(topic, b"%d" % i, partition=i % 2)
    producer.flush()
    producer.close()

    def member(patience_s):
        return KafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            consumer_timeout_ms=int(patience_s * 1000),
        )

    first = member(IDLE_S)
    got = [int(next(first).value) for _ in range(100)]
    first.commit()
    first.close()
    assert sorted(got) == list(range(100))
    second = member(4)
    assert list(second) == []
    second.close()


def test_two_members_share_a_topic(broker, topic):
    create(broker.bootstrap, topic, 4)
    members = [
        KafkaConsumer(topic, bootstrap_servers=broker.bootstrap, group_id=topic)
        for _ in range(2)
    ]
    shares = [set(), set()]
    enough = threading.Event()

    def work(number):
        """As applications do. Where both share a thread, a poll that ends while a
        leader waits for the other gives its join up; the next one makes all join."""
        while not enough.is_set():
            members[number].poll(timeout_ms=500)
            shares[number] = members[number].assignment()

    with ThreadPoolExecutor(2) as pool:
        working = [pool.submit(work, number) for number in range(2)]
        try:
            wait_until(lambda: [len(share) for share in shares] == [2, 2])
        finally:
            enough.set()
    for one in working:
        one.result()
    assert shares[0] | shares[1] == {TopicPartition(topic, n) for n in range(4)}
    for member in members:
        member.close()


@pytest.mark.parametrize("version", [(0, 11), (1, 1), (2, 1), (2, 5), (3, 0)])
def test_an_older_client_produces_and_reads_in_a_group(broker, topic, version):
    """What kafka-python speaks when it is told that the broker is of that age."""
    create(broker.bootstrap, topic)
    old = {"bootstrap_servers": broker.bootstrap, "api_version": version}
    producer = KafkaProducer(**old, acks="all", enable_idempotence=False)
    sent = [producer.send(topic, b"%d" % n, key=b"k").get(IDLE_S) for n in range(3)]
    assert [one.offset for one in sent] == [0, 1, 2]
    producer.close()
    consumer = KafkaConsumer(
        topic, **old, group_id=topic, auto_offset_reset="earliest",
        consumer_timeout_ms=int(IDLE_S * 1000), enable_auto_commit=False,
    )  # fmt: skip
    assert [next(consumer).value for _ in range(3)] == [b"0", b"1", b"2"]
    consumer.commit()
    part = TopicPartition(topic, 0)
    assert consumer.committed(part) == 3
    assert consumer.end_offsets([part]) == {part: 3}
    consumer.close()
