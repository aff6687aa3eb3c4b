"""Committed offsets of consumer groups, by group and partition.

A partition is named by its topic's number: offsets of a topic that was deleted and made
again are another topic's.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, select
from sqlalchemy import delete as delete_from

from broker.catalog.schema import group_offsets
from broker.catalog.upserts import upsert
from broker.ids import TopicPartition


class CommittedOffset(NamedTuple):
    """What a group committed for a partition; ``expires_ms`` -1: the broker's rule."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    committed_ms: int = 0
    expires_ms: int = -1


Stored = tuple[int, int, str, int, int]
"""``CommittedOffset``, or any tuple of the same order."""


def commit(
    connection: Connection, group_id: str, offsets: Mapping[TopicPartition, Stored]
) -> None:
    """Write a group's offsets over what it had committed for these partitions."""
    upsert(
        connection,
        group_offsets,
        (
            {
                "group_id": group_id,
                "topic_number": number,
                "partition": partition,
                "committed_offset": offset,
                "leader_epoch": leader_epoch,
                "metadata": metadata,
                "committed_ms": committed_ms,
                "expires_ms": expires_ms,
            }
            for (number, partition), (
                offset, leader_epoch, metadata, committed_ms, expires_ms,
            ) in offsets.items()
        ),
    )  # fmt: skip


def load(connection: Connection) -> dict[str, dict[TopicPartition, CommittedOffset]]:
    """All that is committed, by group."""
    groups: dict[str, dict[TopicPartition, CommittedOffset]] = {}
    for group_id, number, partition, *stored in connection.execute(
        select(group_offsets)
    ):
        offsets = groups.setdefault(group_id, {})
        offsets[number, partition] = CommittedOffset(*stored)
    return groups


def delete(
    connection: Connection, group_id: str, partitions: Iterable[TopicPartition]
) -> None:
    """Forget what a group committed for these partitions."""
    rows = [
        {"of_group": group_id, "of_topic": number, "of_partition": partition}
        for number, partition in partitions
    ]
    if rows:
        connection.execute(
            delete_from(group_offsets).where(
                group_offsets.c.group_id == bindparam("of_group"),
                group_offsets.c.topic_number == bindparam("of_topic"),
                group_offsets.c.partition == bindparam("of_partition"),
            ),
            rows,
        )


def delete_group(connection: Connection, group_id: str) -> None:
    """Forget all that a group committed."""
    connection.execute(
        delete_from(group_offsets).where(group_offsets.c.group_id == group_id)
    )
