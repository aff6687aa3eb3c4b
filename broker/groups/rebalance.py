"""A rebalance, phase by phase: prepare, collect joins, collect syncs.

The problem: members come, go and vanish at any time, and all of them must end up in the
same generation with the same assignor, waiting no longer than needed and never for
ever. The idea, Kafka's: a rebalance has two phases. In the first, joins are parked
until everybody rejoined or the most patient member's timeout passed (who has not
rejoined is out). In the second, syncs are parked until the leader's brings the
assignments. A group that was empty waits for the initial delay instead, and again while
members arrive.

This class is those phases and the bookkeeping they share; which command does what is in
``joining.py`` and ``classic.py``. It changes only itself and collects its wishes in
``effects``. Sources: ``GroupMetadataManager.prepareRebalance``,
``completeClassicGroupJoin``, ``expirePendingSync``, ``ClassicGroup``.

A generation counts once it is durable: the leader's sync asks for the group to be
stored, and all syncs stay parked until that is done (``storeGroup`` in older Kafkas).
The price is one write of the catalog per rebalance, and that groups cannot rebalance
while nothing can be written.
"""

from collections.abc import Callable, Mapping

from broker.groups.commands import (
    Effects,
    Joined,
    MemberSummary,
    Refused,
    Reply,
    Store,
    Synced,
    Ticket,
    TimerKey,
    TimerKind,
)
from broker.groups.limits import GroupLimits
from broker.groups.members import Member, Roster
from broker.groups.snapshot import GroupSnapshot, MemberSnapshot
from broker.groups.states import GroupState, may_move
from broker.groups.subscription import CONSUMER, subscribed_topics
from broker.protocol.errors import ErrorCode

_JOIN = TimerKey(TimerKind.JOIN)
_SYNC = TimerKey(TimerKind.SYNC)


