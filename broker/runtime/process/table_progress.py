"""When records last came to each topic's table.

The problem: retention takes records out of segments that nobody compacts. After a long
hold, or a long time in which nobody ran, there may be more of them than the compactor
brings to the table in the time after which they count as such: those that it has not
come to yet would never be there. The idea: as long as a table's ends are seen to move,
the records behind them are waited for.

The price: the end of each partition with records that are in no table yet, kept from
look to look.
"""

from collections.abc import Callable

from broker.clock import Clock
from broker.ids import TopicNumber, TopicPartition


class TableProgress:
    """Called on the loop, at each look for all partitions that wait for their table."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: dict[TopicPartition, int] = {}
        self._moved_ms: dict[TopicNumber, int] = {}

    def look(self, key: TopicPartition, table_end: int, *, waits: bool) -> None:
        """Note where the table ends now; ``waits``: records behind it are in segments.
        The first end that is seen is no move."""
        known = self._ends.pop(key, table_end)
        if table_end > known:
            self._moved_ms[key[0]] = self._clock.monotonic_ms()
        if waits:
            self._ends[key] = table_end

    def keep(self, is_there: Callable[[TopicNumber], bool]) -> None:
        """Forget the partitions of topics that are gone."""
        for key in [key for key in self._ends if not is_there(key[0])]:
            del self._ends[key]
            self._moved_ms.pop(key[0], None)

    def rests(self, number: TopicNumber, for_ms: int) -> bool:
        """Whether nothing came to a topic's table for so long."""
        moved_ms = self._moved_ms.get(number)
        if moved_ms is not None and self._clock.monotonic_ms() - moved_ms < for_ms:
            return False
        self._moved_ms.pop(number, None)
        return True
