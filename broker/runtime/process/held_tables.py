"""For how long records could have come to their tables.

The problem: retention takes records out of segments that nobody compacts; yet those of
a table that its owner holds are waited for, and so are those that were there when
nobody ran: a topic may keep its rows for longer than its log. The idea: time counts
from this start on, and from when the topic's table was last seen held.

The price: retention is late by what it takes to find somebody stuck, after each start.
"""

import asyncio
from collections.abc import Iterable

from broker.catalog import holds
from broker.catalog.catalog import Catalog
from broker.clock import Clock
from broker.ids import TopicNumber
from broker.topics.topic import Topic


class HeldTables:
    """Called on the loop."""

    def __init__(self, catalog: Catalog, clock: Clock) -> None:
        self._catalog, self._clock = catalog, clock
        self._began_ms = clock.monotonic_ms()
        self._seen_ms: dict[TopicNumber, int] = {}
        """Topic number -> when its table was last seen held."""

    async def look(self, topics: Iterable[Topic]) -> None:
        """See which of these are held; all others are forgotten. Raises
        SQLAlchemyError."""
        now_ms, loop = self._clock.now_ms(), asyncio.get_running_loop()
        found = await loop.run_in_executor(
            None, self._catalog.read, lambda c: holds.load(c, now_ms)
        )
        seen, monotonic_ms = self._seen_ms, self._clock.monotonic_ms()
        self._seen_ms = {}
        if not found and not seen:
            return
        for topic in topics:
            if topic.id.hex() in found:
                self._seen_ms[topic.number] = monotonic_ms
            elif topic.number in seen:
                self._seen_ms[topic.number] = seen[topic.number]

    def free_ms(self, number: TopicNumber) -> int:
        """For how long, as of the last look, nobody has held a topic's table."""
        since_ms = self._seen_ms.get(number, self._began_ms)
        return self._clock.monotonic_ms() - since_ms
