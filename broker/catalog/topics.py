"""Topics: which there are, how they are set, where their logs start.

A deleted topic keeps its row until its table is gone: only then is it forgotten, and
its number never comes back; who brings the topic back before that gives it a new one.
Its committed offsets go at once, with the deletion, and so do those that a transaction
has pending: its end makes nothing of them.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, Connection, Row, Text, cast, func, insert, select
from sqlalchemy import delete as delete_from
from sqlalchemy import update as update_row
from sqlalchemy.exc import IntegrityError

from broker.catalog import released_ends
from broker.catalog.schema import (
    about,
    group_offsets,
    log_starts,
    pending_offsets,
    topics,
)
from broker.catalog.upserts import upsert
from broker.ids import PartitionNumber, TopicNumber, TopicPartition
from broker.protocol.errors import ErrorCode, KafkaError, unknown_partition
from broker.topics.topic import Topic

_CHANGES: Final = "topic_changes"


class DeletedTopic(NamedTuple):
    """A topic that is gone for clients, and whose table still has to go."""

    topic: Topic
    deleted_ms: int


def create(
    connection: Connection,
    name: str,
    topic_id: bytes,
    partitions: int,
    configs: Mapping[str, str],
    now_ms: int,
) -> Topic:
    """Add a topic; its number is new. Raises KafkaError TOPIC_ALREADY_EXISTS."""
    assert len(topic_id) == 16
    try:
        inserted = connection.execute(
            insert(topics).values(
                id=topic_id,
                name=name,
                partitions=partitions,
                configs=dict(configs),
                created_ms=now_ms,
            )
        )
    except IntegrityError as error:
        raise KafkaError(
            ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists."
        ) from error
    _count_change(connection)
    key = inserted.inserted_primary_key
    assert key is not None
    return Topic(key[0], topic_id, name, partitions, dict(configs))


def restore(
    connection: Connection, topic: Topic, created_ms: int, deleted_ms: int | None = None
) -> None:
    """Add a topic that was there before, with its number; ``deleted_ms``: when it was
    deleted. No number up to it is given again."""
    connection.execute(
        insert(topics).values(
            number=topic.number,
            id=topic.id,
            name=topic.name,
            partitions=topic.partitions,
            configs=dict(topic.configs),
            created_ms=created_ms,
            deleted_ms=deleted_ms,
        )
    )
    _count_change(connection)


def use_up_numbers(connection: Connection, last: TopicNumber) -> None:
    """Give no number up to ``last`` to a topic that is made from now on."""
    highest = connection.scalar(select(func.max(topics.c.number))) or 0
    if highest < last:
        restore(connection, Topic(last, bytes(16), "", 0), 0, 0)
        forget(connection, last)


def delete(connection: Connection, number: TopicNumber, now_ms: int) -> None:
    """Take a topic from the clients, with all offsets committed for it.

    Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION.
    """
    _change(connection, number, deleted_ms=now_ms)
    for table in (group_offsets, pending_offsets):
        connection.execute(delete_from(table).where(table.c.topic_number == number))


def revive(
    connection: Connection, number: TopicNumber, ends: Mapping[PartitionNumber, int]
) -> Topic:
    """Give a deleted topic back to the clients: itself in all but its number.

    ``ends``: where its table ends, which has all that is left of it.

    Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION if no such topic is deleted,
    TOPIC_ALREADY_EXISTS if another has its name now.
    """
    row = connection.execute(
        select(topics).where(
            topics.c.number == number, topics.c.deleted_ms.is_not(None)
        )
    ).one_or_none()
    if row is None:
        raise unknown_partition()
    starts = find_log_starts(connection, number)
    forget(connection, number)
    topic = create(
        connection, row.name, row.id, row.partitions, row.configs, row.created_ms
    )
    set_log_start(
        connection,
        {(topic.number, index): start for (_, index), start in starts.items()},
    )
    released_ends.raise_to(
        connection, {(topic.number, index): end for index, end in ends.items()}
    )
    return topic


def add_partitions(connection: Connection, number: TopicNumber, total: int) -> None:
    """Raise the number of partitions to ``total``.

    Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS if that is not
    more than there are.
    """
    present = connection.scalar(
        select(topics.c.partitions).where(
            topics.c.number == number, topics.c.deleted_ms.is_(None)
        )
    )
    if present is not None and total <= present:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic currently has {present} partitions, which is higher than the "
            f"requested {total}.",
        )
    _change(connection, number, partitions=total)


def alter_configs(
    connection: Connection, number: TopicNumber, configs: Mapping[str, str]
) -> None:
    """Replace all settings. Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION."""
    _change(connection, number, configs=dict(configs))


def set_log_start(connection: Connection, starts: Mapping[TopicPartition, int]) -> None:
    """Where logs start from now on, by (number, partition)."""
    upsert(
        connection,
        log_starts,
        (
            {"topic_number": number, "partition": partition, "start_offset": offset}
            for (number, partition), offset in starts.items()
        ),
    )


def changes(connection: Connection) -> int:
    """How often a topic was made, altered or deleted: as long as this stays the same,
    `load` finds the same ones. (Programs of the version before do not count.)"""
    found = connection.scalar(select(about.c.value).where(about.c.key == _CHANGES))
    return 0 if found is None else int(found)


def load(connection: Connection) -> list[Topic]:
    """All topics that are alive, by number."""
    rows = connection.execute(
        select(topics).where(topics.c.deleted_ms.is_(None)).order_by(topics.c.number)
    )
    return [_topic(row) for row in rows]


def find(connection: Connection, name: str) -> Topic | None:
    """The topic of that name that is alive, if there is one."""
    row = connection.execute(
        select(topics).where(topics.c.name == name, topics.c.deleted_ms.is_(None))
    ).first()
    return None if row is None else _topic(row)


def load_names(connection: Connection) -> list[str]:
    """The names of all topics that are alive, sorted."""
    found = connection.scalars(
        select(topics.c.name).where(topics.c.deleted_ms.is_(None))
    )
    return sorted(found)


def find_log_starts(
    connection: Connection, number: TopicNumber
) -> dict[TopicPartition, int]:
    """Where the logs of one topic start; those that are not named start at 0."""
    rows = connection.execute(
        select(log_starts).where(log_starts.c.topic_number == number)
    )
    return {(row[0], row[1]): row[2] for row in rows}


def load_log_starts(connection: Connection) -> dict[TopicPartition, int]:
    """Where logs start; those that are not named start at 0."""
    return {(row[0], row[1]): row[2] for row in connection.execute(select(log_starts))}


def list_deleted(connection: Connection) -> list[DeletedTopic]:
    """The topics whose table still has to go, the longest deleted first."""
    rows = connection.execute(
        select(topics)
        .where(topics.c.deleted_ms.is_not(None))
        .order_by(topics.c.deleted_ms, topics.c.number)
    )
    return [DeletedTopic(_topic(row), row.deleted_ms) for row in rows]


def forget(connection: Connection, number: TopicNumber) -> None:
    """A deleted topic's table is gone: nothing of the topic is left."""
    connection.execute(
        delete_from(topics).where(
            topics.c.number == number, topics.c.deleted_ms.is_not(None)
        )
    )
    connection.execute(
        delete_from(log_starts).where(log_starts.c.topic_number == number)
    )
    released_ends.forget(connection, number)


def _change(connection: Connection, number: TopicNumber, **values: Any) -> None:
    changed = connection.execute(
        update_row(topics)
        .where(topics.c.number == number, topics.c.deleted_ms.is_(None))
        .values(**values)
    )
    if changed.rowcount == 0:
        raise unknown_partition()
    _count_change(connection)


def _count_change(connection: Connection) -> None:
    """Whoever has read the topics has to read them again."""
    is_count = about.c.key == _CHANGES
    one_more = cast(cast(about.c.value, BigInteger) + 1, Text)
    counted = update_row(about).where(is_count).values(value=one_more)
    if connection.execute(counted).rowcount == 0:
        connection.execute(insert(about).values(key=_CHANGES, value="1"))


def _topic(row: Row[Any]) -> Topic:
    return Topic(row.number, row.id, row.name, row.partitions, row.configs)
