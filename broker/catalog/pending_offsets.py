"""Offsets that groups committed within transactions that are open.

They are nobody's offsets until the transaction ends: then they become the group's, or
they never were. By group and producer, since each producer ends its own.
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import islice

from sqlalchemy import Connection, and_, bindparam, select, tuple_
from sqlalchemy import delete as delete_from

from broker.catalog import offsets
from broker.catalog.offsets import CommittedOffset, Stored
from broker.catalog.schema import pending_offsets
from broker.catalog.upserts import upsert
from broker.ids import ProducerId, Superseded, TopicPartition

_A_STATEMENT = 1_000
"""Partitions that one statement names: it looks at all that is pending of a group."""

_ANY_TIME = (1 << 63) - 1

ByProducer = dict[ProducerId, dict[TopicPartition, CommittedOffset]]


def add(
    connection: Connection,
    group_id: str,
    producer_id: ProducerId,
    pending: Mapping[TopicPartition, Stored],
) -> None:
    """Write what a producer commits for these partitions, over what it had."""
    upsert(
        connection,
        pending_offsets,
        (
            {
                "group_id": group_id,
                "producer_id": producer_id,
                "topic_number": number,
                "partition": partition,
                "committed_offset": offset,
                "leader_epoch": leader_epoch,
                "metadata": metadata,
                "committed_ms": committed_ms,
            }
            for (number, partition), (
                offset, leader_epoch, metadata, committed_ms, _,
            ) in pending.items()
        ),
    )  # fmt: skip


def load(connection: Connection) -> dict[str, ByProducer]:
    """All that is pending, by group and producer."""
    groups: dict[str, ByProducer] = {}
    for group_id, producer_id, number, partition, *stored in connection.execute(
        select(pending_offsets)
    ):
        of_producer = groups.setdefault(group_id, {}).setdefault(producer_id, {})
        of_producer[number, partition] = CommittedOffset(*stored)
    return groups


def end(
    connection: Connection,
    group_id: str,
    producer_id: ProducerId,
    *,
    commits: bool,
    older: Collection[Superseded] = (),
) -> None:
    """Make what a producer left pending the group's, or forget it; and of others what
    is ``older``."""
    columns = pending_offsets.c
    of_producer = and_(columns.group_id == group_id, columns.producer_id == producer_id)
    if commits:
        found = connection.execute(select(pending_offsets).where(of_producer))
        ended = {(row[2], row[3]): CommittedOffset(*row[4:]) for row in found}
        offsets.commit(connection, group_id, ended)
    connection.execute(delete_from(pending_offsets).where(of_producer))
    _supersede_older(connection, group_id, older)


def end_some(
    connection: Connection,
    group_id: str,
    producer_id: ProducerId,
    some: Mapping[TopicPartition, Stored],
    *,
    commits: bool,
    older: Collection[Superseded] = (),
) -> None:
    """As ``end``, of these alone."""
    if commits:
        offsets.commit(connection, group_id, some)
    _delete(connection, group_id, ((producer_id, *key, _ANY_TIME) for key in some))
    _supersede_older(connection, group_id, older)


def _supersede_older(
    connection: Connection, group_id: str, older: Collection[Superseded]
) -> None:
    rows = ((producer_id, *key, before_ms) for producer_id, key, before_ms in older)
    _delete(connection, group_id, rows)


def _delete(
    connection: Connection, group_id: str, rows: Iterable[tuple[int, int, int, int]]
) -> None:
    """Forget these rows of a group: producer, topic, partition, if said before (ms)."""
    columns = pending_offsets.c
    names = ("of_producer", "of_topic", "of_partition", "before_ms")
    named = [dict(zip(names, row, strict=True)) for row in rows]
    if named:
        connection.execute(
            delete_from(pending_offsets).where(
                columns.group_id == group_id,
                columns.producer_id == bindparam("of_producer"),
                columns.topic_number == bindparam("of_topic"),
                columns.partition == bindparam("of_partition"),
                columns.committed_ms < bindparam("before_ms"),
            ),
            named,
        )


def supersede(
    connection: Connection, group_id: str, partitions: Iterable[TopicPartition]
) -> None:
    """Forget what is pending for these partitions, of every producer: the group has
    said something newer."""
    columns, said = pending_offsets.c, iter(partitions)
    while part := tuple(islice(said, _A_STATEMENT)):
        connection.execute(
            delete_from(pending_offsets).where(
                columns.group_id == group_id,
                tuple_(columns.topic_number, columns.partition).in_(part),
            )
        )


def delete_group(connection: Connection, group_id: str) -> None:
    """Forget all that is pending of a group."""
    connection.execute(
        delete_from(pending_offsets).where(pending_offsets.c.group_id == group_id)
    )
