"""When records last came to each topic's table.

The problem: retention takes records out of segments that nobody compacts. After a long
hold, or a long time in which nobody ran, there may be more of them than the compactor
brings to the table in the time after which they count as such: those that it has not
come to yet would never be there. The idea: as long as a table's ends are seen to move,
the records behind them are waited for; but not for ever those of one partition that
stands still while others of its topic move: it is stuck, and would fill the disk.

The price: the end of each partition with records that are in no table yet, kept from
look to look.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from broker.clock import Clock
from broker.ids import TopicNumber, TopicPartition

PATIENCE: Final = 30


class _End(NamedTuple):
    """Where the table of a partition ends, and since when that is seen."""

    offset: int
    seen_ms: int


class TableProgress:
    """Called on the loop, at each look for all partitions that wait for their table."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: dict[TopicPartition, _End] = {}
        """Of each partition that waits."""
        self._moved_ms: dict[TopicNumber, int] = {}

    def look(self, key: TopicPartition, table_end: int, *, waits: bool) -> bool:
        """Note where the table ends now; ``waits``: records behind it are in segments.
        The first end that is seen is no move: nothing is known then, and False said."""
        known = self._ends.pop(key, None)
        now = _End(table_end, self._clock.monotonic_ms())
        if known is not None and table_end > known.offset:
            self._moved_ms[key[0]] = now.seen_ms
        elif known is not None:
            now = now._replace(seen_ms=known.seen_ms)
        if waits:
            self._ends[key] = now
        return known is not None

    def keep(self, is_there: Callable[[TopicNumber], bool]) -> None:
        """Forget the topics that are gone."""
        for key in [key for key in self._ends if not is_there(key[0])]:
            del self._ends[key]
        for number in [number for number in self._moved_ms if not is_there(number)]:
            del self._moved_ms[number]

    def rests(self, key: TopicPartition, for_ms: int) -> bool:
        """Whether nothing came to the table of a partition's topic for so long, or
        nothing of the partition for `PATIENCE` times that."""
        number, now_ms = key[0], self._clock.monotonic_ms()
        end = self._ends.get(key)
        if end is not None and now_ms - end.seen_ms >= PATIENCE * for_ms:
            return True
        moved_ms = self._moved_ms.get(number)
        if moved_ms is not None and now_ms - moved_ms < for_ms:
            return False
        self._moved_ms.pop(number, None)
        return True
