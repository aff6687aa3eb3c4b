"""aiokafka: asyncio applications."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition

from tests.support.confluent import create
from tests.support.patience import IDLE_S, STUCK_S

STAMP = 1_700_000_000_000


async def produced(bootstrap, topic, records, **config):
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, **config) as producer:
        sent = [
            await producer.send(
                topic, value, key, headers=headers, partition=0, timestamp_ms=STAMP + i
            )
            for i, (key, value, headers) in enumerate(records)
        ]
        return await asyncio.gather(*sent)


async def read(bootstrap, topic, count):
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        part = TopicPartition(topic, 0)
        consumer.assign([part])
        await consumer.seek_to_beginning(part)
        return [await consumer.getone() for _ in range(count)]


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_as_they_were_produced(broker, topic, codec):
    create(broker.bootstrap, topic)
    records = [
        (b"k", b"v", [("h", b"1"), ("h", b"2")]),
        (None, b"x" * 5000, []),
        (b"gone", None, []),
    ]

    async def story():
        acks = await produced(
            broker.bootstrap,
            topic,
            records,
            compression_type=codec,
            enable_idempotence=True,
        )
        return acks, await asyncio.wait_for(read(broker.bootstrap, topic, 3), IDLE_S)

    acks, back = asyncio.run(story())
    assert [a.offset for a in acks] == [0, 1, 2]
    assert [(m.key, m.value, list(m.headers)) for m in back] == records
    # what a send is told is the time of the first record of its batch
    assert [m.timestamp for m in back] == [STAMP, STAMP + 1, STAMP + 2]


def test_a_group_commits_and_another_member_goes_on(broker, topic):
    create(broker.bootstrap, topic)

    def member():
        return AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )

    async def story():
        records = [(None, b"%d" % i, []) for i in range(5)]
        await produced(broker.bootstrap, topic, records)
        async with member() as first:
            got = [(await first.getone()).value for _ in range(3)]
            await first.commit()
        async with member() as second:
            got += [(await second.getone()).value for _ in range(2)]
        return got

    got = asyncio.run(asyncio.wait_for(story(), STUCK_S))
    assert got == [b"0", b"1", b"2", b"3", b"4"]


def test_two_members_share_a_topic_and_one_takes_over(broker, topic):
    create(broker.bootstrap, topic, 4)

    def member():
        return AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=topic,
            heartbeat_interval_ms=200,
        )

    async def until_assigned(members, *counts):
        while [len(one.assignment()) for one in members] != list(counts):
            await asyncio.sleep(0.05)

    async def story():
        async with member() as first:
            async with member() as second:
                await until_assigned([first, second], 2, 2)
                assert not first.assignment() & second.assignment()
            await until_assigned([first], 4)

    asyncio.run(asyncio.wait_for(story(), STUCK_S))
