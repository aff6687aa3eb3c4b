"""kafka-python: the pure-Python client."""

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

from tests.clients.test_confluent import create


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_as_they_were_produced(broker, topic, codec):
    create(broker.bootstrap, topic)
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap, compression_type=codec, acks="all"
    )
    records = [(b"k", b"v" * 50, [("h", b"1")]), (None, b"n", []), (b"t", None, [])]
    sent = [
        producer.send(topic, value, key, headers=headers, partition=0).get(10)
        for key, value, headers in records
    ]
    producer.close()
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap, consumer_timeout_ms=5000
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

    def member():
        return KafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            consumer_timeout_ms=4000,
        )

    first = member()
    got = [int(next(first).value) for _ in range(100)]
    first.commit()
    first.close()
    assert sorted(got) == list(range(100))
    second = member()
    assert list(second) == []
    second.close()


def test_the_admin_client_sees_topics_groups_and_configs(broker, topic):
    create(broker.bootstrap, topic, 3)
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    assert topic in admin.list_topics()
    [found] = admin.describe_topics([topic])
    assert len(found["partitions"]) == 3
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()
    admin.close()
