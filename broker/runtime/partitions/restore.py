"""Taking up the partitions at start: from checkpoint, segments, catalog and tables.

Each of the four knows a part. The catalog knows which topics there are, where their
logs start and how far segments were released; the tables, how far they reach; the
segments, every batch that is not yet in a table; the checkpoint, the producers'
sequences up to its own position, behind which the segments' entries are replayed.
Entries of topics that were deleted are passed over: a number is never given to another
topic.
"""

from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import structlog

from broker.ids import TopicPartition
from broker.log import checkpoint
from broker.log.lost import NOWHERE, place_between
from broker.log.partition import LogSnapshot, PartitionLog
from broker.log.restoring import restore_log
from broker.runtime.partitions.partitions import Partitions
from broker.runtime.partitions.waiting_topics import LogOf
from broker.runtime.ports import Tables
from broker.runtime.topics.topics import Topics
from broker.storage.recovery import Recovery
from broker.storage.replay import Replayed

log = structlog.get_logger("lakelog.restore")


class Stored(NamedTuple):
    """What the catalog knows of partitions: where their logs start, and where what was
    released of them ends."""

    log_starts: Mapping[TopicPartition, int]
    released_ends: Mapping[TopicPartition, int]


def restore(
    partitions: Partitions,
    topics: Topics,
    recovery: Recovery,
    stored: Stored,
    lake: Tables,
    now_ms: int,
) -> int:
    """Take up every topic that the catalog knows; the number of batches that lie
    behind the checkpoint.

    A partition of which nobody knows anything is made when somebody asks for it. Those
    of a topic that only its table knows, as of one that was brought back, wait until
    that can be read. So do those of which the checkpoint is lost, unless the catalog
    tells where they end, or the segments prove it: the table may be ahead of the
    batches that are left. And so, where a segment behind the checkpoint is lost, or so
    damaged that nothing says whose batches it held, do those of which nothing lies
    behind that.
    """
    known = _snapshots(recovery.payload)
    is_any_lost = (
        known is not None and recovery.replayed_from < recovery.unclaimed_below
    )
    snapshots = known or {}
    log_starts, released_ends = stored
    log_of = _maker(recovery, known, stored, lake)
    unreadable = lake.unreadable_topics()
    logs: dict[TopicPartition, PartitionLog] = {}
    waiting: dict[TopicPartition, list[Replayed]] = {}
    for topic in topics.all():
        keys = [topic.key(index) for index in range(topic.partitions)]
        named = {
            key
            for key in keys
            if key in snapshots
            or key in recovery.columns
            or key in released_ends
            or recovery.lost_ends.get(key)
        }
        in_table = {key for key in keys if lake.table_end(*key)}
        is_unknown = topic.number in unreadable and (
            known is None or is_any_lost or not (named or in_table)
        )
        sure = {
            key
            for key in named
            if not is_unknown or _is_end_known(recovery, key, known, released_ends)
        }
        of_topic: dict[int, PartitionLog] = {
            key[1]: log_of(key)
            for key in keys
            if key in sure
            or key in in_table
            or (log_starts.get(key) and not is_unknown)
        }
        logs |= {topic.key(index): log for index, log in of_topic.items()}
        unknown = None
        if is_unknown:
            replays: dict[TopicPartition, list[Replayed]] = {
                key: [] for key in named - sure - in_table
            }
            waiting |= replays
            rest = _rest(recovery, replays)
            made = _maker(rest, _some(known, replays), stored, lake)
            unknown = _later(made, replays, now_ms)
        partitions.restore(
            topic,
            of_topic,
            is_damaged=bool(recovery.lost),
            unknown=unknown,
            is_unsaid=(known is None or is_any_lost) and bool(named or of_topic),
        )
    _replay(recovery, logs, waiting, now_ms)
    return len(recovery.replay)


