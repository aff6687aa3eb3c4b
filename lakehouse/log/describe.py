"""Having a topic's table say what the catalog says of the topic (`topic_facts`).

An entry that changes nothing but properties and ``txn`` actions: rows stay as they are,
and streams that follow the table pass over it. One with properties makes an owner's
statement that is under way try again, so these are written only when they differ.

Used by the compactor's process, and by tools while none runs; everything here blocks.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from lakehouse import properties
from lakehouse.log import library
from lakehouse.log.attempts import Committed, commit_judged, current
from lakehouse.log.delta_log import Snapshot
from lakehouse.log.entry import Description, description_entry
from lakehouse.log.in_commit import moment_of
from lakehouse.log.next_entry import put_next
from lakehouse.topic_facts import (
    TopicFacts,
    log_starts_of,
    properties_of,
    start_application,
)


class Differing(NamedTuple):
    """What a table does not say yet: properties, and ``txn`` actions."""

    properties: dict[str, str]
    transactions: dict[str, int]


def differing(
    table: Snapshot, facts: TopicFacts, log_starts: Mapping[int, int]
) -> Differing | None:
    """What is to be said; None: the table says all of it."""
    known = table.configuration
    said = {k: v for k, v in properties_of(facts).items() if known.get(k) != v}
    before = log_starts_of(table.transactions, facts.id)
    raised = {
        start_application(facts.id, partition): start
        for partition, start in sorted(log_starts.items())
        if start > before.get(partition, 0)
    }
    return Differing(said, raised) if said or raised else None


def describe_topic(
    path: str,
    facts: TopicFacts,
    log_starts: Mapping[int, int],
    *,
    now_ms: int,
    snapshot: Snapshot | None = None,
) -> Committed | None:
    """Commit what the table does not say yet; None: it says all of it. ``log_starts``
    by partition; ``snapshot`` as in `lakehouse.log.commit.commit_files`.

    Raises CommitRefused, CommitLost, TableMissing, LogDamaged and OSError.
    """
    table = current(path, facts.id, snapshot)
    news = differing(table, facts, log_starts)
    if news is None:
        return None
    said: dict[str, Any] = {
        properties.DESCRIBED: {
            "properties": news.properties,
            "logStarts": {str(p): start for p, start in sorted(log_starts.items())},
        }
    }

    def ours(version: int) -> bool:
        metadata = table.metadata if news.properties else None
        described = Description(metadata, news.properties, news.transactions, said)
        text = description_entry(described, version, moment_of(table, now_ms))
        return put_next(table, text, _nothing, _nothing)

    def librarys(version: int) -> bool:
        described = Description(None, news.properties, news.transactions, said)
        return library.commit_description(path, version, described)

    return commit_judged(table, facts.id, _nothing, ours, librarys)


def _nothing() -> None:
    """Whatever the table is now, it may say what its topic is."""
