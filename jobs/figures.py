"""What rounds were like: how long, how much, and how fresh their tables are.

A record is queryable when its commit is in the Delta log. How long it waited for that
is counted from when this process first saw its batch durable, some 200 ms after the
acknowledgement at most; of a partition the oldest batch of the round counts, so no
record waited longer. Topics are named in the order of their last commits, at most
`TOPICS_MAX` of them.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from broker.ids import TopicNumber, TopicPartition
from broker.status.histogram import LONG_SIZES, LONG_TIMES, Histogram
from broker.status.schema import CompactorStatus
from jobs.planner import Pending

TOPICS_MAX: Final = 1_000
_NS_A_MS: Final = 1_000_000


class Figures:
    """Counted by the compactor's thread; any thread may ask."""

    def __init__(self) -> None:
        self._times, self._freshness = Histogram(LONG_TIMES), Histogram(LONG_TIMES)
        self._rows, self._bytes = Histogram(LONG_SIZES), Histogram(LONG_SIZES)
        self._last_ms: OrderedDict[str, int] = OrderedDict()

    def add_round(self, took_ms: int, rows: int, log_bytes: int) -> None:
        """Count a round; one that committed nothing has a time alone."""
        self._times.add_time(took_ms * _NS_A_MS)
        if log_bytes:
            self._rows.add_size(max(1, rows))
            self._bytes.add_size(log_bytes)

    def add_commit(self, topic: str, waited_ms: int) -> None:
        """Count that a topic's oldest record had waited so long when it was there."""
        self._freshness.add_time(waited_ms * _NS_A_MS)
        self._last_ms[topic] = waited_ms
        self._last_ms.move_to_end(topic)
        if len(self._last_ms) > TOPICS_MAX:
            self._last_ms.popitem(last=False)

    def add_commits(
        self,
        committed: Collection[TopicPartition],
        due: Iterable[Pending],
        names: Mapping[TopicNumber, str],
        now_ms: int,
    ) -> None:
        """Count for each topic how long its oldest record had waited, of those ``due``
        that were committed; forget all topics but those with ``names``."""
        waited_ms: dict[TopicNumber, int] = {}
        for one in due:
            if one.key in committed:
                number, age_ms = one.key[0], now_ms - one.since_ms
                waited_ms[number] = max(waited_ms.get(number, 0), age_ms)
        for number, age_ms in waited_ms.items():
            self.add_commit(names[number], age_ms)
        self.keep(set(names.values()))

    def keep(self, topics: Collection[str]) -> None:
        """Forget all other topics: they were deleted."""
        for gone in [topic for topic in self._last_ms if topic not in topics]:
            del self._last_ms[gone]

    def said(self, status: CompactorStatus) -> CompactorStatus:
        """``status`` with these figures."""
        return replace(
            status,
            round_times=self._times.state(),
            round_rows=self._rows.state(),
            round_bytes=self._bytes.state(),
            freshness=self._freshness.state(),
            freshness_ms=dict(self._last_ms),
        )
