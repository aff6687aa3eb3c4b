"""Changes of groups' offsets, in their order where one of them takes several turns.

The problem: a change of 100,000 offsets is made in parts, each when the one before is
durable. What is asked for the group meanwhile must come after it: else the older of two
would come last. The idea: from its first part to its last, such changes wait in a queue
of the group. What needs one part only is handed on when its turn has come, and nobody
waits until it is durable: the journal keeps the order. So a queue is empty soon, and a
group whose queue is empty has none.

What waits is in memory as long as the catalog hangs, so it is weighed, and refused
where there is no room: but for the first of all groups, since a change of what is
there already must be possible in a full coordinator, too.

The price: who waits behind a large change in a full coordinator has to ask again.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from broker.groups.offset_bytes import OFFSET_BYTES
from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.coordination.machines import resolve

Make = Callable[[], "asyncio.Future[Any]"]

CHANGE_BYTES: Final = 512
"""What a change takes while it waits, beside its offsets."""

HANDED_A_TURN: Final = 25
BYTES_OF_ONE: Final = 100 * OFFSET_BYTES
"""So many changes are handed on in a turn of the loop, some 50 microseconds each; one
of more offsets counts as several."""


class Part(NamedTuple):
    """How a part of a change is made, and what it takes before it is."""

    make: Make
    held_bytes: int


@dataclass(eq=False, slots=True)
class _Change:
    """A change that waits or is being made; ``held_bytes``: what is left of it."""

    parts: Iterator[Part]
    held_bytes: int
    in_parts: bool
    ticket: "asyncio.Future[Any]"


@dataclass(eq=False, slots=True)
class _Queue:
    """The changes of a group; the first is being made."""

    changes: deque[_Change] = field(default_factory=deque)
    is_dropped: bool = False
    run: "asyncio.Future[None]" = field(init=False)


class ChangeOrder:
    """The changes of all groups that wait. For the event loop's thread only."""

    def __init__(self, has_room: Callable[[int], bool]) -> None:
        """``has_room``: whether so many bytes more may be held."""
        self.held_bytes = 0
        """About what they take that wait."""
        self._has_room = has_room
        self._queues: dict[str, _Queue] = {}

    def has_queue(self, group_id: str) -> bool:
        """Whether changes of this group wait, or one is made in parts."""
        return group_id in self._queues

    def in_order(
        self,
        group_id: str,
        make: Make,
        weigh: Callable[[], int] = lambda: 0,
    ) -> "asyncio.Future[Any]":
        """Make a change after those of the group that wait, now if there are none.

        ``weigh``: what its offsets take. Raises (from the future) as ``no_room``, if it
        must wait and there is none for it.
        """
        if group_id not in self._queues:
            return make()
        held_bytes = CHANGE_BYTES + weigh()
        one = iter((Part(make, held_bytes),))
        return self._put(group_id, one, held_bytes, in_parts=False)

    def in_parts(
        self,
        group_id: str,
        parts: Iterable[Part],
        held_bytes: int,
        *,
        is_owed: bool = False,
    ) -> "asyncio.Future[Any]":
        """Make a change part by part, each when the one before is durable, after those
        of the group that wait; the first part that fails is the last.

        ``held_bytes``: what all of its offsets take. Raises as ``in_order``, but never
        ``no_room`` for one that is owed.
        """
        held_bytes += CHANGE_BYTES
        return self._put(group_id, iter(parts), held_bytes, is_owed=is_owed)

    def drop(self, group_id: str, instead: "asyncio.Future[Any]") -> None:
        """Make nothing more of what waits in a group: ``instead`` undoes all of it, and
        what comes of that is what came of it."""
        queue = self._queues.pop(group_id, None)
        if queue is None:
            return
        queue.is_dropped = True
        for change in queue.changes:
            self._release(change, change.held_bytes)
            instead.add_done_callback(partial(_pass_on, change.ticket))

    async def flush(self) -> None:
        """Wait until every change so far is handed on."""
        while self._queues:
            await asyncio.wait([queue.run for queue in self._queues.values()])

    def _put(
        self,
        group_id: str,
        parts: Iterator[Part],
        held_bytes: int,
        *,
        in_parts: bool = True,
        is_owed: bool = False,
    ) -> "asyncio.Future[Any]":
        if self.held_bytes and not is_owed and not self._has_room(held_bytes):
            return no_room()
        self.held_bytes += held_bytes
        ticket = asyncio.get_running_loop().create_future()
        if group_id not in self._queues:
            queue = self._queues[group_id] = _Queue()
            queue.run = asyncio.ensure_future(self._run(group_id, queue))
        change = _Change(parts, held_bytes, in_parts, ticket)
        self._queues[group_id].changes.append(change)
        return ticket

    async def _run(self, group_id: str, queue: _Queue) -> None:
        handed = 0
        while queue.changes and not queue.is_dropped:
            change = queue.changes[0]
            handed += 1 + change.held_bytes // BYTES_OF_ONE
            if change.in_parts:
                await self._make_parts(queue, change)
            else:
                self._hand_on(change)
            self._release(change, change.held_bytes)
            queue.changes.popleft()
            if handed >= HANDED_A_TURN:
                handed = 0
                await asyncio.sleep(0)
        if not queue.is_dropped:
            del self._queues[group_id]

    async def _make_parts(self, queue: _Queue, change: _Change) -> None:
        try:
            for part in change.parts:
                self._release(change, part.held_bytes)
                await part.make()
                if queue.is_dropped:
                    return
        except Exception as error:  # noqa: BLE001 - raised where it was asked
            if not queue.is_dropped:
                _fail(change.ticket, error)
        else:
            resolve(change.ticket, None)

    def _hand_on(self, change: _Change) -> None:
        (part,) = change.parts
        self._release(change, part.held_bytes)
        part.make().add_done_callback(partial(_pass_on, change.ticket))

    def _release(self, change: _Change, held_bytes: int) -> None:
        change.held_bytes -= held_bytes
        self.held_bytes -= held_bytes


def no_room() -> "asyncio.Future[Any]":
    """What becomes of offsets that there is no room for."""
    refused = asyncio.get_running_loop().create_future()
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    refused.set_exception(KafkaError(code, "No room for more offsets."))
    return refused


def _pass_on(ticket: "asyncio.Future[Any]", made: "asyncio.Future[Any]") -> None:
    error = made.exception()
    if error is None:
        resolve(ticket, None)
    else:
        _fail(ticket, error)


def _fail(ticket: "asyncio.Future[Any]", error: BaseException) -> None:
    if not ticket.done():
        ticket.set_exception(error)
