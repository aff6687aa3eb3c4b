"""Where logs begin, as the catalog has it, for whoever asks in each step.

The problem: ten thousand log starts take thirty milliseconds to read, a step is made
five times a second, and most need none of them. The idea: they are read when somebody
asks, and once a second at most, since they only rise: one that was read a moment ago is
never too high. But whoever sees that a segment is gone must know for sure what let it
go, and that was in the catalog before. The price: what was deleted just now is taken
for needed for a second.
"""

from collections.abc import Mapping, Set
from typing import Final

from broker.catalog import topics as catalog_topics
from broker.catalog.catalog import Catalog
from broker.clock import Clock
from broker.ids import TopicPartition

AGAIN_MS: Final = 1_000


class LogStarts:
    """The log starts of all partitions that have one; of others it is 0."""

    def __init__(self, catalog: Catalog, clock: Clock) -> None:
        self._catalog, self._clock = catalog, clock
        self._again_ms = 0
        self._live: Set[int] = frozenset()
        self._starts: Mapping[TopicPartition, int] = {}

    def behind(self, live: Set[int]) -> None:
        """From now on none that was read before these segments were ``live``."""
        if live != self._live:
            self._live, self._again_ms = live, 0

    def look(self) -> Mapping[TopicPartition, int]:
        """All of them, a second old at most. Blocks."""
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._again_ms:
            self._starts = self._catalog.read(catalog_topics.load_log_starts)
            self._again_ms = now_ms + AGAIN_MS
        return self._starts

    def of(self, key: TopicPartition) -> int:
        """That of a partition, a second old at most. Blocks."""
        return self.look().get(key, 0)
