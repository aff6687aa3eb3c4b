"""A classic group: the machine that decides what each group request is answered.

One object per group, pure: a command in, ``Effects`` out (answers by ticket, timers to
start or cancel). Nothing here waits, reads a clock or touches a file, so a group of
four hundred members rebalances in a test in milliseconds, and every rule of Kafka's
coordinator can be told as a dialogue. ``states.py`` has the table, ``rebalance.py`` the
phases, ``joining.py`` the longest command; this file has the others and the timers.

What must survive a restart is asked for as an effect too: ``Effects.store`` has the
snapshot, ``stored`` tells how it went, and answers that depend on it come then.
Committed offsets are durable, elsewhere (``offsets.py``).
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from broker.groups import joining
from broker.groups.commands import (
    Alive,
    Effects,
    Heartbeat,
    Join,
    Refused,
    Sync,
    Synced,
    Ticket,
    TimerKey,
    TimerKind,
)
from broker.groups.limits import GroupLimits
from broker.groups.members import Member
from broker.groups.offsets import Standing
from broker.groups.rebalance import Rebalance
from broker.groups.snapshot import GroupSnapshot
from broker.groups.states import GroupState
from broker.groups.subscription import CONSUMER
from broker.protocol.errors import ErrorCode


class Leaver(NamedTuple):
    """Who is to leave: by member id, or, for a static member, by instance id alone."""

    member_id: str
    instance_id: str | None = None


class MemberView(NamedTuple):
    """A member as an administrator sees it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupView(NamedTuple):
    """A group as an administrator sees it."""

    state: GroupState
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[MemberView, ...] = ()


