"""A topic's deletion that fails takes nothing from the topic."""

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from broker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.patience import IDLE_S
from tests.support.process import BrokerPart
from tests.support.wire import Wire, frame_of

VALUES = [b"%d" % i for i in range(40)]
RELEASE_TICKS_S = 1.5
"""Two looks of the broker at which segments may be released, and some time."""


@pytest.fixture
def part(tmp_path: Path) -> Iterator[BrokerPart]:
    broker = BrokerPart(
        tmp_path / "data", "wal.idle_seal_ms=10", "wal.keep_ms=0"
    ).start()
    yield broker
    broker.end()


@pytest.fixture
def other(part: BrokerPart) -> Iterator[sqlite3.Connection]:
    """Another process that is inside a transaction of the catalog."""
    connection = sqlite3.connect(part.data_dir / "catalog.db", isolation_level=None)
    yield connection
    connection.close()


def produce(part: BrokerPart, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": part.bootstrap})
    for value in values:
        producer.produce("t", value)
    assert producer.flush(IDLE_S) == 0


def consume(part: BrokerPart) -> list[bytes | None]:
    consumer = Consumer(
        {
            "bootstrap.servers": part.bootstrap,
            "group.id": "g",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    found = []
    while (message := consumer.poll(IDLE_S)) is not None and message.error() is None:
        found.append(message.value())
    consumer.close()
    return found


async def begin_deletion(part: BrokerPart, wait_s: float = RELEASE_TICKS_S) -> Wire:
    """Ask for it on a connection, whose answer may be read later."""
    host, port = part.bootstrap.split(":")
    wire = await Wire.open((host, int(port)))
    asked = DeleteTopicsRequest(topics=[DeleteTopicState("t")], timeout_ms=60_000)
    wire.send(frame_of(asked, 6))
    await asyncio.sleep(wait_s)
    return wire


async def error_of_topic(part: BrokerPart) -> int:
    host, port = part.bootstrap.split(":")
    wire = await Wire.open((host, int(port)))
    asked = MetadataRequest([MetadataRequestTopic(name="t")], False)
    answer: Any = await wire.ask(asked, 9)
    wire.close()
    code: int = answer.topics[0].error_code
    return code


@pytest.mark.shared_out("restarts", 4)
def test_a_broker_killed_while_the_catalog_was_locked_has_every_record(
    part: BrokerPart, other: sqlite3.Connection
) -> None:
    produce(part, VALUES)
    other.execute("BEGIN IMMEDIATE")
    asyncio.run(begin_deletion(part))
    part.kill()
    other.execute("ROLLBACK")
    part.start()
    assert consume(part) == VALUES


@pytest.mark.shared_out("restarts", 4)
def test_records_produced_while_the_catalog_is_locked_are_kept_if_it_was_a_kill(
    part: BrokerPart, other: sqlite3.Connection
) -> None:
    async def story() -> None:
        await begin_deletion(part)
        assert await error_of_topic(part) == 0
        await asyncio.to_thread(produce, part, VALUES[20:])
        part.kill()

    produce(part, VALUES[:20])
    other.execute("BEGIN IMMEDIATE")
    asyncio.run(story())
    other.execute("ROLLBACK")
    part.start()
    assert consume(part) == VALUES


@pytest.mark.shared_out("restarts", 4)
def test_the_deletion_comes_when_the_catalog_is_free_again(
    part: BrokerPart, other: sqlite3.Connection
) -> None:
    async def story() -> None:
        wire = await begin_deletion(part, 0.2)  # it waits for so many seconds at most
        other.execute("ROLLBACK")
        _, answer = await wire.response(20, 6)
        assert answer.responses[0].error_code == 0
        assert await error_of_topic(part) == 3

    produce(part, VALUES)
    other.execute("BEGIN IMMEDIATE")
    asyncio.run(story())
