"""Clients held to Kafka 0.8 to 0.11: message sets in, message sets out.

kafka-python and librdkafka still speak what brokers of that age did, when they are told
that the broker is one.
"""

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from tests.support.confluent import Member, create, held_to, produce_all, until
from tests.support.patience import IDLE_S, Patience

VERSIONS = [(0, 8, 2), (0, 9), (0, 10, 0), (0, 10, 2), (0, 11)]
CODECS = [None, "gzip", "snappy", "lz4"]
ROWS = [(b"k", b"v" * 50), (None, b"n"), (b"t", None), (b"", b"")]


def named(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", VERSIONS, ids=named)
def test_kafka_python_reads_what_it_wrote(broker, topic, version, codec):
    create(broker.bootstrap, topic)
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap,
        api_version=version,
        compression_type=codec,
        linger_ms=50,
        acks=1,
    )
    sent = [producer.send(topic, value, key, partition=0) for key, value in ROWS]
    assert [one.get(IDLE_S).offset for one in sent] == [0, 1, 2, 3]
    producer.close()
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        api_version=version,
        consumer_timeout_ms=int(IDLE_S * 1000),
        enable_auto_commit=False,
    )
    part = TopicPartition(topic, 0)
    consumer.assign([part])
    consumer.seek_to_beginning(part)
    back = [next(consumer) for _ in ROWS]
    consumer.seek(part, 2)
    again = next(consumer)
    consumer.close()
    assert [(one.key, one.value) for one in back] == ROWS
    assert [one.offset for one in back] == [0, 1, 2, 3]
    assert (again.offset, again.key) == (2, b"t")
    if version >= (0, 10):
        assert min(one.timestamp for one in back) > 1_700_000_000_000


@pytest.mark.parametrize("version", VERSIONS[1:], ids=named)
def test_a_group_of_kafka_python_goes_on_where_it_stood(broker, topic, version):
    create(broker.bootstrap, topic)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, api_version=version)
    for i in range(20):
        producer.send(topic, b"%d" % i, partition=0)
    producer.flush()
    producer.close()
    seen = []
    for _ in range(2):
        member = KafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            api_version=version,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=10,
            consumer_timeout_ms=int(IDLE_S * 1000),
        )
        seen += [int(next(member).value) for _ in range(10)]
        member.commit()
        member.close()
    assert seen == list(range(20))


@pytest.mark.parametrize("version", [(0, 8, 1), (0, 8, 2)], ids=named)
def test_offsets_that_were_zookeepers_are_the_groups(broker, topic, version):
    create(broker.bootstrap, topic)
    part = TopicPartition(topic, 0)

    def member(api_version):
        return KafkaConsumer(
            bootstrap_servers=broker.bootstrap,
            api_version=api_version,
            group_id=topic,
            enable_auto_commit=False,
        )

    for offset in (3, 7):
        old = member(version)
        old.assign([part])
        old.commit({part: OffsetAndMetadata(offset, "m", -1)})
        old.close()
        for reader in (member(version), member(None)):
            assert reader.committed(part, metadata=True)[:2] == (offset, "m")
            assert reader.committed(TopicPartition(topic, 1)) is None
            reader.close()


@pytest.mark.parametrize("other", [held_to("0.9.0"), {}], ids=["old", "new"])
def test_members_of_old_share_a_group_and_take_over(broker, topic, other):
    create(broker.bootstrap, topic, 4)
    everything = set(range(4))
    old = Member(broker.bootstrap, topic, topic, **held_to("0.9.0"))
    second = Member(broker.bootstrap, topic, topic, **other)
    until(
        lambda: old.assigned ^ second.assigned == everything != old.assigned,
        [old, second],
    )
    second.consumer.close()
    until(lambda: old.assigned == everything, [old])
    values = [b"%d" % i for i in range(40)]
    rows = [(None, value, None, i % 4) for i, value in enumerate(values)]
    produce_all(broker.bootstrap, topic, rows)
    until(lambda: len(old.values) == 40, [old])
    assert sorted(old.values) == sorted(values)
    old.consumer.close()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("version", ["0.8.2", "0.9.0", "0.10.0"])
def test_librdkafka_reads_what_it_wrote(broker, topic, version, codec):
    create(broker.bootstrap, topic)
    held = {"bootstrap.servers": broker.bootstrap} | held_to(version)
    producer = Producer({**held, "compression.type": codec, "linger.ms": 50})
    told: list[int] = []

    def delivered(error, message):
        assert error is None, error
        told.append(message.offset())

    for key, value in ROWS:
        producer.produce(topic, value, key, partition=0, on_delivery=delivered)
    producer.flush(IDLE_S)
    assert sorted(told) == [0, 1, 2, 3]
    consumer = Consumer({**held, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([Place(topic, 0, 0)])
    back: list[tuple[bytes | None, bytes | None]] = []
    patience = Patience()
    while len(back) < len(ROWS) and patience.lasts(len(back)):
        message = consumer.poll(1)
        if message is not None:
            assert message.error() is None, message.error()
            back.append((message.key(), message.value()))
    consumer.close()
    assert back == ROWS