class ClassicGroup(Rebalance):
    """One group. ``now_ms`` is the wall clock: it dates when a group became empty."""

    @classmethod
    def restored(
        cls, group_id: str, limits: GroupLimits, snapshot: GroupSnapshot, now_ms: int
    ) -> tuple["ClassicGroup", Effects]:
        """The group that was stored, and the timers of its members' sessions."""
        group = cls(group_id, limits, now_ms)
        group.come_back(snapshot)
        return group, group._step_done()

    def stored(self, serial: int, code: ErrorCode, now_ms: int) -> Effects:
        """What ``Effects.store`` asked for is durable, or failed with this code."""
        self.now_ms = now_ms
        then = self._when_stored.pop(serial, None)
        if then is not None:
            then(code)
        return self._step_done()

    def join(self, command: Join, now_ms: int) -> Effects:
        """Answer or park a JoinGroup."""
        self.now_ms = now_ms
        joining.join(self, command)
        return self._step_done()

    def sync(self, command: Sync, now_ms: int) -> Effects:
        """Answer or park a SyncGroup; the leader's ends the second phase."""
        self.now_ms = now_ms
        code = self._sync_refusal(command)
        member = self.roster.get(command.member_id)
        if code is not ErrorCode.NONE or member is None:
            self.reply(command.ticket, Refused(code))
        elif self.state is GroupState.STABLE:
            self._give_again(command, member)
        else:
            self.park_sync(member, command.ticket)
            if member.member_id == self.leader_id:
                self.hand_out(dict(command.assignments))
        return self._step_done()

    def _sync_refusal(self, command: Sync) -> ErrorCode:
        code = self._refusal(command.member_id, command.instance_id, command.generation)
        if code is not ErrorCode.NONE:
            return code
        asked = (command.protocol_type, command.protocol_name)
        have = (self.protocol_type, self.protocol_name)
        if any(a not in (None, h) for a, h in zip(asked, have, strict=True)):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if self.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _give_again(self, command: Sync, member: Member) -> None:
        self._synced(member.member_id)
        self.expect_heartbeat(member)
        name = self.protocol_name
        assigned = Synced(self.protocol_type, name, member.assignment)
        self.reply(command.ticket, assigned)

    def heartbeat(self, command: Heartbeat, now_ms: int) -> Effects:
        """Hear a sign of life; during a rebalance it is one too, answered with 27."""
        self.now_ms = now_ms
        code = self._refusal(command.member_id, command.instance_id, command.generation)
        member = self.roster.get(command.member_id)
        if code is ErrorCode.NONE and member is not None:
            self.expect_heartbeat(member)
            if self.state is GroupState.PREPARING_REBALANCE:
                code = ErrorCode.REBALANCE_IN_PROGRESS
        ok = code is ErrorCode.NONE
        self.reply(command.ticket, Alive() if ok else Refused(code))
        return self._step_done()

    def leave(
        self, leavers: Iterable[Leaver], now_ms: int
    ) -> tuple[list[ErrorCode], Effects]:
        """Let members go, all of them before the one rebalance that follows."""
        self.now_ms = now_ms
        members_before = len(self.roster)
        codes = [self._let_go(leaver) for leaver in leavers]
        if len(self.roster) < members_before or ErrorCode.NONE in codes:
            self._after_leaving(members_left=len(self.roster) < members_before)
        return codes, self._step_done()

    def _after_leaving(self, *, members_left: bool) -> None:
        # A pending id that goes may complete a join phase, but starts no rebalance.
        if members_left or self.state is GroupState.PREPARING_REBALANCE:
            self.after_departure()

    def _let_go(self, leaver: Leaver) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        member_id, instance_id = leaver
        if not member_id:
            # KIP-345: an administrator removes a static member by its name.
            member_id = self.roster.static_id(instance_id) or ""
        elif joining.forget_pending(self, member_id):
            return ErrorCode.NONE
        code = joining.refusal(self, member_id, instance_id)
        member = self.roster.get(member_id)
        if code is ErrorCode.NONE and member is not None:
            self.remove(member, ErrorCode.UNKNOWN_MEMBER_ID)
        return code

    def fire(self, key: TimerKey, now_ms: int) -> Effects:
        """A timer that was wished for ran out."""
        self.now_ms = now_ms
        if key.kind is TimerKind.JOIN:
            self.join_timer_fired()
        elif key.kind is TimerKind.SYNC:
            self.sync_timer_fired()
        else:
            self._session_over(key.member_id)
        return self._step_done()

    def _session_over(self, member_id: str) -> None:
        if joining.forget_pending(self, member_id):
            self._after_leaving(members_left=False)
            return
        member = self.roster.get(member_id)
        if member is None or (member.parked() and not member.is_new):
            # Whose request we hold is alive; its session starts anew with the answer.
            return
        self.remove(member, ErrorCode.UNKNOWN_MEMBER_ID)
        self.after_departure()

    def bury(self) -> Effects:
        """The group is deleted; only an empty one may be."""
        for member_id in tuple(self.roster.pending):
            joining.forget_pending(self, member_id)
        self.move(GroupState.DEAD)
        return self._step_done()

    def commit(
        self, member_id: str, instance_id: str | None, generation: int, now_ms: int
    ) -> tuple[ErrorCode, Effects]:
        """Whether this member may commit offsets now; a commit is a sign of life."""
        self.now_ms = now_ms
        code = self._commit_refusal(member_id, instance_id, generation)
        member = self.roster.get(member_id)
        if code is ErrorCode.NONE and member is not None:
            self.expect_heartbeat(member)
        return code, self._step_done()

    def _commit_refusal(
        self, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        """``ClassicGroup.validateOffsetCommit``.

        Without generation and member it is a simple commit (an assigned consumer, an
        administrator), which only an empty group takes. While the group waits for the
        leader's assignment nobody commits, or a member would undo what the new owner
        of a partition did (KAFKA-8487).
        """
        simple = not member_id and instance_id is None
        if generation < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.NONE
        if generation < 0 and simple and self.state is not GroupState.DEAD:
            return ErrorCode.UNKNOWN_MEMBER_ID
        code = self._refusal(member_id, instance_id, generation)
        if code is ErrorCode.NONE and self.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return code

    def describe(self) -> GroupView:
        """The group as DescribeGroups shows it.

        Metadata and assignments belong to a generation that everybody agreed on, so
        they are shown for a stable group only (``ClassicGroup.describe``).
        """
        stable = self.state is GroupState.STABLE
        name = self.protocol_name if stable else ""
        members = tuple(
            MemberView(
                m.member_id,
                m.instance_id,
                m.client_id,
                m.client_host,
                m.metadata(name),
                m.assignment if stable else b"",
            )
            for m in self.roster
        )
        return GroupView(self.state, self.protocol_type, name, members)

    def tells_what_it_reads(self) -> bool:
        """Whether nobody is in it, or consumers, whose subscriptions can be read."""
        empty = self.state is GroupState.EMPTY
        return empty or self.protocol_type == CONSUMER

    def reads(self, topic_name: str) -> bool:
        """Whether some member reads a topic; yes, if that is not known."""
        if not len(self.roster):
            return False
        topics = self.subscribed()
        return topics is None or topic_name in topics

    def parked(self) -> Iterator[Ticket]:
        """The tickets that have no answer yet."""
        for member in self.roster:
            for ticket in (member.join_ticket, member.sync_ticket):
                if ticket is not None:
                    yield ticket

    def abandoned(self) -> bool:
        """Whether nobody is in it or on the way."""
        return self.state is GroupState.EMPTY and not self.roster.pending

    def untouched(self) -> bool:
        """Whether nobody ever was in it, so that nothing is lost with it."""
        return self.abandoned() and not self.generation

    def standing(self) -> Standing:
        """What the retention of its offsets depends on (KIP-211)."""
        stable = self.state is GroupState.STABLE
        return Standing(self.empty_since_ms, self.subscribed() if stable else None)

    def _refusal(
        self, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        code = joining.refusal(self, member_id, instance_id)
        if code is ErrorCode.NONE and generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return code

    def _step_done(self) -> Effects:
        effects, self.effects = self.effects, Effects()
        return effects