def _is_end_known(
    recovery: Recovery,
    key: TopicPartition,
    known: Mapping[TopicPartition, LogSnapshot] | None,
    released_ends: Mapping[TopicPartition, int],
) -> bool:
    """Whether it is known where a partition ends whose table cannot be read. ``known``:
    what the checkpoint says of all, which knows all that was released; it is behind the
    newest batch, or before it."""
    if known is None:
        return key in released_ends or _is_end_proven(recovery, key)
    found = recovery.columns.get(key)
    newest = 0 if found is None else int(found.location[-1])
    return max(newest, recovery.replayed_from) >= recovery.unclaimed_below


def _some(
    known: Mapping[TopicPartition, LogSnapshot] | None, keys: Collection[TopicPartition]
) -> Mapping[TopicPartition, LogSnapshot] | None:
    """What a checkpoint says of these; None if it is lost."""
    return None if known is None else {key: known[key] for key in keys if key in known}


def _is_end_proven(recovery: Recovery, key: TopicPartition) -> bool:
    """Whether nothing of a partition was released behind its newest batch, as the
    segments alone tell: it lies in the last one that was begun, and nothing is missing
    behind it. One that was carried may have left out what a table has."""
    found = recovery.columns.get(key)
    if found is None:
        return False
    newest = int(found.location[-1])
    is_last = newest >= recovery.last_begins
    return is_last and place_between(recovery.lost, newest, NOWHERE) is None


def _maker(
    recovery: Recovery,
    snapshots: Mapping[TopicPartition, LogSnapshot] | None,
    stored: Stored,
    lake: Tables,
) -> LogOf:
    """Makes logs of all that is known when it is called. ``snapshots``: of a
    checkpoint, and None if it is lost: a table has then all that was released, be it
    there or not."""

    def log_of(key: TopicPartition) -> PartitionLog:
        released_end, table_end = stored.released_ends.get(key, 0), lake.table_end(*key)
        has_all = recovery.has_all and table_end == released_end == 0
        if snapshots is None:
            snapshot, table_end = None, max(table_end, released_end)
        else:
            if released_end <= stored.log_starts.get(key, 0):
                released_end = 0  # deleted, perhaps amid a batch, and so in no table
            snapshot = snapshots.get(key) or PartitionLog(0, released_end).snapshot()
        return restore_log(
            snapshot,
            start=stored.log_starts.get(key, 0),
            table_end=table_end,
            columns=_columns(recovery.columns.get(key)),
            places=recovery.lost,
            replayed_from=recovery.replayed_from,
            lost_end=recovery.lost_ends.get(key, 0),
            released_end=released_end,
            has_all=has_all and lake.unreadable(key[0]) is None,
        )

    return log_of


def _rest(recovery: Recovery, keys: Collection[TopicPartition]) -> Recovery:
    """What was found of some partitions; of the others nothing is kept."""
    columns, lost_ends = recovery.columns, recovery.lost_ends
    return Recovery(
        replayed_from=recovery.replayed_from,
        columns={key: columns[key] for key in keys if key in columns},
        lost=recovery.lost,
        lost_ends={key: lost_ends[key] for key in keys if key in lost_ends},
        has_all=recovery.has_all,
    )


def _later(
    log_of: LogOf, replays: Mapping[TopicPartition, list[Replayed]], now_ms: int
) -> LogOf:
    """Makes the logs that waited for their tables, with what was replayed meanwhile."""

    def made(key: TopicPartition) -> PartitionLog:
        made = log_of(key)
        for one in replays.get(key, ()):
            made.replay(one.header, now_ms, one.marker)
        made.end_replay()
        return made

    return made


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


def _replay(
    recovery: Recovery,
    logs: Mapping[TopicPartition, PartitionLog],
    waiting: Mapping[TopicPartition, list[Replayed]],
    now_ms: int,
) -> None:
    """Let the logs take up what was written behind the checkpoint, as far as it is of
    a producer: of others a log takes up nothing."""
    for one in recovery.replay.of_producers():
        key = one.topic_number, one.partition
        replayed, waits = logs.get(key), waiting.get(key)
        if replayed is not None:
            replayed.replay(one.header, now_ms, one.marker)
        elif waits is not None and one.header.producer_id >= 0:
            waits.append(one)
    for replayed in logs.values():
        replayed.end_replay()
