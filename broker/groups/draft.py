"""A decision in the making: what happened so far, and the group as it is by then.

A command sets off a chain (a member leaves, so the others are complete, so a generation
begins), and each link must see what the one before did, while the group itself must not
change until the decision is carried out. So a decision is made on a draft: each event
is applied to a copy as it is recorded, by the same ``change`` that changes the group
later. The copy is made with the first event, so a heartbeat makes none; the price is
that a join copies the dicts of its group, some microseconds with four hundred members.
"""

from collections.abc import Iterable
from typing import Any

from broker.groups.commands import (
    Joined,
    MemberSummary,
    Refused,
    Reply,
    Synced,
    TimerKey,
    TimerKind,
)
from broker.groups.events import (
    LeaderElected,
    MemberIdDropped,
    MemberPut,
    MemberRemoved,
    MembersPut,
    MemberSynced,
    StateMoved,
    WriteBegan,
)
from broker.groups.group import Group, GroupEvent, Purpose
from broker.groups.limits import GroupLimits
from broker.groups.members import Member
from broker.groups.states import GroupState
from broker.machine import Decision, Ticket
from broker.protocol.errors import ErrorCode

JOIN_TIMER = TimerKey(TimerKind.JOIN)
SYNC_TIMER = TimerKey(TimerKind.SYNC)


class Draft:
    """``group`` is the group as it will be; what else is wished for, beside it."""

    def __init__(self, group: Group, limits: GroupLimits, now_ms: int) -> None:
        self.group = group
        self.limits = limits
        self.now_ms = now_ms
        self._events: list[GroupEvent] = []
        self._replies: list[tuple[Ticket, Reply]] = []
        self._timers: dict[TimerKey, int | None] = {}

    def decision(self) -> Decision[GroupEvent, Reply]:
        """The decision: what was recorded, replied and scheduled."""
        return Decision(tuple(self._events), tuple(self._replies), self._timers)

    def record(self, event: GroupEvent) -> None:
        """Apply an event to the draft, and add it to the decision."""
        if not self._events:
            self.group = self.group.copy()
        self._events.append(event)
        self.group.apply(event)

    def reply(self, ticket: Ticket, reply: Reply, *, first: bool = False) -> None:
        """Answer a ticket; ``first`` before all who were answered so far."""
        self._replies.insert(0 if first else len(self._replies), (ticket, reply))

    def schedule(self, key: TimerKey, delay_ms: int) -> None:
        """Start a timer, or start it anew."""
        self._timers[key] = delay_ms

    def cancel(self, key: TimerKey) -> None:
        """Cancel a timer; nothing happens if it does not run."""
        self._timers[key] = None

    def expect_heartbeat(self, member: Member) -> None:
        """Start the member's session anew."""
        key = TimerKey(TimerKind.MEMBER, member.member_id)
        self.schedule(key, member.session_timeout_ms)

    def write(self, purpose: Purpose | None = None) -> None:
        """Ask for the group to be durable as it is; ``purpose`` goes on then."""
        serial = self.group.writes + 1
        self.record(WriteBegan(serial, self.group.snapshot(), purpose))

    # -- changes that several commands make -----------------------------------

    def move(self, state: GroupState) -> None:
        """Move the group to another state."""
        self.record(StateMoved(state, self.now_ms))

    def put(self, member: Member, **changed: Any) -> Member:
        """Add a member, or replace the one of its id."""
        after = member._replace(**changed) if changed else member
        self.record(MemberPut(after))
        return after

    def put_all(self, members: Iterable[Member]) -> None:
        """Add or replace several members; there may be none."""
        after = tuple(members)
        if after:
            self.record(MembersPut(after))

    def remove(self, member: Member, code: ErrorCode, member_id: str = "") -> None:
        """Forget a member; what it has parked is refused with ``code`` and this id."""
        for ticket in (member.join_ticket, member.sync_ticket):
            if ticket is not None:
                self.reply(ticket, Refused(code, member_id))
        self.record(MemberRemoved(member.member_id))
        self.synced(member.member_id)
        self.cancel(TimerKey(TimerKind.MEMBER, member.member_id))
        if self.group.leader_id == member.member_id:
            self.record(LeaderElected(self.group.roster.first_id()))

    def drop_id(self, member_id: str) -> bool:
        """Forget an id that was given and not used; whether there was one."""
        if member_id not in self.group.roster.pending:
            return False
        self.record(MemberIdDropped(member_id))
        self.cancel(TimerKey(TimerKind.MEMBER, member_id))
        return True

    def synced(self, member_id: str) -> None:
        """Wait for this member's sync no longer."""
        if member_id in self.group.unsynced:
            self.record(MemberSynced(member_id))
        if not self.group.unsynced:
            self.cancel(SYNC_TIMER)

    # -- answers that several commands give -----------------------------------

    def joined(self, member: Member, *, with_members: bool) -> Joined:
        """The current generation, as one member is told of it."""
        group = self.group
        return Joined(
            member.member_id,
            group.generation,
            group.protocol_type,
            group.protocol_name,
            group.leader_id,
            self._summaries() if with_members else (),
        )

    def _summaries(self) -> tuple[MemberSummary, ...]:
        name = self.group.protocol_name
        return tuple(
            MemberSummary(m.member_id, m.instance_id, m.metadata(name))
            for m in self.group.roster
        )

    def answer_syncs(self, refused: Refused | None = None) -> None:
        """Give members whose sync is parked their assignments, or refuse them."""
        waiting = [m for m in self.group.roster if m.sync_ticket is not None]
        self.put_all(member._replace(sync_ticket=None) for member in waiting)
        for member in waiting:
            self.reply(member.sync_ticket, refused or self.assignment(member))

    def assignment(self, member: Member) -> Synced:
        """The assignment of one member."""
        group = self.group
        return Synced(group.protocol_type, group.protocol_name, member.assignment)
