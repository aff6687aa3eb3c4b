"""Committed offsets among futures and the catalog.

``broker/groups/commits.py`` decides what is seen and when; this keeps its one machine,
and says which rows an event is.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from sqlalchemy import Connection

from broker.catalog import groups
from broker.catalog import offsets as stored
from broker.clock import Clock
from broker.groups.commits import (
    ChangeOffsets,
    Commits,
    OffsetCommand,
    OffsetsChanging,
    OffsetsWritten,
)
from broker.groups.offsets import Committed
from broker.ids import TopicPartition
from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.coordination.journal import Journal
from broker.runtime.coordination.machines import Hosted, Shape
from broker.timing.delayed import Timers


class CommittedOffsets:
    """The committed offsets of all groups. For the event loop's thread only."""

    def __init__(self, journal: Journal, timers: Timers, clock: Clock) -> None:
        self._journal = journal
        self._commits = Commits()
        self._hosted = Hosted(self._commits, _SHAPE, journal, timers, clock)

    def load(self) -> None:
        """Read what the catalog holds. Blocks."""
        for group_id, offsets in self._journal.catalog.read(stored.load).items():
            loaded = {key: Committed(*one) for key, one in offsets.items()}
            self._commits.show(OffsetsChanging(0, group_id, loaded, ()))

    def groups(self) -> Iterator[str]:
        """Every group that has offsets."""
        return self._commits.ids()

    def of(self, group_id: str) -> Mapping[TopicPartition, Committed]:
        """The durable offsets of one group."""
        return self._commits.of(group_id)

    @property
    def held_bytes(self) -> int:
        """About what all of them take in memory."""
        return self._commits.held_bytes

    def added_bytes(
        self, group_id: str, offsets: Mapping[TopicPartition, Committed]
    ) -> int:
        """How much more they would take with these."""
        return self._commits.added_bytes(group_id, offsets)

    def commit(
        self, group_id: str, offsets: Mapping[TopicPartition, Committed]
    ) -> "asyncio.Future[Any]":
        """Set offsets; done when they are durable and visible.

        Raises (from the future) KafkaError COORDINATOR_NOT_AVAILABLE.
        """
        return self._change(group_id, offsets, ())

    def delete(
        self, group_id: str, keys: Collection[TopicPartition] | None = None
    ) -> "asyncio.Future[Any]":
        """Forget some offsets of a group, or the group with all; as ``commit``."""
        return self._change(group_id, {}, None if keys is None else tuple(keys))

    def expire(self, group_id: str, keys: Collection[TopicPartition]) -> None:
        """Forget offsets that nobody waits for: a failure is told in the log.

        Not one that is being committed anew: it is not the one that is too old.
        """
        if keys:
            renewed = self._commits.are_written(group_id)
            keys = [key for key in keys if key not in renewed]
        if keys:
            self.delete(group_id, keys).add_done_callback(asyncio.Future.exception)

    async def flush(self) -> None:
        """Wait until every change of groups so far is durable, or failed."""
        await self._journal.flush()

    def _change(
        self,
        group_id: str,
        upserts: Mapping[TopicPartition, Committed],
        removed: tuple[TopicPartition, ...] | None,
    ) -> "asyncio.Future[Any]":
        ticket: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._hosted.ask(ChangeOffsets(group_id, upserts, removed, ticket))
        return ticket


def _store(connection: Connection, event: OffsetsChanging) -> None:
    if event.removed is None:
        stored.delete_group(connection, event.group_id)
        groups.delete(connection, event.group_id)
    elif event.removed:
        stored.delete(connection, event.group_id, event.removed)
    if event.upserts:
        stored.commit(connection, event.group_id, event.upserts)


def _written(event: OffsetsChanging, error: BaseException | None) -> OffsetsWritten:
    failed = error is not None
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE if failed else ErrorCode.NONE
    return OffsetsWritten(event.serial, code)


def _fail(ticket: Any, error: BaseException) -> None:
    # Retriable for every client: the coordinator may be well again by then.
    if not ticket.done():
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        refused = KafkaError(code, f"The group could not be stored: {error}")
        ticket.set_exception(refused)


_SHAPE: Shape[OffsetCommand] = Shape(_store, _written, _fail)
