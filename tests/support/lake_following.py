"""A lake that follows one topic's table, for a story on a loop."""

import asyncio
import os
from pathlib import Path

from broker.ids import TopicNumber
from broker.lake.lake import Lake
from broker.topics.topic import Topic
from tests.support.tables import TOPIC_ID, Writer

TOPIC = Topic(TopicNumber(7), bytes.fromhex(TOPIC_ID), "orders", 2)


class Following:
    """A lake over the writer's warehouse, started and stopped by the test's loop."""

    def __init__(self, warehouse: str, **options: int) -> None:
        self._warehouse, self._options = warehouse, options

    async def __aenter__(self) -> Lake:
        self.lake = Lake(
            Path(self._warehouse),
            call_soon=asyncio.get_running_loop().call_soon_threadsafe,
            follow_ms=10,
            **self._options,
        )
        self.lake.start([TOPIC])
        return self.lake

    async def __aexit__(self, *_: object) -> None:
        self.lake.close()


def following(writer: Writer, **options: int) -> Following:
    return Following(os.path.dirname(writer.path), **options)


def version_of(lake: Lake, number: TopicNumber) -> int:
    """Delta version that is followed; -1: there is no table."""
    return lake._view(number).version
