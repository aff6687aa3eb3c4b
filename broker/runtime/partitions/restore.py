"""Taking up the partitions at start: from checkpoint, segments, catalog and tables.

Each of the four knows a part. The catalog knows which topics there are and where their
logs start; the tables, how far they reach; the segments, every batch that is not yet in
a table; the checkpoint, the producers' sequences up to its own position, behind which
the segments' entries are replayed. Entries of topics that were deleted are passed over:
a number is never given to another topic.
"""

from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import structlog

from broker.ids import TopicPartition
from broker.log import checkpoint
from broker.log.partition import LogSnapshot, PartitionLog
from broker.runtime.partitions.partitions import Partitions
from broker.runtime.ports import Tables
from broker.runtime.topics.topics import Topics
from broker.storage.recovery import Recovery

log = structlog.get_logger("lakelog.restore")


def restore(
    partitions: Partitions,
    topics: Topics,
    recovery: Recovery,
    log_starts: Mapping[TopicPartition, int],
    lake: Tables,
    now_ms: int,
) -> int:
    """Take up every topic that the catalog knows; the number of batches replayed.

    A partition of which nobody knows anything is made when somebody asks for it. Those
    of a topic that only its table knows, as of one that was brought back, or where the
    checkpoint is lost, wait until that can be read. Not so a partition that segments
    have a part of: it goes on behind that, also where a newer segment was let go.
    """
    known = _snapshots(recovery.payload)
    snapshots = known or {}
    unnamed = None if known is None else PartitionLog().snapshot()

    def log_of(key: TopicPartition) -> PartitionLog:
        return PartitionLog.restore(
            snapshots.get(key, unnamed),
            start=log_starts.get(key, 0),
            table_end=lake.table_end(*key),
            columns=_columns(recovery.columns.get(key)),
            places=recovery.lost,
            replayed_from=recovery.replayed_from,
            lost_end=recovery.lost_ends.get(key, 0),
        )

    unreadable = lake.unreadable_topics()
    logs: dict[TopicPartition, PartitionLog] = {}
    for topic in topics.all():
        keys = [topic.key(index) for index in range(topic.partitions)]
        named = {
            key
            for key in keys
            if key in snapshots
            or key in recovery.columns
            or recovery.lost_ends.get(key)
        }
        in_table = {key for key in keys if lake.table_end(*key)}
        is_unknown = topic.number in unreadable and (
            known is None or not (named or in_table)
        )
        of_topic: dict[int, PartitionLog] = {
            key[1]: log_of(key)
            for key in keys
            if key in named
            or key in in_table
            or (log_starts.get(key) and not is_unknown)
        }
        logs |= {topic.key(index): log for index, log in of_topic.items()}
        unknown = _of_table(unnamed, log_starts, lake) if is_unknown else None
        partitions.restore(
            topic,
            of_topic,
            is_damaged=bool(recovery.lost),
            unknown=unknown,
            is_unsaid=known is None,
        )
    return sum(1 for _ in _replayed(recovery, logs, now_ms))


def _of_table(
    unnamed: LogSnapshot | None, log_starts: Mapping[TopicPartition, int], lake: Tables
) -> Callable[[TopicPartition], PartitionLog]:
    """Makes logs that go on where their tables end."""

    def log_of(key: TopicPartition) -> PartitionLog:
        start, table_end = log_starts.get(key, 0), lake.table_end(*key)
        return PartitionLog.restore(unnamed, start=start, table_end=table_end)

    return log_of


def _snapshots(payload: bytes | None) -> Mapping[TopicPartition, LogSnapshot] | None:
    """Of each partition that had anything; None: the checkpoint is lost."""
    if payload is None:
        return None
    try:
        return checkpoint.unpack(payload)
    except ValueError as error:
        log.error("the checkpoint cannot be read", why=str(error))
        return None


def _columns(found: Any) -> Any:
    if found is None:
        return None
    return SimpleNamespace(
        base=found.base,
        last=found.last,
        max_ts=found.max_timestamp,
        location=found.location,
        length=found.length,
    )


def _replayed(
    recovery: Recovery, logs: Mapping[TopicPartition, PartitionLog], now_ms: int
) -> Iterator[None]:
    for one in recovery.replay:
        replayed = logs.get((one.topic_number, one.partition))
        if replayed is not None:
            replayed.replay(one.header, now_ms, one.marker)
            yield
