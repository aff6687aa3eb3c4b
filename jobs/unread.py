"""What waits for tables that cannot be read: it is told, and no round is planned of it.

Where such a table ends is nobody's to guess, so it counts from the last end that was
known here on; without one, all that the live segments have counts, decided or not.
"""

from collections.abc import Collection, Mapping

from broker.ids import TopicNumber, TopicPartition
from jobs.backlog import Backlog
from jobs.planner import Pending


class Unread:
    """The ends that tables had before they could not be read any more."""

    def __init__(self, backlog: Backlog) -> None:
        self._backlog = backlog
        self._topics: Collection[TopicNumber] = ()
        self._ends: dict[TopicPartition, int] = {}

    def keep(
        self, ends: Mapping[TopicPartition, int], unreadable: Collection[TopicNumber]
    ) -> None:
        """``ends``: as of the look before the one that found these unreadable."""
        self._topics = unreadable
        known = {**self._ends, **ends} if unreadable else {}
        self._ends = {key: end for key, end in known.items() if key[0] in unreadable}

    def waiting(self) -> list[Pending]:
        """What lies in the segments beyond these ends."""
        found = []
        for key, end in self._backlog.ends.items():
            start = self._ends.get(key, 0)
            if key[0] in self._topics and start < end:
                chunks, size = self._backlog.chains[key].above(start)
                since_ms = self._backlog.since(key, start)
                found.append(Pending(key, start, chunks, since_ms, size))
        return found
