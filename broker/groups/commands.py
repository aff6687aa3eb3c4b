"""What a group is asked, what it answers, and what it wishes of the world.

The machine is pure: it never waits. A command carries a *ticket*, an opaque value of
the caller's; an answer names the ticket it is for. So a parked join is a ticket that
has not been answered yet, and a timer is a wish ("call me with this key in so many
ms"). The shell keeps futures and timers; tests keep names and a list.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from broker.groups.snapshot import GroupSnapshot
from broker.protocol.errors import ErrorCode

Ticket = Hashable
Protocols = tuple[tuple[str, bytes], ...]  # (assignor, metadata), most wanted first


@dataclass(frozen=True, slots=True)
class Join:
    """A member wants in, or wants in again.

    ``new_member_id`` is the id to be given if ``member_id`` is empty: chance is an
    argument. ``requires_member_id`` is KIP-394 (JoinGroup v4), ``can_skip_assignment``
    KIP-814 (v9).
    """

    member_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    new_member_id: str = ""
    ticket: Ticket = None
    requires_member_id: bool = False
    can_skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class Sync:
    """A member asks for its assignment; the leader's carries everybody's.

    ``protocol_type`` and ``protocol_name`` are None where the version has no such
    field (before SyncGroup v5).
    """

    member_id: str
    generation: int
    assignments: tuple[tuple[str, bytes], ...] = ()
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    ticket: Ticket = None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A member says that it lives and believes in ``generation``."""

    member_id: str
    generation: int
    instance_id: str | None = None
    ticket: Ticket = None


class MemberSummary(NamedTuple):
    """What the leader is told about a member."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Joined:
    """The join phase is over; ``members`` is filled for the leader only."""

    member_id: str
    generation: int
    protocol_type: str
    protocol_name: str
    leader_id: str
    members: tuple[MemberSummary, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class Synced:
    """A member's assignment: opaque bytes of the leader's, empty if it gave none."""

    protocol_type: str
    protocol_name: str
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Alive:
    """A heartbeat was heard and the generation is right."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A Kafka error; ``member_id`` is what a JoinGroup answer carries beside it."""

    code: ErrorCode
    member_id: str = ""


Reply = Joined | Synced | Alive | Refused


class TimerKind(StrEnum):
    """The three things that a group waits for."""

    JOIN = "join"  # everybody to rejoin, or the initial delay
    SYNC = "sync"  # everybody to sync after a join phase
    MEMBER = "member"  # a sign of life of one member, pending ones included


class TimerKey(NamedTuple):
    """Names one timer of one group; starting it again replaces it."""

    kind: TimerKind
    member_id: str = ""


class Store(NamedTuple):
    """Make this durable, then say how it went: ``ClassicGroup.stored(serial, ...)``."""

    serial: int
    snapshot: GroupSnapshot


@dataclass(slots=True)
class Effects:
    """What one step of the machine asks of the shell, to be carried out in order.

    ``timers`` maps a key to its delay in ms, or to None to cancel it: only the last
    wish per key within one step counts. ``store`` is what is to be made durable.
    """

    replies: list[tuple[Ticket, Reply]] = field(default_factory=list)
    timers: dict[TimerKey, int | None] = field(default_factory=dict)
    store: Store | None = None
