"""librdkafka, through confluent-kafka: the client of most languages."""

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.support.confluent import CODECS, Member, create, produce_all, read, until
from tests.support.patience import IDLE_S


def seen(message) -> tuple:
    return (message.key(), message.value(), message.headers())


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_produced(broker, topic, codec):
    create(broker.bootstrap, topic)
    records = [
        (b"k", b"v" * 100, [("a", b"1"), ("a", b"2"), ("empty", b"")], 0),
        (None, b"no key", None, 0),
        (b"", b"", [("null", None)], 0),
        (b"tombstone", None, None, 0),
        *[(b"%d" % i, b"value-%d" % i, None, 0) for i in range(500)],
    ]
    sent = produce_all(broker.bootstrap, topic, records, **{"compression.type": codec})
    back = read(broker.bootstrap, topic, len(records))
    assert [seen(m) for m in back] == [(k, v, h) for k, v, h, _ in records]
    assert [m.offset() for m in back] == list(range(len(records)))
    by_offset = sorted(sent, key=lambda m: m.offset())
    assert [m.timestamp() for m in back] == [m.timestamp() for m in by_offset]


def test_a_record_of_many_megabytes_passes_where_the_topic_allows_it(broker, topic):
    create(broker.bootstrap, topic, **{"max.message.bytes": "20000000"})
    value = bytes(range(256)) * 40_000
    big = {"message.max.bytes": 20_000_000}
    produce_all(broker.bootstrap, topic, [(None, value, None, 0)], **big)
    [message] = read(broker.bootstrap, topic, 1)
    assert message.value() == value


def test_a_record_above_the_limit_is_refused_and_the_next_one_passes(broker, topic):
    create(broker.bootstrap, topic, **{"max.message.bytes": "1000"})
    told = []
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for size in (5000, 10):
        producer.produce(topic, b"x" * size, on_delivery=lambda e, m: told.append(e))
        producer.flush(IDLE_S)
    assert [e.name() if e else None for e in told] == ["MSG_SIZE_TOO_LARGE", None]


def test_an_idempotent_producer_writes_each_record_once(broker, topic):
    create(broker.bootstrap, topic, 3)
    records = [(b"%d" % i, b"%d" % i, None, i % 3) for i in range(3000)]
    produce_all(broker.bootstrap, topic, records, **{"enable.idempotence": True})
    back = read(broker.bootstrap, topic, 3000, 3)
    for partition in range(3):
        values = [int(m.value()) for m in back if m.partition() == partition]
        assert values == list(range(partition, 3000, 3))


def test_a_hundred_partitions_are_written_and_read(broker, topic):
    create(broker.bootstrap, topic, 100)
    records = [(None, b"%d" % i, None, i % 100) for i in range(1000)]
    produce_all(broker.bootstrap, topic, records)
    back = read(broker.bootstrap, topic, 1000, 100)
    assert sorted(int(m.value()) for m in back) == list(range(1000))


def test_a_topic_is_made_by_producing_to_it(broker, topic):
    produce_all(broker.bootstrap, topic, [(None, b"first", None, -1)])
    [message] = read(broker.bootstrap, topic, 1)
    assert (message.value(), message.offset()) == (b"first", 0)


def test_offsets_are_found_by_time(broker, topic):
    create(broker.bootstrap, topic)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    for stamp in (1_000_000, 2_000_000, 3_000_000):
        producer.produce(topic, b"x", partition=0, timestamp=stamp)
        producer.flush(IDLE_S)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "t"})
    asked = [TopicPartition(topic, 0, t) for t in (1, 1_500_000, 3_000_000)]
    offsets = [consumer.offsets_for_times([part])[0].offset for part in asked]
    assert offsets == [0, 1, 2]
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0)) == (0, 3)
    consumer.close()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_shares_partitions_as_members_come_and_go(broker, topic, strategy):
    create(broker.bootstrap, topic, 4)
    produce_all(
        broker.bootstrap, topic, [(None, b"%d" % i, None, i % 4) for i in range(400)]
    )
    config = {"partition.assignment.strategy": strategy}
    first = Member(broker.bootstrap, topic, topic, **config)
    until(lambda: len(first.assigned) == 4 and len(first.values) == 400, [first])
    second = Member(broker.bootstrap, topic, topic, **config)
    both = [first, second]
    until(lambda: {len(m.assigned) for m in both} == {2}, both)
    assert first.assigned | second.assigned == {0, 1, 2, 3}
    second.consumer.close()
    until(lambda: len(first.assigned) == 4, [first])
    first.consumer.close()


def test_a_group_goes_on_where_it_committed(broker, topic):
    create(broker.bootstrap, topic)
    produce_all(
        broker.bootstrap, topic, [(None, b"%d" % i, None, 0) for i in range(10)]
    )
    first = Member(broker.bootstrap, topic, topic)
    until(lambda: len(first.values) == 10, [first])
    part = TopicPartition(topic, 0, 7, metadata="seven")
    first.consumer.commit(offsets=[part], asynchronous=False)
    first.consumer.close()
    second = Member(broker.bootstrap, topic, topic)
    [found] = second.consumer.committed([TopicPartition(topic, 0)], timeout=IDLE_S)
    assert (found.offset, found.metadata) == (7, "seven")
    until(lambda: second.values == [b"7", b"8", b"9"], [second])
    second.consumer.close()


def test_a_static_member_keeps_its_partitions_over_a_restart(broker, topic):
    create(broker.bootstrap, topic, 2)
    members = [
        Member(broker.bootstrap, topic, topic, **{"group.instance.id": name})
        for name in ("a", "b")
    ]
    until(lambda: {len(m.assigned) for m in members} == {1}, members)
    before = members[0].assigned
    other = members[1].assigned
    members[0].consumer.close()
    again = Member(broker.bootstrap, topic, topic, **{"group.instance.id": "a"})
    until(lambda: again.assigned == before, [again, members[1]])
    assert members[1].assigned == other
    for member in (again, members[1]):
        member.consumer.close()


def test_a_member_of_the_new_protocol_is_told_that_it_is_not_served(broker, topic):
    """Not listed, librdkafka would look for another coordinator for ever, silently."""
    create(broker.bootstrap, topic)
    config = {"bootstrap.servers": broker.bootstrap, "group.id": topic}
    consumer = Consumer(config | {"group.protocol": "consumer"})
    consumer.subscribe([topic])
    message = consumer.poll(IDLE_S)
    consumer.close()
    assert message is not None
    assert message.error().code() == KafkaError._FATAL
    assert "ConsumerGroupHeartbeat" in message.error().str()
