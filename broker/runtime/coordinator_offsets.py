"""Committed offsets in memory, and the way by which they become durable first.

The problem: thousands of consumers commit every few seconds, each answer waits for the
disk, and a sync per commit would be the end of it. The idea: while one transaction of
the catalog commits, the changes that arrive gather, and go as the next one, in order.
What is fetched comes from memory and is changed only when the catalog has committed, so
that nothing is visible that a crash could take back.

The price: all offsets of all groups are in memory (a tuple each), and a commit waits
for at most one transaction before its own.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, TypeVar

import structlog
from sqlalchemy import Connection

from broker.catalog import offsets as stored
from broker.groups.offsets import Committed, TopicPartition
from broker.protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")
Offsets = dict[TopicPartition, Committed]

_NONE: Mapping[TopicPartition, Committed] = MappingProxyType({})

log = structlog.get_logger("lakelog.groups")


class Catalog(Protocol):
    """What is used of the catalog: changes that are on disk when they are done."""

    def submit(self, change: Callable[[Connection], T]) -> Future[T]: ...

    def read(self, query: Callable[[Connection], T]) -> T: ...


@dataclass(slots=True)
class _Change:
    """One change of one group's offsets, and who waits for it.

    ``upserts`` are new offsets; ``removed`` names those to forget, None all of them.
    """

    group_id: str
    upserts: Mapping[TopicPartition, Committed]
    removed: Collection[TopicPartition] | None
    done: "asyncio.Future[None]"


class CommittedOffsets:
    """The committed offsets of all groups. For the event loop's thread only."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._groups: dict[str, Offsets] = {}
        self._waiting: list[_Change] = []
        self._writing: list[_Change] = []

    def load(self) -> None:
        """Read what the catalog holds. Blocks."""
        for group_id, offsets in self._catalog.read(stored.load).items():
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
        return self._write(group_id, offsets, ())

    def delete(
        self, group_id: str, keys: Collection[TopicPartition] | None = None
    ) -> "asyncio.Future[None]":
        """Forget some offsets of a group, or all; as ``commit``."""
        return self._write(group_id, {}, keys)

    def expire(self, group_id: str, keys: Collection[TopicPartition]) -> None:
        """Forget offsets that nobody waits for: a failure is told in the log."""
        self.delete(group_id, keys).add_done_callback(asyncio.Future.exception)

    async def settled(self) -> None:
        """Wait until every change so far is durable, or failed."""
        pending = [change.done for change in (*self._writing, *self._waiting)]
        if pending:
            await asyncio.wait(pending)

    def _write(
        self,
        group_id: str,
        upserts: Mapping[TopicPartition, Committed],
        removed: Collection[TopicPartition] | None,
    ) -> "asyncio.Future[None]":
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Change(group_id, upserts, removed, done))
        if not self._writing:
            self._flush()
        return done

    def _flush(self) -> None:
        """Hand everything that gathered to the catalog as one change."""
        loop = asyncio.get_running_loop()
        changes, self._waiting = self._waiting, []
        self._writing = changes

        def committed(future: Future[None]) -> None:
            error = future.exception()
            loop.call_soon_threadsafe(self._committed, changes, error)

        try:
            future = self._catalog.submit(
                lambda connection: _store(connection, changes)
            )
        except KafkaError as error:  # it is closed
            loop.call_soon(self._committed, changes, error)
        else:
            future.add_done_callback(committed)

    def _committed(self, changes: list[_Change], error: BaseException | None) -> None:
        self._writing = []
        if error is not None:
            log.error("offsets were not committed", error=str(error))
        for change in changes:
            if error is None:
                self._apply(change)
            if change.done.done():
                continue
            if error is None:
                change.done.set_result(None)
            else:
                change.done.set_exception(_unavailable(error))
        if self._waiting:
            self._flush()

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


def _store(connection: Connection, changes: list[_Change]) -> None:
    """Carry out the changes in order. Runs on the catalog's thread."""
    for change in changes:
        if change.removed is None:
            stored.delete_group(connection, change.group_id)
        elif change.removed:
            stored.delete(connection, change.group_id, change.removed)
        if change.upserts:
            stored.commit(connection, change.group_id, change.upserts)


def _unavailable(error: BaseException) -> KafkaError:
    # Retriable for every client: the coordinator may be well again by then.
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return KafkaError(code, f"The offsets could not be stored: {error}")
