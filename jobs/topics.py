"""The topics, as the catalog has them: read when they changed.

The problem: a step is made five times a second and must know a new topic or setting at
once; to read ten thousand topics takes a tenth of a second. The idea: the catalog
counts their changes, and the count is one row. The price: what a program of the version
before changed, which does not count, is seen half a minute later.
"""

from collections.abc import Mapping
from typing import Final

from sqlalchemy import Connection

from broker.catalog import topics as catalog_topics
from broker.catalog.catalog import Catalog
from broker.clock import Clock
from broker.ids import TopicNumber
from broker.topics.topic import Topic

AGAIN_MS: Final = 30_000


class KnownTopics:
    """All topics that are alive."""

    def __init__(self, catalog: Catalog, clock: Clock) -> None:
        self._catalog, self._clock = catalog, clock
        self._changes = -1
        self._again_ms = 0
        self._topics: dict[TopicNumber, Topic] = {}

    def look(self) -> Mapping[TopicNumber, Topic]:
        """By number, as they are now; another mapping only if they may have changed.
        Blocks."""
        self._catalog.read(self._read)
        return self._topics

    def get(self, number: TopicNumber) -> Topic | None:
        """As of the last look."""
        return self._topics.get(number)

    def _read(self, connection: Connection) -> None:
        changes, now_ms = catalog_topics.changes(connection), self._clock.monotonic_ms()
        if changes != self._changes or now_ms >= self._again_ms:
            found = catalog_topics.load(connection)
            self._topics = {topic.number: topic for topic in found}
            self._changes, self._again_ms = changes, now_ms + AGAIN_MS
