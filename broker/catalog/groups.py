"""What a group's coordinator must know after a restart, one row per group.

The value is the groups' own text (``broker/groups/snapshot.py``); the catalog keeps it
and does not read it. Kafka has it as ``GroupMetadataValue`` in ``__consumer_offsets``.
"""

from sqlalchemy import Connection, select
from sqlalchemy import delete as delete_from

from broker.catalog.schema import group_metadata
from broker.catalog.upserts import upsert


def store(connection: Connection, group_id: str, value: str) -> None:
    """Write a group's metadata over what was there."""
    upsert(connection, group_metadata, [{"group_id": group_id, "value": value}])


def load(connection: Connection) -> dict[str, str]:
    """The metadata of all groups, by id."""
    rows = connection.execute(select(group_metadata))
    return {row.group_id: row.value for row in rows}


def delete(connection: Connection, group_id: str) -> None:
    """Forget a group; nothing happens if it is not known."""
    connection.execute(
        delete_from(group_metadata).where(group_metadata.c.group_id == group_id)
    )
