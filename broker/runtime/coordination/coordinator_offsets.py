"""Committed offsets among futures and the catalog.

``broker/groups/commits.py`` decides what is seen and when; this keeps its one machine,
and says which rows an event is. What waits for a change in parts does so in
``change_order.py``.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
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
from broker.groups.offset_bytes import OFFSET_BYTES, bytes_of
from broker.groups.offsets import Committed
from broker.ids import ProducerId, TopicPartition
from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.coordination.change_order import ChangeOrder, Part
from broker.runtime.coordination.journal import Journal
from broker.runtime.coordination.machines import Hosted, Shape
from broker.timing.delayed import Timers

CHANGED_A_TURN = 5_000
"""So many offsets are changed or forgotten in a turn: a millisecond or two. More are
changed in parts, each when the one before is durable: a failure leaves some changed."""


class CommittedOffsets:
    """The committed offsets of all groups. For the event loop's thread only."""

    def __init__(
        self,
        journal: Journal,
        timers: Timers,
        clock: Clock,
        has_room: Callable[[int], bool] = lambda _: True,
    ) -> None:
        """``has_room``: whether changes that wait may take so much more."""
        self._journal = journal
        self._order = ChangeOrder(has_room)
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
        """About what all of them take in memory, and changes that wait."""
        return self._commits.held_bytes + self._order.held_bytes

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

        It waits for no change before it: ``in_order`` makes it.
        Raises (from the future) KafkaError COORDINATOR_NOT_AVAILABLE.
        """
        return self._change(group_id, offsets, ())

    def in_order(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, Committed],
        make: Callable[[Mapping[TopicPartition, Committed]], "asyncio.Future[Any]"],
    ) -> "asyncio.Future[Any]":
        """Make a change with these offsets, after those of the group that take several
        turns; of more than ``CHANGED_A_TURN`` in parts: a failure leaves some changed.

        Raises (from the future) as ``make``, and COORDINATOR_NOT_AVAILABLE where it
        would wait and there is no room for it.
        """
        if len(offsets) > CHANGED_A_TURN:
            parts = _parts(offsets, make)
            return self._order.in_parts(group_id, parts, bytes_of(offsets))
        weigh = partial(bytes_of, offsets)
        return self._order.in_order(group_id, partial(make, offsets), weigh)

    def delete(
        self, group_id: str, keys: Collection[TopicPartition]
    ) -> "asyncio.Future[Any]":
        """Forget some offsets of a group; as ``in_order``."""
        forget = partial(self._change, group_id, {})
        if len(keys) > CHANGED_A_TURN:
            parts, held_bytes = _parts_of_keys(keys, forget), OFFSET_BYTES * len(keys)
            return self._order.in_parts(group_id, parts, held_bytes)
        weigh = partial(int, OFFSET_BYTES * len(keys))
        return self._order.in_order(group_id, partial(forget, tuple(keys)), weigh)

    def delete_group(self, group_id: str) -> "asyncio.Future[Any]":
        """Forget a group with all its offsets; as ``commit``.

        It waits for nothing: what does is forgotten with the group before it is made,
        so who asked for it hears what comes of this.
        """
        offsets = self._commits.groups.get(group_id, {})
        done = self._change(group_id, {}, None)
        done.add_done_callback(partial(_empty_if_deleted, offsets))
        self._order.drop(group_id, done)
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

        Much is ended in parts: after a failure the rest is pending yet. Raises as
        ``commit`` does.
        """
        end = partial(EndPending, group_id, producer_id, commits)
        count = self._commits.count_pending(group_id, producer_id)
        if count <= CHANGED_A_TURN and not self._order.has_queue(group_id):
            return self._ask(end)
        parts = self._endings(group_id, producer_id, end)
        return self._order.in_parts(group_id, parts, 0, is_owed=True)

    def _endings(
        self, group_id: str, producer_id: ProducerId, end: Callable[..., EndPending]
    ) -> Iterator[Part]:
        """The parts of an end, each cut when its turn comes. The first ends nothing:
        when it is durable, so is all that was on its way, and what is pending here is
        what the catalog has."""
        yield Part(partial(self._ask, partial(end, some={})), 0)
        while self._commits.count_pending(group_id, producer_id) > CHANGED_A_TURN:
            left = self._commits.pending.get(group_id, {}).get(producer_id, {})
            some = dict(islice(left.items(), CHANGED_A_TURN))
            yield Part(partial(self._ask, partial(end, some=some)), 0)
        yield Part(partial(self._ask, end), 0)

    def unstable(self, group_id: str) -> tuple[Collection[TopicPartition], ...]:
        """The partitions of a group whose offset an open transaction may change, of
        each transaction for itself."""
        return self._commits.unstable(group_id)

    def expire(self, group_id: str, keys: Collection[TopicPartition]) -> None:
        """Forget offsets that nobody waits for: a failure is told in the log.

        Not one that is being committed anew: it is not the one that is too old. It
        waits for no change before it: those that were not made yet come after it.
        """
        if not keys:
            return
        renewed = self._commits.being_committed(group_id, keys)
        gone = tuple(key for key in keys if key not in renewed)
        if gone:
            done = self._change(group_id, {}, gone)
            done.add_done_callback(asyncio.Future.exception)

    async def flush(self) -> None:
        """Wait until every change of groups so far is durable, or failed."""
        await self._order.flush()
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


def _parts(
    offsets: Mapping[TopicPartition, Committed],
    make: Callable[[Mapping[TopicPartition, Committed]], "asyncio.Future[Any]"],
) -> Iterator[Part]:
    left = iter(offsets.items())
    while part := dict(islice(left, CHANGED_A_TURN)):
        yield Part(partial(make, part), bytes_of(part))


def _parts_of_keys(
    keys: Collection[TopicPartition],
    forget: Callable[[tuple[TopicPartition, ...]], "asyncio.Future[Any]"],
) -> Iterator[Part]:
    left = iter(keys)
    while part := tuple(islice(left, CHANGED_A_TURN)):
        yield Part(partial(forget, part), OFFSET_BYTES * len(part))


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


def _ticket() -> "asyncio.Future[Any]":
    return asyncio.get_running_loop().create_future()


def _store(connection: Connection, event: Changing) -> None:
    group_id = event.group_id
    match event:
        case OffsetsChanging():
            _store_changing(connection, event)
        case PendingAdding(_, _, producer_id, offsets):
            pending.add(connection, group_id, producer_id, offsets)
        case PendingEnding(_, _, producer_id, commits, _, None, older):
            pending.end(connection, group_id, producer_id, commits=commits, older=older)
        case PendingEnding(_, _, producer_id, commits, _, some, older):
            assert some is not None
            pending.end_some(
                connection, group_id, producer_id, some, commits=commits, older=older
            )


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


def _size(event: Changing) -> int:
    """How many offsets change when it is shown."""
    match event:
        case OffsetsChanging():
            return len(event.upserts) + len(event.removed or ())
        case PendingAdding():
            return len(event.upserts)
        case PendingEnding():
            return event.ending


_SHAPE: Shape[OffsetCommand] = Shape(_store, _written, _fail, size=_size)
