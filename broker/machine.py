"""Durable state as decide and apply: the interface, and what a decision is.

The problem: a coordinator answers out of memory, and what it answered must survive a
crash. Where deciding, storing and scheduling meet in one place, nothing of it can be
tested alone. The idea, of Kafka's ``CoordinatorShard`` and ``CoordinatorResult``: a
machine *decides* what a command means without changing anything, and says so as events,
replies and timers; ``apply`` is the only way its state changes, so that replaying the
events gives the same state. ``runtime/coordination/machines.py`` does the rest: it
applies the events, journals the durable ones, and only then lets the replies leave.

The price: logic may not simply assign to its state, it must have a name for each
change; and a machine that wants to see its own changes while it decides works on a
draft (``broker/groups/draft.py``).
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

Ticket = Hashable
"""Names who asked: a future in the broker, a name in a test."""


class Event(Protocol):
    """Something that happened to a machine's state."""

    durable: ClassVar[bool]
    """Whether it must be on disk before the replies of its decision leave."""


EventT = TypeVar("EventT", bound=Event)
EventIn = TypeVar("EventIn", bound=Event, contravariant=True)
CommandIn = TypeVar("CommandIn", contravariant=True)
CommandT = TypeVar("CommandT")
ReplyT = TypeVar("ReplyT")


@dataclass(frozen=True, slots=True)
class Decision(Generic[EventT, ReplyT]):
    """What a command means, in the order in which it is to be carried out.

    ``replies`` names who is answered what; a ticket that is not named waits on.
    ``timers`` maps a key to its delay in ms from now, or to None to cancel it.
    """

    events: tuple[EventT, ...] = ()
    replies: tuple[tuple[Ticket, ReplyT], ...] = ()
    timers: Mapping[Any, int | None] = field(default_factory=dict)


class Machine(Protocol[CommandIn, EventT, ReplyT]):
    """State that changes by events only. Pure: no clock, file, thread or chance."""

    def decide(self, command: CommandIn, now_ms: int) -> Decision[EventT, ReplyT]:
        """Return what a command means at this time; nothing is changed."""

    def apply(self, event: EventT) -> None:
        """Change the state by one event; also the replay."""
