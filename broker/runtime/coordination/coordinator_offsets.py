"""Committed offsets among futures and the catalog.

``broker/groups/commits.py`` decides what is seen and when; this keeps its one machine,
and says which rows an event is.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

from sqlalchemy import Connection

from broker.catalog import groups
from broker.catalog import offsets as stored
from broker.catalog import pending_offsets as pending
from broker.clock import Clock
from broker.groups.commits import (
    AddPending,
    ChangeOffsets,
    Changing,
    Commits,
    EndPending,
    OffsetCommand,
    OffsetsChanging,
    OffsetsWritten,
    PendingAdding,
    PendingEnding,
)
from broker.groups.offsets import Committed
from broker.ids import ProducerId, TopicPartition
from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.coordination.journal import Journal
from broker.runtime.coordination.machines import Hosted, Shape, resolve
from broker.timing.delayed import Timers

CHANGED_A_TURN = 5_000
"""So many offsets are changed or forgotten in a turn: a millisecond or two. More are
changed in parts, each when the one before is durable: a failure leaves some changed."""

MADE_A_TURN = 5
"""Changes that waited for one in parts, each of ``CHANGED_A_TURN`` offsets at most."""

_Waiting = list[tuple[Callable[[], "asyncio.Future[Any]"], "asyncio.Future[Any]"]]
"""How each change is made, and who waits for it."""


class CommittedOffsets:
    """The committed offsets of all groups. For the event loop's thread only."""

    def __init__(self, journal: Journal, timers: Timers, clock: Clock) -> None:
        self._journal = journal
        self._in_parts: dict[str, asyncio.Future[Any]] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._commits = Commits()
        self._hosted = Hosted(self._commits, _SHAPE, journal, timers, clock)

    def load(self) -> None:
        """Read what the catalog holds. Blocks."""
        for group_id, offsets in self._journal.catalog.read(stored.load).items():
            loaded = {key: Committed(*one) for key, one in offsets.items()}
            self._commits.put(group_id, loaded)
        for group_id, by_producer in self._journal.catalog.read(pending.load).items():
            for producer_id, offsets in by_producer.items():
                loaded = {key: Committed(*one) for key, one in offsets.items()}
                self._commits.set_pending(group_id, producer_id, loaded)

    def groups(self) -> Iterator[str]:
        """Every group that has offsets, if only pending ones."""
        return self._commits.ids()

    def knows(self, group_id: str) -> bool:
        """Whether a group has offsets, if only pending ones."""
        return self._commits.knows(group_id)

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

    def added_pending_bytes(
        self,
        group_id: str,
        producer_id: ProducerId,
        offsets: Mapping[TopicPartition, Committed],
    ) -> int:
        """How much more they would take with these, pending for a producer."""
        return self._commits.added_pending_bytes(group_id, producer_id, offsets)

    def commit(
        self, group_id: str, offsets: Mapping[TopicPartition, Committed]
    ) -> "asyncio.Future[Any]":
        """Set offsets; done when they are durable and visible.

        It waits for no change before it: ``in_parts`` and ``in_order`` make it.
        Raises (from the future) KafkaError COORDINATOR_NOT_AVAILABLE.
        """
        return self._change(group_id, offsets, ())

    def delete(
        self, group_id: str, keys: Collection[TopicPartition]
    ) -> "asyncio.Future[Any]":
        """Forget some offsets of a group; as ``commit``."""
        if len(keys) > CHANGED_A_TURN:
            return self.in_parts(
                group_id, partial(self._delete_in_parts, group_id, keys)
            )
        return self.in_order(group_id, partial(self._change, group_id, {}, tuple(keys)))

    async def _delete_in_parts(
        self, group_id: str, keys: Collection[TopicPartition]
    ) -> None:
        left = iter(keys)
        while part := tuple(islice(left, CHANGED_A_TURN)):
            await self._change(group_id, {}, part)

    def delete_group(self, group_id: str) -> "asyncio.Future[Any]":
        """Forget a group with all its offsets; as ``commit``.

        What is stored of its members goes at once: it may be made anew by the time
        that the offsets' turn has come.
        """
        if group_id not in self._in_parts:
            return self._delete_group(group_id)
        ticket: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._journal.write(
            partial(groups.delete, group_id=group_id), partial(_notify, ticket)
        )
        return self.in_parts(
            group_id, partial(self._delete_offsets_of, group_id, ticket)
        )

    async def _delete_offsets_of(
        self, group_id: str, forgotten: "asyncio.Future[Any]"
    ) -> None:
        await forgotten
        keys = (*self.of(group_id), *self.unstable(group_id))
        await self._delete_in_parts(group_id, keys)

    def _delete_group(self, group_id: str) -> "asyncio.Future[Any]":
        offsets = self._commits.groups.get(group_id, {})
        done = self._change(group_id, {}, None)
        done.add_done_callback(partial(_empty_if_deleted, offsets))
        return asyncio.shield(done)  # it is done when they are gone, whoever waits

    def commit_pending(
        self,
        group_id: str,
        producer_id: ProducerId,
        offsets: Mapping[TopicPartition, Committed],
    ) -> "asyncio.Future[Any]":
        """Set offsets within a producer's open transaction; done when that is durable.

        It waits for no change before it, and raises, as ``commit`` does.
        """
        return self._ask(partial(AddPending, group_id, producer_id, offsets))

    def end_pending(
        self, group_id: str, producer_id: ProducerId, *, commits: bool
    ) -> "asyncio.Future[Any]":
        """A producer's transaction is over: what it left pending is the group's, or
        nobody's; done when that is durable and visible. May be asked again.

        Raises as ``commit`` does.
        """
        command = partial(EndPending, group_id, producer_id, commits)
        return self.in_order(group_id, partial(self._ask, command))

    def unstable(self, group_id: str) -> Collection[TopicPartition]:
        """The partitions of a group whose offset an open transaction may change."""
        return self._commits.unstable(group_id)

    def expire(self, group_id: str, keys: Collection[TopicPartition]) -> None:
        """Forget offsets that nobody waits for: a failure is told in the log.

        Not one that is being committed anew: it is not the one that is too old.
        """
        if group_id in self._in_parts:
            return  # they may be among those; the next sweep sees what is left
        if keys:
            renewed = self._commits.are_written(group_id)
            keys = [key for key in keys if key not in renewed]
        if keys:
            self.delete(group_id, keys).add_done_callback(asyncio.Future.exception)

    def in_parts(
        self, group_id: str, make: Callable[[], Awaitable[Any]]
    ) -> "asyncio.Future[Any]":
        """Make a change that takes several turns, after those of the group before it;
        those after it wait, so that the older of two never comes last."""
        self._waiting.pop(group_id, None)  # who comes now, comes after this one
        before = self._in_parts.get(group_id)
        made = asyncio.ensure_future(_after(before, make))
        self._in_parts[group_id] = made
        made.add_done_callback(partial(self._made, group_id))
        return asyncio.shield(made)  # it is made, whoever waits

    def in_order(
        self, group_id: str, make: Callable[[], "asyncio.Future[Any]"]
    ) -> "asyncio.Future[Any]":
        """Make a change, after those of the group that take several turns.

        Those that wait are made together: one by one, each durable before the next,
        they would be slower than others come, and the group would never catch up.
        """
        if group_id not in self._in_parts:
            return make()
        if group_id not in self._waiting:
            together: _Waiting = []
            self.in_parts(group_id, partial(self._make_waiting, group_id, together))
            self._waiting[group_id] = together
        ticket = _ticket()
        self._waiting[group_id].append((make, ticket))
        return ticket

    async def _make_waiting(self, group_id: str, together: _Waiting) -> None:
        """Make them in their order; done when all are durable, or failed."""
        if self._waiting.get(group_id) is together:
            del self._waiting[group_id]
        making = []
        for count, (make, ticket) in enumerate(together, 1):
            making.append(asyncio.ensure_future(_make_for(make, ticket)))
            if count % MADE_A_TURN == 0:
                await asyncio.sleep(0)
        await asyncio.wait(making)

    def _made(self, group_id: str, made: "asyncio.Future[Any]") -> None:
        if self._in_parts.get(group_id) is made:
            del self._in_parts[group_id]

    async def flush(self) -> None:
        """Wait until every change of groups so far is durable, or failed."""
        while self._in_parts:
            await asyncio.wait(tuple(self._in_parts.values()))
        await self._journal.flush()

    def _change(
        self,
        group_id: str,
        upserts: Mapping[TopicPartition, Committed],
        removed: tuple[TopicPartition, ...] | None,
    ) -> "asyncio.Future[Any]":
        return self._ask(partial(ChangeOffsets, group_id, upserts, removed))

    def _ask(
        self, command: Callable[["asyncio.Future[Any]"], OffsetCommand]
    ) -> "asyncio.Future[Any]":
        ticket = _ticket()
        self._hosted.ask(command(ticket))
        return ticket


