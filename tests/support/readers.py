"""Readers of a topic: three Kafka clients, four readers of Delta; one shape of record.

A record is (partition, offset, timestamp in ms, its type, key, value, headers), headers
a list of [name, bytes or None]; what two readers give is compared with ``==``.
"""

import asyncio

import deltalake
import duckdb
import polars
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPartition

from tests.support.patience import IDLE_S, STUCK_S, Patience
from tests.support.spark_reader import SparkReader


def row(message) -> tuple:
    """A record, all that librdkafka tells of it."""
    kind, timestamp = message.timestamp()
    return (
        message.partition(),
        message.offset(),
        timestamp,
        kind - 1,
        message.key(),
        message.value(),
        [list(header) for header in message.headers() or []],
    )


def consumed(
    bootstrap: str, topic: str, partitions: int = 1, **config: object
) -> list[tuple]:
    """Every record of a topic, to the end of each partition, ordered by offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "all",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
        }
        | config
    )
    consumer.assign(
        [TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(partitions)]
    )
    found, waiting, patience = [], set(range(partitions)), Patience()
    while waiting:
        assert patience.lasts((len(found), len(waiting))), f"no end of {waiting}"
        for message in consumer.consume(1000, timeout=0.05):
            if message.error() is None:
                found.append(row(message))
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF
                waiting.discard(message.partition())
    consumer.close()
    return sorted(found, key=lambda one: one[:2])


def by_aiokafka(bootstrap: str, topic: str, count: int) -> list[tuple]:
    async def story() -> list[tuple]:
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
            part = AioPartition(topic, 0)
            consumer.assign([part])
            await consumer.seek_to_beginning(part)
            return [told(await consumer.getone()) for _ in range(count)]

    return asyncio.run(asyncio.wait_for(story(), STUCK_S))


def by_kafka_python(
    bootstrap: str, topic: str, count: int, version: tuple[int, ...] | None = None
) -> list[tuple]:
    """Read from the start; as a client of ``version`` if one is given."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        consumer_timeout_ms=int(IDLE_S * 1000),
        api_version=version,
    )
    part = PythonPartition(topic, 0)
    consumer.assign([part])
    consumer.seek_to_beginning(part)
    found = [told(next(consumer)) for _ in range(count)]
    consumer.close()
    return found


def told(message) -> tuple:
    """A record as the two Python clients have it."""
    return (
        message.partition,
        message.offset,
        message.timestamp,
        message.timestamp_type,
        message.key,
        message.value,
        [list(header) for header in message.headers],
    )


COLUMNS = "partition, offset, timestamp, timestampType, key, value, headers"


def plain(rows) -> list[tuple]:
    """Rows of a Delta reader as records: no headers is an empty list."""
    return [
        (
            *found[:2],
            found[2]
            if isinstance(found[2], int)
            else round(found[2].timestamp() * 1000),
            *found[3:6],
            [[h["key"], h["value"]] for h in found[6] or []],
        )
        for found in rows
    ]


def by_spark(analyst: SparkReader, path: str) -> list[tuple]:
    sql = f"SELECT {COLUMNS} FROM delta.`{path}` ORDER BY partition, offset"
    return plain(analyst.ask(sql))


def by_duckdb(path: str) -> list[tuple]:
    rows = deltalake.DeltaTable(path).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("stored", rows)
        columns = ", ".join(f'"{name}"' for name in COLUMNS.split(", "))
        sql = f'SELECT {columns} FROM stored ORDER BY "partition", "offset"'
        return plain(connection.execute(sql).fetchall())


def by_polars(path: str) -> list[tuple]:
    frame = polars.read_delta(path).sort("partition", "offset")
    return plain(frame.select(COLUMNS.split(", ")).rows())


def by_deltalake(path: str) -> list[tuple]:
    found = deltalake.DeltaTable(path).to_pyarrow_table().select(COLUMNS.split(", "))
    rows = found.sort_by([("partition", "ascending"), ("offset", "ascending")])
    return plain(
        zip(*(column.to_pylist() for column in rows.itercolumns()), strict=True)
    )
