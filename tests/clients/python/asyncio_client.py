"""aiokafka: VERSION VERB BOOTSTRAP TOPIC WORDS..."""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition

from tests.clients.python.words import Asked, Assigned, done, emit, record, start_of

version, verb, bootstrap, topic, *words = sys.argv[1:]
HELD = {} if version == "newest" else {"api_version": version}
SERVER = {"bootstrap_servers": bootstrap} | HELD


async def produce(codec: str, transaction: str) -> None:
    config = SERVER | {"compression_type": None if codec == "none" else codec}
    if transaction != "-":
        config |= {"transactional_id": transaction}
    async with AIOKafkaProducer(**config, linger_ms=5) as producer:
        asked = {
            "begin": producer.begin_transaction,
            "commit": producer.commit_transaction,
            "abort": producer.abort_transaction,
            "flush": producer.flush,
        }
        sent = []
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            row = record(line)
            if row is not None:
                key, value, headers = row
                named = {"headers": headers} if headers else {}
                sent.append(await producer.send(topic, value, key, 0, **named))
                continue
            await asyncio.gather(*sent)
            sent = []
            await asked[line.strip()]()
            done()


async def fetch(start: str, count: str, level: str) -> None:
    async with AIOKafkaConsumer(**SERVER, isolation_level=f"read_{level}") as consumer:
        part = TopicPartition(topic, 0)
        consumer.assign([part])
        offset, time_ms = start_of(start)
        if offset is None:
            offset = (await consumer.offsets_for_times({part: time_ms}))[part].offset
        consumer.seek(part, offset)
        left = int(count)
        while left > 0:
            left -= await read(consumer, left)


async def read(consumer: AIOKafkaConsumer, records_max: int = 500) -> int:
    """How many records came within 100 ms."""
    found = await consumer.getmany(timeout_ms=100, max_records=records_max)
    rows = [row for rows in found.values() for row in rows]
    for row in rows:
        emit(row.partition, row.offset, row.key, row.value, list(row.headers))
    return len(rows)


async def member(group: str) -> None:
    asked, assigned = Asked(), Assigned()
    async with AIOKafkaConsumer(
        topic,
        **SERVER,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while not asked.ended:
            await read(consumer)
            assigned.tell({part.partition for part in consumer.assignment()})
            for _ in asked.take():
                await consumer.commit()
                done()


asyncio.run({"produce": produce, "fetch": fetch, "member": member}[verb](*words))
