"""Groups in the catalog: what their members need to go on after a restart.

A row per group, written when a generation is complete, when a group is empty, and when
a static member has a new id (``broker/groups/snapshot.py`` has the text). It is made on
the catalog's thread, so that a group of hundreds does not hold up the loop.
"""

import asyncio
from collections.abc import Iterator
from functools import partial

import structlog
from sqlalchemy import Connection

from broker.catalog import groups as stored
from broker.groups.snapshot import GroupSnapshot, decode, encode
from broker.runtime.coordinator_writes import GroupWrites

log = structlog.get_logger("lakelog.groups")


class StoredGroups:
    """The rows of all groups. For the event loop's thread only."""

    def __init__(self, writes: GroupWrites) -> None:
        self._writes = writes

    def load(self) -> Iterator[tuple[str, GroupSnapshot]]:
        """Every group that was stored. Blocks.

        One that cannot be read is told in the log and left out: its members join
        again, which is better than a broker that does not start.
        """
        for group_id, value in self._writes.catalog.read(stored.load).items():
            try:
                yield group_id, decode(value)
            except ValueError as error:
                log.error("a group is forgotten", group=group_id, error=str(error))

    def store(self, group_id: str, snapshot: GroupSnapshot) -> "asyncio.Future[None]":
        """Write a group's row; done when it is durable. Raises as ``GroupWrites``."""

        def write(connection: Connection) -> None:
            stored.store(connection, group_id, encode(snapshot))

        return self._writes.write(write)

    def delete(self, group_id: str) -> "asyncio.Future[None]":
        """Forget a group's row; as ``store``."""
        return self._writes.write(partial(stored.delete, group_id=group_id))
