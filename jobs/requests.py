"""Who waits for what: requests to have all that is committed in the tables. Pure.

A request is fulfilled when the tables of its topics reach what was durable when it was
first seen here, or their logs begin behind it, unless the table keeps more than the log
does; what comes later is not its matter. A topic that is not there, or goes meanwhile,
is nothing to wait for.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from broker.ids import TopicNumber, TopicPartition
from broker.topics.configs import waits_for_table
from broker.topics.topic import Topic

Ends = Mapping[TopicPartition, int]


class Asked(Protocol):
    """What is looked at of `broker.catalog.requests.FlushRequest`."""

    @property
    def id(self) -> int: ...

    @property
    def topics(self) -> tuple[str, ...] | None: ...


class Requests:
    """The open requests and what each waits for."""

    def __init__(self) -> None:
        self._targets: dict[int, dict[TopicPartition, int]] = {}
        self.newest = 0
        """Id of the newest request that was seen; ids grow."""
        self.topics: frozenset[TopicNumber] = frozenset()
        """Numbers of the topics that somebody waits for."""

    def take_in(
        self, asked: Sequence[Asked], topics: Mapping[TopicNumber, Topic]
    ) -> set[TopicNumber]:
        """Numbers of the topics that requests are for which were never seen before."""
        new = [one for one in asked if one.id > self.newest]
        if not new:
            return set()
        self.newest = max(one.id for one in new)
        return {
            number
            for number, topic in topics.items()
            if any(one.topics is None or topic.name in one.topics for one in new)
        }

    def look(
        self,
        asked: Sequence[Asked],
        topics: Mapping[TopicNumber, Topic],
        durable: Ends,
        tables: Ends,
        log_starts: Ends,
    ) -> list[int]:
        """Note what new requests wait for; the ids of those that are fulfilled now.

        ``durable``: where the segments of each partition end; ``tables``: where its
        table ends; ``log_starts``: below which offset nothing is served any more.
        """
        open_ids = {one.id for one in asked}
        for gone in self._targets.keys() - open_ids:
            del self._targets[gone]
        for one in asked:
            if one.id not in self._targets:
                self._targets[one.id] = _target(one, topics, durable)
        missing = {
            id_: {
                key
                for key, end in target.items()
                if key[0] in topics
                and tables.get(key, 0) < end
                and _is_needed(topics[key[0]], end, log_starts.get(key, 0))
            }
            for id_, target in self._targets.items()
        }
        self.topics = frozenset(key[0] for keys in missing.values() for key in keys)
        return [id_ for id_, keys in missing.items() if not keys]


def _is_needed(topic: Topic, end: int, log_start: int) -> bool:
    """Whether the table has to reach an offset up to which segments have records."""
    return log_start < end or waits_for_table(topic.configs)


def _target(
    asked: Asked, topics: Mapping[TopicNumber, Topic], durable: Ends
) -> dict[TopicPartition, int]:
    return {
        key: end
        for key, end in durable.items()
        if key[0] in topics
        and (asked.topics is None or topics[key[0]].name in asked.topics)
    }