async def _after(
    before: "asyncio.Future[Any] | None", make: Callable[[], Awaitable[Any]]
) -> None:
    if before is not None:
        await asyncio.wait([before])  # whatever came of it
    await make()


async def _make_for(
    make: Callable[[], "asyncio.Future[Any]"], ticket: "asyncio.Future[Any]"
) -> None:
    """Make a change; who asked for it hears what came of it."""
    try:
        await make()
    except Exception as error:  # noqa: BLE001 - raised where it was asked
        if not ticket.done():
            ticket.set_exception(error)
    else:
        resolve(ticket, None)


def _notify(ticket: "asyncio.Future[Any]", error: BaseException | None) -> None:
    if error is None:
        ticket.set_result(None)
    else:
        _fail(ticket, error)


def _empty_if_deleted(
    offsets: dict[TopicPartition, Committed], done: "asyncio.Future[Any]"
) -> None:
    if done.exception() is None:
        _empty(offsets)


def _empty(offsets: dict[TopicPartition, Committed]) -> None:
    """Empty it in the turns that follow: to forget many at once takes too long."""
    for _ in range(min(CHANGED_A_TURN, len(offsets))):
        offsets.popitem()
    if offsets:
        asyncio.get_running_loop().call_soon(_empty, offsets)


def no_room() -> "asyncio.Future[Any]":
    """What becomes of offsets that there is no room for."""
    refused = _ticket()
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    refused.set_exception(KafkaError(code, "No room for more offsets."))
    return refused


def _ticket() -> "asyncio.Future[Any]":
    return asyncio.get_running_loop().create_future()


def _store(connection: Connection, event: Changing) -> None:
    group_id = event.group_id
    match event:
        case OffsetsChanging():
            _store_changing(connection, event)
        case PendingAdding(_, _, producer_id, offsets):
            pending.add(connection, group_id, producer_id, offsets)
        case PendingEnding(_, _, producer_id, commits):
            pending.end(connection, group_id, producer_id, commits=commits)


def _store_changing(connection: Connection, event: OffsetsChanging) -> None:
    if event.removed is None:
        stored.delete_group(connection, event.group_id)
        groups.delete(connection, event.group_id)
    elif event.removed:
        stored.delete(connection, event.group_id, event.removed)
    if event.supersedes:
        _supersede(connection, event)
    if event.upserts:
        stored.commit(connection, event.group_id, event.upserts)


def _supersede(connection: Connection, event: OffsetsChanging) -> None:
    if event.removed is None:
        pending.delete_group(connection, event.group_id)
    else:
        keys = (*event.removed, *event.upserts)
        pending.supersede(connection, event.group_id, keys)


def _written(event: Changing, error: BaseException | None) -> OffsetsWritten:
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
