"""Offsets that are committed with the records made of them, by clients of others."""

import asyncio
from contextlib import closing, suppress

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, TopicPartition

from tests.support.confluent import create, produce_all
from tests.support.patience import IDLE_S, STUCK_S, Patience, wait_until
from tests.support.transactions import LEVELS, commit, transactional, values_of, write

COMMITTED = LEVELS[0]


def reader(bootstrap: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )


def read(consumer: Consumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    patience = Patience()
    while len(found) < count and patience.lasts(len(found)):
        for message in consumer.consume(count - len(found), timeout=0.5):
            assert message.error() is None, message.error()
            found.append(message.value())
    return found


def committed(consumer: Consumer, topic: str) -> int:
    [found] = consumer.committed([TopicPartition(topic, 0)], timeout=IDLE_S)
    return found.offset


def test_offsets_count_with_the_records_made_of_them_or_not_at_all(broker, topic):
    create(broker.bootstrap, topic)
    create(broker.bootstrap, f"{topic}-out")
    produce_all(broker.bootstrap, topic, [(None, b"%d" % n, None, 0) for n in range(6)])
    producer = transactional(broker.bootstrap, topic)
    with closing(reader(broker.bootstrap, topic)) as consumer:
        consumer.subscribe([topic])
        for ends, offset in (("abort", OFFSET_INVALID), ("commit", 6)):
            values = read(consumer, 6)
            assert values == [b"%d" % n for n in range(6)]
            producer.begin_transaction()
            write(producer, f"{topic}-out", *(value + b"!" for value in values))
            positions = consumer.position(consumer.assignment())
            mine = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(positions, mine, IDLE_S)
            if ends == "abort":
                producer.abort_transaction(IDLE_S)
                consumer.seek(TopicPartition(topic, 0, 0))
            else:
                commit(producer)
            assert committed(consumer, topic) == offset
    found = values_of(broker.bootstrap, f"{topic}-out", COMMITTED)
    assert found == [b"%d!" % n for n in range(6)]


def test_a_member_of_a_generation_that_is_over_commits_nothing(broker, topic):
    create(broker.bootstrap, topic)
    produce_all(broker.bootstrap, topic, [(None, b"x", None, 0)])
    producer = transactional(broker.bootstrap, topic)
    with closing(reader(broker.bootstrap, topic)) as consumer:
        consumer.subscribe([topic])
        assert read(consumer, 1) == [b"x"]
        positions = consumer.position(consumer.assignment())
        mine = consumer.consumer_group_metadata()
    producer.begin_transaction()
    with pytest.raises(KafkaException) as refused:
        producer.send_offsets_to_transaction(positions, mine, IDLE_S)
    assert refused.value.args[0].name() in ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION")
    assert refused.value.args[0].txn_requires_abort()
    producer.abort_transaction(IDLE_S)
    with closing(reader(broker.bootstrap, topic)) as consumer:
        assert committed(consumer, topic) == OFFSET_INVALID


def test_who_asks_for_what_is_stable_waits_for_the_end(broker, topic):
    """librdkafka asks again while an offset is unstable (KIP-447)."""
    create(broker.bootstrap, topic)
    produce_all(broker.bootstrap, topic, [(None, b"%d" % n, None, 0) for n in range(3)])
    producer = transactional(broker.bootstrap, topic)
    producer.begin_transaction()
    with closing(reader(broker.bootstrap, topic)) as consumer:
        mine = consumer.consumer_group_metadata()
        at = [TopicPartition(topic, 0, 2)]
        producer.send_offsets_to_transaction(at, mine, IDLE_S)
        with pytest.raises(KafkaException):
            consumer.committed([TopicPartition(topic, 0)], timeout=1.0)
        commit(producer)
        assert committed(consumer, topic) == 2
        consumer.subscribe([topic])
        assert read(consumer, 1) == [b"2"]


def test_aiokafka_commits_offsets_in_its_transactions(broker, topic):
    create(broker.bootstrap, topic)
    group, at = f"{topic}-group", AioPartition(topic, 0)

    async def story() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap, transactional_id=topic
        )
        await producer.start()
        for offset, commits in ((3, False), (4, True)):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"x", partition=0)
            await producer.send_offsets_to_transaction({at: offset}, group)
            if commits:
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()
            consumer = AIOKafkaConsumer(
                bootstrap_servers=broker.bootstrap,
                group_id=group,
                isolation_level="read_committed",
            )
            await consumer.start()
            assert await consumer.committed(at) == (offset if commits else None)
            await consumer.stop()
        await producer.stop()

    asyncio.run(asyncio.wait_for(story(), STUCK_S))


def test_a_pending_offset_goes_with_its_transactions_time(broker, topic):
    create(broker.bootstrap, topic)
    producer = transactional(
        broker.bootstrap, topic, **{"transaction.timeout.ms": 1_000}
    )
    producer.begin_transaction()
    with closing(reader(broker.bootstrap, topic)) as consumer:
        mine = consumer.consumer_group_metadata()
        at = [TopicPartition(topic, 0, 2)]
        with suppress(KafkaException):  # a slow machine: its time is over already
            producer.send_offsets_to_transaction(at, mine, IDLE_S)

        def is_stable() -> bool:
            try:
                [found] = consumer.committed([TopicPartition(topic, 0)], timeout=1.0)
            except KafkaException:
                return False
            return bool(found.offset == OFFSET_INVALID)

        wait_until(is_stable)
