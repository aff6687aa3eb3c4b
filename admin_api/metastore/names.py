"""What topics are called in SQL. Pure.

The problem: letters have no case in SQL's names, and topics' names have: ``Orders`` and
``orders`` are two topics. The idea: a topic is called by its name in small letters
while no other topic has a better right to that; then it is called as its directory is
(``~orders`` for ``Orders``), which no two topics share and which works always. Between
``Orders`` and ``orders`` it is the second whose name is written in small letters.
"""

from collections import Counter
from collections.abc import Collection
from functools import cached_property
from typing import Final

from lakehouse.location import directory_name

STATE: Final = "tables"
"""What is known of all tables, as a view beside them."""
_MARK: Final = "~"


def table_names(topics: Collection[str]) -> dict[str, str]:
    """Name in SQL -> topic, of all topics: a letter's case apart, each has its own."""
    shared = Counter(topic.lower() for topic in topics)
    return {_name(topic, shared): topic for topic in topics}


def _name(topic: str, shared: Counter[str]) -> str:
    small = topic.lower()
    if topic == STATE:
        return topic + _MARK  # no directory is called so
    is_its_own = topic == small or shared[small] == 1
    return small if is_its_own and small != STATE else directory_name(topic)


class Names:
    """What the topics of a moment are called, for who looks for several."""

    def __init__(self, topics: Collection[str]) -> None:
        self._topics = topics
        self._by_name = table_names(topics)

    @cached_property
    def _by_directory(self) -> dict[str, str]:
        return {directory_name(topic): topic for topic in self._topics}

    def topic_of(self, name: str) -> str | None:
        """The topic that a name in SQL is; None if it is none's."""
        small = name.lower()
        found = self._by_name.get(small)
        if found is not None or _MARK not in small:
            return found
        return self._by_directory.get(small)


def topic_of(name: str, topics: Collection[str]) -> str | None:
    """The topic that a name in SQL is; None if it is none's."""
    return Names(topics).topic_of(name)
