"""Keeping what tables say of their topics as the catalog has it.

The problem: `lakelog rebuild` makes a lost catalog again from what tables say, so they
must say it, and that of a topic must be there before its records are worth a round; and
a table may refuse, as one does whose owner asks for what nobody here knows. The idea:
the compactor makes a topic's table as soon as it sees records of it, some in each step,
and compares in each of its passes over the tables, in memory
(`lakehouse.log.describe`); one that refused is asked again when its log has moved.

The price: what changed since the last pass is not in the table yet, and a topic that
never had a record has none.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import structlog

from broker.ids import PartitionNumber, TopicNumber, TopicPartition
from broker.topics.topic import Topic
from jobs.planner import Pending
from jobs.stuck import Stuck
from jobs.tables import Table
from lakehouse.errors import LakehouseError
from lakehouse.log.describe import describe_topic
from lakehouse.topic_facts import TopicFacts

MADE_AT_ONCE: Final = 5
"""Tables made in one step beside those of a round; some 15 ms each."""

log = structlog.get_logger("lakelog.compactor")


class Describer:
    """Has tables say what their topics are; one thread at a time."""

    def __init__(self) -> None:
        self._seen: dict[TopicNumber, tuple[int, Topic, dict[int, int]]] = {}
        """Topic number -> version of its table, and what that said or refused to."""

    def keep(self, known: Collection[TopicNumber]) -> None:
        """Forget all topics but these."""
        self._seen = {n: seen for n, seen in self._seen.items() if n in known}

    def describe(
        self, table: Table, starts: Mapping[TopicPartition, int], now_ms: int
    ) -> bool:
        """Have a table say what its topic is now; whether it had to. Blocks. A refusal
        is logged, once for each version of the table. ``starts``: all log starts."""
        topic = table.topic
        own: dict[int, int] = {
            index: starts[key]
            for index in map(PartitionNumber, range(topic.partitions))
            if (key := (topic.number, index)) in starts
        }
        if self._seen.get(topic.number) == (table.snapshot.version, topic, own):
            return False
        try:
            done = describe_topic(
                table.path, facts_of(topic), own,
                now_ms=now_ms, snapshot=table.snapshot,
            )  # fmt: skip
        except (LakehouseError, OSError) as error:
            log.warning("its table does not say it", topic=topic.name, why=str(error))
            done = None
        table.follow()
        self._seen[topic.number] = table.snapshot.version, topic, own
        return done is not None


def facts_of(topic: Topic) -> TopicFacts:
    """What its table is to say of a topic."""
    return TopicFacts(
        topic.name, topic.id.hex(), topic.partitions, topic.number, topic.configs
    )


def first_of_new(
    free: Iterable[Pending], absent: Collection[TopicNumber], stuck: Stuck
) -> list[Pending]:
    """Of what may be compacted that of topics without a table, of which nothing failed:
    `MADE_AT_ONCE` topics."""
    chosen: dict[TopicNumber, list[Pending]] = {}
    for one in free:
        number = one.key[0]
        if number not in absent or not one.bytes or stuck.failed(one.key):
            continue
        if number in chosen or len(chosen) < MADE_AT_ONCE:
            chosen.setdefault(number, []).append(one)
    return [one for pendings in chosen.values() for one in pendings]