class Rebalance:
    """The state of one group, and the phases of its rebalances."""

    def __init__(self, group_id: str, limits: GroupLimits, now_ms: int) -> None:
        self.group_id = group_id
        self.limits = limits
        self.now_ms = now_ms
        self.state = GroupState.EMPTY
        self.state_before = GroupState.EMPTY
        self.empty_since_ms: int | None = now_ms
        self.generation = 0
        self.leader_id = ""
        self.protocol_type = ""
        self.protocol_name = ""
        self.roster = Roster()
        # Who was told of this generation and has not synced: gone if it never does.
        self.unsynced: set[str] = set()
        self.effects = Effects()
        # What goes on when a store that was asked for is done, by its serial.
        self._when_stored: dict[int, Callable[[ErrorCode], None]] = {}
        self._stores = 0
        # While an empty group fills: what is left of the initial wait, and whether
        # somebody arrived since the delay was last extended.
        self._initial_remaining_ms = 0
        self._arrived = False

    # -- wishes ---------------------------------------------------------------

    def reply(self, ticket: Ticket, reply: Reply) -> None:
        self.effects.replies.append((ticket, reply))

    def wake(self, key: TimerKey, delay_ms: int | None) -> None:
        """Wish for a timer; None cancels it."""
        self.effects.timers[key] = delay_ms

    def expect_heartbeat(self, member: Member) -> None:
        """Start the member's session anew."""
        key = TimerKey(TimerKind.MEMBER, member.member_id)
        self.wake(key, member.session_timeout_ms)

    def store(self, then: Callable[[ErrorCode], None] | None = None) -> None:
        """Wish for the group to be made durable; ``then`` hears how that went.

        A rebalance that begins before forgets ``then``: its generation is over.
        """
        assert self.effects.store is None, "once in a step"
        self._stores += 1
        if then is not None:
            self._when_stored[self._stores] = then
        self.effects.store = Store(self._stores, self.snapshot())

    def snapshot(self) -> GroupSnapshot:
        """What is to outlive the broker, of a group whose assignments are known."""
        members = (
            MemberSnapshot(
                m.member_id,
                m.instance_id,
                m.client_id,
                m.client_host,
                m.session_timeout_ms,
                m.rebalance_timeout_ms,
                m.protocols,
                m.assignment,
            )
            for m in self.roster
        )
        return GroupSnapshot(
            self.protocol_type,
            self.generation,
            self.protocol_name,
            self.leader_id,
            self.empty_since_ms,
            tuple(members),
        )

    def come_back(self, snapshot: GroupSnapshot) -> None:
        """Be what was stored; sessions start anew (``GroupMetadataManager.onLoaded``).

        With more members than are allowed by now, they must join again.
        """
        assert self.state is GroupState.EMPTY
        assert not self._stores, "it has a life already"
        self.protocol_type, self.generation = snapshot[:2]
        self.protocol_name, self.leader_id = snapshot[2:4]
        self.empty_since_ms = snapshot.empty_since_ms
        for stored in snapshot.members:
            member = Member(*stored, is_new=False)
            self.roster.add(member)
            self.expect_heartbeat(member)
        if snapshot.members:
            self.state = GroupState.STABLE  # the one state that is not moved into
        if len(self.roster) > self.limits.members_max:
            self.prepare()

    # -- members --------------------------------------------------------------

    def move(self, state: GroupState) -> None:
        """The setter of ``state``."""
        assert may_move(self.state, state), f"{self.state} -> {state}"
        self.state_before, self.state = self.state, state
        self.empty_since_ms = self.now_ms if state is GroupState.EMPTY else None

    def add(self, member: Member, protocol_type: str) -> None:
        """Take in a member whose first join is parked; the first one leads."""
        if not self.roster:
            self.protocol_type = protocol_type
            self.leader_id = member.member_id
        self.roster.add(member)
        if self._filling():
            self._arrived = True
        key = TimerKey(TimerKind.MEMBER, member.member_id)
        self.wake(key, self.limits.new_member_join_timeout_ms)

    def remove(self, member: Member, code: ErrorCode) -> None:
        """Forget a member; what it has parked is refused with ``code``."""
        for ticket in (member.join_ticket, member.sync_ticket):
            if ticket is not None:
                self.reply(ticket, Refused(code))
        self.roster.remove(member)
        self._synced(member.member_id)
        self.wake(TimerKey(TimerKind.MEMBER, member.member_id), None)
        if self.leader_id == member.member_id:
            self.leader_id = next((m.member_id for m in self.roster), "")

    def replace(self, member: Member, new_member_id: str) -> Member:
        """A static member came back under a new id: the old id is fenced (KIP-345)."""
        led = self.leader_id == member.member_id
        self.remove(member, ErrorCode.FENCED_INSTANCE_ID)
        successor = Member(
            new_member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.session_timeout_ms,
            member.rebalance_timeout_ms,
            member.protocols,
            member.assignment,
            is_new=False,
        )
        self.roster.add(successor)
        if led:
            self.leader_id = new_member_id
        return successor

    def after_departure(self) -> None:
        """Somebody left: rebalance, or see whether the rest is complete now."""
        if self.state is GroupState.PREPARING_REBALANCE:
            self._complete_join_if_all_joined()
        elif self.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.prepare()

    # -- first phase: joins ---------------------------------------------------

    def rebalance(self) -> None:
        """Start a rebalance, or go on with the one that is under way."""
        if self.state is GroupState.PREPARING_REBALANCE:
            self._complete_join_if_all_joined()
        else:
            self.prepare()

    def prepare(self) -> None:
        """Ask everybody to join again; an empty group waits for company first."""
        for member in self.roster:
            if member.sync_ticket is not None:
                self._answer_sync(member, Refused(ErrorCode.REBALANCE_IN_PROGRESS))
                self.expect_heartbeat(member)
            if self.state is GroupState.COMPLETING_REBALANCE:
                member.assignment = b""
        # A static member whose place was being stored has a join parked: it counts.
        self._when_stored.clear()
        self.unsynced.clear()
        self.wake(_SYNC, None)
        self.move(GroupState.PREPARING_REBALANCE)
        if self._filling():
            self._wait_for_company()
        else:
            self._complete_join_if_all_joined()
            if self.state is GroupState.PREPARING_REBALANCE:
                self.wake(_JOIN, self.roster.rebalance_timeout_ms())

    def _filling(self) -> bool:
        """Whether this is the first rebalance of a group that was empty."""
        return (
            self.state is GroupState.PREPARING_REBALANCE
            and self.state_before is GroupState.EMPTY
        )

    def _wait_for_company(self) -> None:
        delay_ms = self.limits.initial_rebalance_delay_ms
        patience_ms = self.roster.rebalance_timeout_ms()
        self._arrived = False
        self._initial_remaining_ms = max(patience_ms - delay_ms, 0)
        if delay_ms > 0:
            self.wake(_JOIN, delay_ms)
        else:
            self._complete_join()

    def join_timer_fired(self) -> None:
        """The wait is over, unless the group is filling and somebody just arrived."""
        if self.state is not GroupState.PREPARING_REBALANCE:
            return
        if self._filling() and self._arrived and self._initial_remaining_ms:
            delay_ms = self.limits.initial_rebalance_delay_ms
            delay_ms = min(delay_ms, self._initial_remaining_ms)
            self._arrived = False
            self._initial_remaining_ms -= delay_ms
            self.wake(_JOIN, delay_ms)
        else:
            self._complete_join()

    def _complete_join_if_all_joined(self) -> None:
        if not self._filling() and self.roster.all_joined():
            self._complete_join()

    def _complete_join(self) -> None:
        """End the first phase: a new generation of those who are there."""
        self.wake(_JOIN, None)
        for member in self.roster:
            if member.join_ticket is None and member.instance_id is None:
                self.remove(member, ErrorCode.UNKNOWN_MEMBER_ID)
        if not self.roster:
            self._become_empty()
        elif self._elect():
            self._begin_generation()
        else:
            # Only static members, all silent: their sessions will end the wait.
            self.wake(_JOIN, self.roster.rebalance_timeout_ms())

    def _become_empty(self) -> None:
        self.generation += 1
        self.protocol_name = ""
        self.move(GroupState.EMPTY)
        self.store()

    def _elect(self) -> bool:
        """The leader must be one that joined; False if nobody did."""
        leader = self.roster.get(self.leader_id)
        if leader is None or leader.join_ticket is None:
            joined = (m.member_id for m in self.roster if m.join_ticket is not None)
            elected = next(joined, None)
            if elected is None:
                return False
            self.leader_id = elected
        return True

    def _begin_generation(self) -> None:
        self.generation += 1
        self.protocol_name = self.roster.vote()
        self.move(GroupState.COMPLETING_REBALANCE)
        for member in self.roster:
            member.is_new = False
            self.unsynced.add(member.member_id)
            self.expect_heartbeat(member)
            self.answer_join(member)
        self.wake(_SYNC, self.roster.rebalance_timeout_ms())

    def answer_join(self, member: Member) -> None:
        """Tell a member whose join is parked of the current generation."""
        ticket = self.roster.park_join(member, None)
        if ticket is not None:
            leads = member.member_id == self.leader_id
            self.reply(ticket, self.joined(member, with_members=leads))

    def joined(self, member: Member, *, with_members: bool) -> Joined:
        """The current generation, as one member is told of it."""
        return Joined(
            member.member_id,
            self.generation,
            self.protocol_type,
            self.protocol_name,
            self.leader_id,
            self._summaries() if with_members else (),
        )

    def _summaries(self) -> tuple[MemberSummary, ...]:
        name = self.protocol_name
        return tuple(
            MemberSummary(m.member_id, m.instance_id, m.metadata(name))
            for m in self.roster
        )

    # -- second phase: syncs --------------------------------------------------

    def hand_out(self, assignments: Mapping[str, bytes]) -> None:
        """The leader decided: everybody gets its part, or nothing, once it is durable.

        Of a leader that asks again meanwhile, only the last word counts.
        """
        self._when_stored.clear()
        for member in self.roster:
            member.assignment = assignments.get(member.member_id, b"")
        self.store(self._handed_out)

    def _handed_out(self, code: ErrorCode) -> None:
        """The assignments are durable, and we are stable; or all that was for nothing.

        Sessions start anew for all: one that ran out while its sync was parked was
        let pass, and nobody would watch that member again (``propagateAssignment``).
        """
        durable = code is ErrorCode.NONE
        if durable:
            self.move(GroupState.STABLE)
        for member in self.roster:
            if member.sync_ticket is not None and durable:
                self.answer_sync(member)
            elif member.sync_ticket is not None:
                self._answer_sync(member, Refused(code))
            self.expect_heartbeat(member)
        if not durable:
            self.prepare()

    def park_sync(self, member: Member, ticket: Ticket) -> None:
        """Keep a sync until the leader's comes; an older one of it is sent back."""
        if member.sync_ticket is not None:
            self._answer_sync(member, Refused(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_ticket = ticket
        self._synced(member.member_id)

    def answer_sync(self, member: Member) -> None:
        """Give a member whose sync is parked its assignment."""
        name = self.protocol_name
        self._answer_sync(member, Synced(self.protocol_type, name, member.assignment))

    def _answer_sync(self, member: Member, reply: Reply) -> None:
        assert member.sync_ticket is not None
        self.reply(member.sync_ticket, reply)
        member.sync_ticket = None

    def _synced(self, member_id: str) -> None:
        self.unsynced.discard(member_id)
        if not self.unsynced:
            self.wake(_SYNC, None)

    def sync_timer_fired(self) -> None:
        """Who joined and never synced is out, the leader included; and again."""
        if self.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            late = [m for m in self.roster if m.member_id in self.unsynced]
            for member in late:
                self.remove(member, ErrorCode.UNKNOWN_MEMBER_ID)
            if late:
                self.prepare()

    # -- what it reads --------------------------------------------------------

    def subscribed(self) -> frozenset[str] | None:
        """Topics that some consumer reads; None when that cannot be known."""
        if self.protocol_type != CONSUMER or not self.protocol_name:
            return None
        topics: set[str] = set()
        for member in self.roster:
            found = subscribed_topics(member.metadata(self.protocol_name))
            if found is None:
                return None
            topics |= found
        return frozenset(topics)
