"""What a group is asked, and what it answers.

The machine is pure: it never waits. A command carries a *ticket*, an opaque value of
the caller's; an answer names the ticket it is for. So a parked join is a ticket that
has not been answered yet, and a timer is named by its key. The shell keeps futures and
timers; tests keep names and a list.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from broker.machine import Ticket
from broker.protocol.errors import ErrorCode

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


class Leaver(NamedTuple):
    """Who is to leave: by member id, or, for a static member, by instance id alone."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Leave:
    """Members go, all of them before the one rebalance that follows."""

    leavers: tuple[Leaver, ...]
    ticket: Ticket = None


@dataclass(frozen=True, slots=True)
class AdmitCommit:
    """Whether this member may commit offsets now; a commit is a sign of life, but not
    one ``in_transaction``: of that its producer tells, which may be another process."""

    member_id: str
    instance_id: str | None
    generation: int
    in_transaction: bool = False
    ticket: Ticket = None


@dataclass(frozen=True, slots=True)
class Expire:
    """A timer ran out."""

    key: "TimerKey"


@dataclass(frozen=True, slots=True)
class Delete:
    """The group is deleted; only an empty one may be."""


@dataclass(frozen=True, slots=True)
class Resume:
    """The group was read from the catalog: its members' sessions begin."""


@dataclass(frozen=True, slots=True)
class Written:
    """The snapshot of this serial is durable, or could not be written (``code``)."""

    serial: int
    code: ErrorCode = ErrorCode.NONE


class MemberSummary(NamedTuple):
    """What the leader is told about a member."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class Joined(NamedTuple):
    """The join phase is over; ``members`` is filled for the leader only."""

    member_id: str
    generation: int
    protocol_type: str
    protocol_name: str
    leader_id: str
    members: tuple[MemberSummary, ...] = ()
    skip_assignment: bool = False


class Synced(NamedTuple):
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


@dataclass(frozen=True, slots=True)
class Left:
    """A code for each who was to leave."""

    codes: tuple[ErrorCode, ...]


Reply = Joined | Synced | Alive | Left | Refused


class TimerKind(StrEnum):
    """The three things that a group waits for."""

    JOIN = "join"  # everybody to rejoin, or the initial delay
    SYNC = "sync"  # everybody to sync after a join phase
    MEMBER = "member"  # a sign of life of one member, pending ones included


class TimerKey(NamedTuple):
    """Names one timer of one group; starting it again replaces it."""

    kind: TimerKind
    member_id: str = ""


Command = (
    Join | Sync | Heartbeat | Leave | AdmitCommit | Expire | Delete | Resume | Written
)
