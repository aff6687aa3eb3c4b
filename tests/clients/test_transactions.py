"""Transactions, by clients that nobody here wrote."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.support.confluent import create, produce_all
from tests.support.patience import IDLE_S, STUCK_S, Patience, wait_until
from tests.support.transactions import (
    LEVELS,
    commit,
    read_all,
    transactional,
    values_of,
    write,
    write_in_time_or_late,
)


def test_what_was_committed_is_read_and_what_was_aborted_is_not(broker, topic):
    create(broker.bootstrap, topic, 3)
    producer = transactional(broker.bootstrap, topic)
    kept, dropped = [], []
    for number in range(12):
        values = [b"%d-%d" % (number, i) for i in range(9)]
        producer.begin_transaction()
        write(producer, topic, *values, partitions=3)
        if number % 3 == 1:
            producer.abort_transaction(IDLE_S)
            dropped += values
        else:
            commit(producer)
            kept += values
    committed, everything = (
        values_of(broker.bootstrap, topic, level, 3) for level in LEVELS
    )
    assert committed == sorted(kept)
    assert everything == sorted(kept + dropped)


def test_an_open_transaction_is_read_by_nobody_who_reads_what_is_committed(
    broker, topic
):
    create(broker.bootstrap, topic)
    first, second = (transactional(broker.bootstrap, f"{topic}-{n}") for n in "ab")
    first.begin_transaction()
    write(first, topic, b"open")
    second.begin_transaction()
    write(second, topic, b"behind")
    commit(second)
    assert values_of(broker.bootstrap, topic, "read_committed") == []
    assert len(values_of(broker.bootstrap, topic, "read_uncommitted")) == 2
    commit(first)
    assert values_of(broker.bootstrap, topic, "read_committed") == [b"behind", b"open"]


def test_a_zombie_is_fenced_and_its_transaction_aborted(broker, topic):
    create(broker.bootstrap, topic)
    zombie = transactional(broker.bootstrap, topic)
    zombie.begin_transaction()
    write(zombie, topic, b"zombie")
    producer = transactional(broker.bootstrap, topic)
    producer.begin_transaction()
    write(producer, topic, b"alive")
    with pytest.raises(KafkaException) as fenced:
        zombie.commit_transaction(IDLE_S)
    assert fenced.value.args[0].name() == "_FENCED"
    commit(producer)
    assert values_of(broker.bootstrap, topic, "read_committed") == [b"alive"]


def test_a_transaction_whose_time_is_over_is_aborted_and_fenced(broker, topic):
    create(broker.bootstrap, topic)
    short = {"transaction.timeout.ms": 1_000}
    producer = transactional(broker.bootstrap, topic, **short)
    producer.begin_transaction()
    write_in_time_or_late(producer, topic, b"too late")
    other = transactional(broker.bootstrap, f"{topic}-other")
    other.begin_transaction()
    write(other, topic, b"in time")
    commit(other)
    wait_until(lambda: read_all(broker.bootstrap, topic, "read_committed"))
    with pytest.raises(KafkaException):
        producer.commit_transaction(IDLE_S)
    assert values_of(broker.bootstrap, topic, "read_committed") == [b"in time"]


def test_what_is_read_and_what_is_written_are_committed_together(broker, topic):
    """Consume, transform, produce; each input comes out once though every third
    transaction is aborted and read again."""
    inputs, outputs = f"{topic}-in", f"{topic}-out"
    create(broker.bootstrap, inputs)
    create(broker.bootstrap, outputs)
    values = [b"%d" % number for number in range(30)]
    produce_all(broker.bootstrap, inputs, [(None, value, None, 0) for value in values])
    config = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": topic,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }
    producer = transactional(broker.bootstrap, topic)
    consumer, part = Consumer(config), TopicPartition(inputs, 0)
    consumer.subscribe([inputs])
    done, rounds, patience = 0, 0, Patience()
    while done < len(values):
        assert patience.lasts((done, rounds)), "nothing comes any more"
        messages = consumer.consume(4, timeout=1)
        if not messages:
            continue
        rounds += 1
        producer.begin_transaction()
        write(producer, outputs, *(message.value() for message in messages))
        after = TopicPartition(inputs, 0, messages[-1].offset() + 1)
        group = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction([after], group, IDLE_S)
        if rounds % 3:
            commit(producer)
            done = after.offset
        else:
            producer.abort_transaction(IDLE_S)
            [committed] = consumer.committed([part], IDLE_S)
            consumer.seek(TopicPartition(inputs, 0, max(committed.offset, 0)))
    [committed] = consumer.committed([part], IDLE_S)
    assert committed.offset == len(values)
    consumer.close()
    found = values_of(broker.bootstrap, outputs, "read_committed")
    assert found == sorted(values)


def test_aiokafka_writes_and_reads_transactions(broker, topic):
    create(broker.bootstrap, topic)

    async def story() -> list[bytes]:
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap,
            transactional_id=topic,
            transaction_timeout_ms=900_000,
        )
        await producer.start()
        for number in range(6):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"%d" % number)
            if number % 2:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
        another = AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap, transactional_id=topic
        )
        await another.start()
        with pytest.raises(KafkaError):
            async with producer.transaction():
                await producer.send_and_wait(topic, b"zombie")
        async with another.transaction():
            await another.send_and_wait(topic, b"last")
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        )
        await consumer.start()
        found = [(await consumer.getone()).value for _ in range(4)]
        for client in (consumer, another):
            await client.stop()
        await producer._sender.close()
        await producer.client.close()
        return found

    found = asyncio.run(asyncio.wait_for(story(), STUCK_S))
    assert found == [b"0", b"2", b"4", b"last"]
