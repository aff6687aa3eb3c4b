"""Committed offsets in memory, changed only when the catalog has committed.

What is fetched comes from memory, and nothing is visible that a crash could take back.
The price: all offsets of all groups are in memory (a tuple each).
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from sqlalchemy import Connection

from broker.catalog import groups
from broker.catalog import offsets as stored
from broker.groups.offsets import Committed, TopicPartition
from broker.runtime.coordinator_writes import GroupWrites

Offsets = dict[TopicPartition, Committed]

_NONE: Mapping[TopicPartition, Committed] = MappingProxyType({})


@dataclass(slots=True)
class _Change:
    """One change of one group's offsets.

    ``upserts`` are new offsets; ``removed`` names those to forget, None all of them
    and the group itself.
    """

    group_id: str
    upserts: Mapping[TopicPartition, Committed]
    removed: Collection[TopicPartition] | None

    def store(self, connection: Connection) -> None:
        """Carry it out. Runs on the catalog's thread."""
        if self.removed is None:
            stored.delete_group(connection, self.group_id)
            groups.delete(connection, self.group_id)
        elif self.removed:
            stored.delete(connection, self.group_id, self.removed)
        if self.upserts:
            stored.commit(connection, self.group_id, self.upserts)


class CommittedOffsets:
    """The committed offsets of all groups. For the event loop's thread only."""

    def __init__(self, writes: GroupWrites) -> None:
        self._writes = writes
        self._groups: dict[str, Offsets] = {}

    def load(self) -> None:
        """Read what the catalog holds. Blocks."""
        for group_id, offsets in self._writes.catalog.read(stored.load).items():
            loaded = {key: Committed(*one) for key, one in offsets.items()}
            self._groups[group_id] = loaded

    def groups(self) -> Iterator[str]:
        """Every group that has offsets."""
        return iter(self._groups)

    def of(self, group_id: str) -> Mapping[TopicPartition, Committed]:
        """The durable offsets of one group."""
        return self._groups.get(group_id, _NONE)

    def commit(
        self, group_id: str, offsets: Mapping[TopicPartition, Committed]
    ) -> "asyncio.Future[None]":
        """Set offsets; done when they are durable and visible.

        Raises (from the future) KafkaError COORDINATOR_NOT_AVAILABLE.
        """
        return self._write(_Change(group_id, offsets, ()))

    def delete(
        self, group_id: str, keys: Collection[TopicPartition] | None = None
    ) -> "asyncio.Future[None]":
        """Forget some offsets of a group, or the group with all; as ``commit``."""
        return self._write(_Change(group_id, {}, keys))

    def expire(self, group_id: str, keys: Collection[TopicPartition]) -> None:
        """Forget offsets that nobody waits for: a failure is told in the log."""
        self.delete(group_id, keys).add_done_callback(asyncio.Future.exception)

    async def settled(self) -> None:
        """Wait until every change so far is durable, or failed."""
        await self._writes.settled()

    def _write(self, change: _Change) -> "asyncio.Future[None]":
        return self._writes.write(change.store, partial(self._apply, change))

    def _apply(self, change: _Change) -> None:
        offsets = self._groups.setdefault(change.group_id, {})
        if change.removed is None:
            offsets.clear()
        else:
            for key in change.removed:
                offsets.pop(key, None)
        offsets.update(change.upserts)
        if not offsets:
            del self._groups[change.group_id]
