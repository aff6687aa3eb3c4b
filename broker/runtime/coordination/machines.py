"""A machine among futures, timers and the journal: what makes a decision real.

The machine decides (``broker/machine.py``); this carries it out, in this order: events
are applied, so that the next command sees them; timers are set; the durable events are
journaled; the replies leave. A decision without durable events is answered at once: a
heartbeat never waits for the disk. One with them is answered when they are on disk, and
the machine is told by a command, for requests that it has parked itself. If they could
not be written, nobody hears an answer that rests on them: a refusal takes its place,
and the machine decides what becomes of its state.

A decision is one piece, but carrying out that of a group of a thousand would hold the
loop: only ``PART`` timers are set and ``PART`` replies sent in one turn, the rest in
the turns that follow. A timer that runs out and is to be set anew does not count; what
was decided later is carried out later.

Tickets are futures. Commands of one machine are decided in the order in which they
come; nothing here waits.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection

from broker.clock import Clock
from broker.machine import Decision, Machine, Ticket
from broker.runtime.coordination.journal import Journal
from broker.timing.delayed import TimerHandle, Timers

CommandT = TypeVar("CommandT")

PART = 200
"""Timers that are set, and replies that are sent, in one turn of the loop."""

SIZE_OF_ONE = 100
"""So many items are changed in a tenth of a millisecond."""


@dataclass(frozen=True, slots=True)
class Shape(Generic[CommandT]):
    """What the runtime must know about a kind of machine.

    ``store`` writes a durable event (on the catalog's thread); ``written`` is the
    command that says how that went, ``expired`` the one for a timer that ran out;
    ``fail`` answers a ticket whose reply could not be made to last; ``size`` is of a
    durable event: how many items have to be changed when it is written.
    """

    store: Callable[[Connection, Any], None]
    written: Callable[[Any, BaseException | None], CommandT]
    fail: Callable[[Any, BaseException], None]
    expired: Callable[[Any], CommandT] | None = None
    size: Callable[[Any], int] = lambda _: 1


class Hosted(Generic[CommandT]):
    """One machine, and those of its timers that run. For the event loop's thread."""

    def __init__(
        self,
        machine: Machine[CommandT, Any, Any],
        shape: Shape[CommandT],
        journal: Journal,
        timers: Timers,
        clock: Clock,
        on_timer: Callable[[], None] = lambda: None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """``on_timer`` is called after what a timer meant was carried out,
        ``on_change`` after each command's events were applied."""
        self._machine = machine
        self._shape = shape
        self._journal = journal
        self._timers = timers
        self._clock = clock
        self._on_timer = on_timer
        self._on_change = on_change
        self._running: dict[Hashable, TimerHandle] = {}
        self._unset: dict[Hashable, int | None] = {}
        self._unsent: deque[tuple[Ticket, Any]] = deque()
        self._called = False
        self._closed = False

    def ask(self, command: CommandT) -> None:
        """Carry out what a command means; tickets are resolved in time."""
        decision = self._carry_out(command)
        durable = [event for event in decision.events if event.durable]
        if durable:
            store, done = partial(self._store, durable), partial(self._done, decision)
            size = sum(self._shape.size(event) for event in durable)
            self._journal.write(store, partial(done, durable), 1 + size // SIZE_OF_ONE)
        else:
            self._answer(decision.replies)

    def ask_now(self, command: CommandT) -> Any:
        """Carry out a command that is answered at once; its one reply."""
        decision = self._carry_out(command)
        assert not any(event.durable for event in decision.events)
        ((_, reply),) = decision.replies
        return reply

    def close(self) -> None:
        """Let no timer run out, and decide no more; what is on its way is answered."""
        self._closed = True
        for timer in self._running.values():
            timer.cancel()
        self._running.clear()
        self._unset.clear()
        self._answer(())

    def _carry_out(self, command: CommandT) -> Decision[Any, Any]:
        decision = self._machine.decide(command, self._clock.now_ms())
        for event in decision.events:
            self._machine.apply(event)
        if self._unset or len(decision.timers) > PART:
            self._unset.update(decision.timers)
            self._set_some()
        else:
            for key, delay_ms in decision.timers.items():
                self._set(key, delay_ms)
        if decision.events:
            self._on_change()
        return decision

    def _set_some(self) -> None:
        for key in tuple(islice(self._unset, PART)):
            self._set(key, self._unset.pop(key))
        self._go_on_later()

    def _answer(self, replies: Sequence[tuple[Ticket, Any]]) -> None:
        """Send replies after all that wait to be sent; all at once after the end."""
        self._unsent.extend(replies)
        for _ in range(len(self._unsent) if self._closed else PART):
            if not self._unsent:
                return
            resolve(*self._unsent.popleft())
        self._go_on_later()

    def _go_on_later(self) -> None:
        if (self._unset or self._unsent) and not self._called:
            self._called = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._called = False
        self._set_some()
        self._answer(())

    def _set(self, key: Hashable, delay_ms: int | None) -> None:
        running = self._running.get(key)
        if running is not None:
            if delay_ms is not None and running.put_off(delay_ms):
                return
            running.cancel()
            del self._running[key]
        if delay_ms is not None:
            self._running[key] = self._timers.after(delay_ms, partial(self._fire, key))

    def _fire(self, key: Hashable) -> None:
        assert self._shape.expired is not None
        del self._running[key]
        if key in self._unset:
            return  # it was to be set anew, or cancelled
        self.ask(self._shape.expired(key))
        self._on_timer()

    def _store(self, events: Sequence[Any], connection: Connection) -> None:
        """Runs on the catalog's thread."""
        for event in events:
            self._shape.store(connection, event)

    def _done(
        self,
        decision: Decision[Any, Any],
        durable: Sequence[Any],
        error: BaseException | None,
    ) -> None:
        if not self._closed:  # what becomes visible is so before it is answered
            for event in durable:
                self.ask(self._shape.written(event, error))
        if error is None:
            self._answer(decision.replies)
        else:
            for ticket, _ in decision.replies:
                self._shape.fail(ticket, error)


def resolve(ticket: Any, reply: Any) -> None:
    """Resolve one, unless a connection that closed has cancelled it."""
    if ticket is None:
        return
    assert isinstance(ticket, asyncio.Future)
    if not ticket.done():
        ticket.set_result(reply)
