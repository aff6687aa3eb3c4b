"""A classic group: the machine that decides what each group request is answered.

One object per group, pure: ``decide`` takes a command and returns a ``Decision``
(events, answers by ticket, timers to start or cancel), ``apply`` changes the group by
an event. Nothing here waits, reads a clock or touches a file, so a group of four
hundred members rebalances in a test in milliseconds, and every rule of Kafka's
coordinator can be told as a dialogue. ``states.py`` has the table, ``rebalance.py`` the
phases, ``joining.py`` the longest command; this file has the others and the timers.

What must survive a restart is a durable event (``WriteBegan``); ``Written`` is the
command that tells how it went, and answers that depend on it come then. Committed
offsets are durable, elsewhere (``commits.py``).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from broker.groups import joining, rebalance
from broker.groups.commands import (
    AdmitCommit,
    Alive,
    Command,
    Delete,
    Expire,
    Heartbeat,
    Join,
    Leave,
    Leaver,
    Left,
    Refused,
    Reply,
    Resume,
    Sync,
    TimerKind,
    Written,
)
from broker.groups.draft import Draft
from broker.groups.events import WriteEnded
from broker.groups.group import Group, GroupEvent, Takeover
from broker.groups.limits import GroupLimits
from broker.groups.states import GroupState
from broker.machine import Decision
from broker.protocol.errors import ErrorCode


@dataclass(slots=True)
class ClassicGroup:
    """The machine of one group; ``group`` is its state."""

    limits: GroupLimits
    group: Group

    def decide(self, command: Command, now_ms: int) -> Decision[GroupEvent, Reply]:
        """Return what a command means; ``now_ms`` dates when a group became empty."""
        draft = Draft(self.group, self.limits, now_ms)
        _DECIDED[type(command)](draft, command)
        return draft.decision()

    def apply(self, event: GroupEvent) -> None:
        """Change the group by one event."""
        self.group.apply(event)


def _resume(draft: Draft, _: Resume) -> None:
    """Sessions start anew (``GroupMetadataManager.onLoaded``).

    With more members than are allowed by now, they must join again.
    """
    for member in draft.group.roster:
        draft.expect_heartbeat(member)
    if len(draft.group.roster) > draft.limits.members_max:
        rebalance.prepare(draft)


def _written(draft: Draft, command: Written) -> None:
    """Go on with what waited for a write, unless a rebalance has made it pointless."""
    purpose = draft.group.writing.get(command.serial)
    if purpose is None:
        return
    draft.record(WriteEnded(command.serial))
    if isinstance(purpose, Takeover):
        joining.takeover_written(draft, purpose, command.code)
    else:
        rebalance.assignment_written(draft, command.code)


def _sync(draft: Draft, command: Sync) -> None:
    """Answer or park a SyncGroup; the leader's ends the second phase."""
    code = _sync_refusal(draft.group, command)
    member = draft.group.roster.get(command.member_id)
    if code is not ErrorCode.NONE or member is None:
        draft.reply(command.ticket, Refused(code))
    elif draft.group.state is GroupState.STABLE:
        draft.synced(member.member_id)
        draft.expect_heartbeat(member)
        draft.reply(command.ticket, draft.assignment(member))
    else:
        rebalance.park_sync(draft, member, command.ticket)
        if member.member_id == draft.group.leader_id:
            rebalance.assign(draft, dict(command.assignments))


def _sync_refusal(group: Group, command: Sync) -> ErrorCode:
    code = _refusal(group, command.member_id, command.instance_id, command.generation)
    if code is not ErrorCode.NONE:
        return code
    asked = (command.protocol_type, command.protocol_name)
    have = (group.protocol_type, group.protocol_name)
    if any(a not in (None, h) for a, h in zip(asked, have, strict=True)):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _heartbeat(draft: Draft, command: Heartbeat) -> None:
    """Hear a sign of life; during a rebalance it is one too, answered with 27."""
    group = draft.group
    code = _refusal(group, command.member_id, command.instance_id, command.generation)
    member = group.roster.get(command.member_id)
    if code is ErrorCode.NONE and member is not None:
        draft.expect_heartbeat(member)
        if group.state is GroupState.PREPARING_REBALANCE:
            code = ErrorCode.REBALANCE_IN_PROGRESS
    _answer(draft, command, code)


def _answer(draft: Draft, command: Heartbeat | AdmitCommit, code: ErrorCode) -> None:
    ok = code is ErrorCode.NONE
    draft.reply(command.ticket, Alive() if ok else Refused(code))


def _leave(draft: Draft, command: Leave) -> None:
    """Let members go, all of them before the one rebalance that follows."""
    members_before = len(draft.group.roster)
    codes = tuple(_remove(draft, leaver) for leaver in command.leavers)
    draft.reply(command.ticket, Left(codes), first=True)
    members_left = len(draft.group.roster) < members_before
    if members_left or ErrorCode.NONE in codes:
        _after_leaving(draft, members_left=members_left)


def _after_leaving(draft: Draft, *, members_left: bool) -> None:
    # A pending id that goes may complete a join phase, but starts no rebalance.
    if members_left or draft.group.state is GroupState.PREPARING_REBALANCE:
        rebalance.after_departure(draft)


def _remove(draft: Draft, leaver: Leaver) -> ErrorCode:
    if draft.group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    member_id, instance_id = leaver
    if not member_id:
        # KIP-345: an administrator removes a static member by its name.
        member_id = draft.group.roster.static_id(instance_id) or ""
    elif draft.drop_id(member_id):
        return ErrorCode.NONE
    code = joining.refusal(draft.group, member_id, instance_id)
    member = draft.group.roster.get(member_id)
    if code is ErrorCode.NONE and member is not None:
        draft.remove(member, ErrorCode.UNKNOWN_MEMBER_ID)
    return code


def _expire(draft: Draft, command: Expire) -> None:
    """A timer ran out."""
    if command.key.kind is TimerKind.JOIN:
        rebalance.join_timer_fired(draft)
    elif command.key.kind is TimerKind.SYNC:
        rebalance.sync_timer_fired(draft)
    else:
        _session_over(draft, command.key.member_id)


def _session_over(draft: Draft, member_id: str) -> None:
    if draft.drop_id(member_id):
        _after_leaving(draft, members_left=False)
        return
    member = draft.group.roster.get(member_id)
    if member is None or (member.parked() and not member.is_new):
        # Whose request we hold is alive; its session starts anew with the answer.
        return
    draft.remove(member, ErrorCode.UNKNOWN_MEMBER_ID)
    rebalance.after_departure(draft)


def _delete(draft: Draft, _: Delete) -> None:
    """The group is deleted; only an empty one may be."""
    for member_id in sorted(draft.group.roster.pending):
        draft.drop_id(member_id)
    draft.move(GroupState.DEAD)


def _admit_commit(draft: Draft, command: AdmitCommit) -> None:
    code = _commit_refusal(draft.group, command)
    member = draft.group.roster.get(command.member_id)
    if code is ErrorCode.NONE and member is not None and not command.in_transaction:
        draft.expect_heartbeat(member)
    _answer(draft, command, code)


def _commit_refusal(group: Group, command: AdmitCommit) -> ErrorCode:
    """``ClassicGroup.validateOffsetCommit``.

    Without generation and member it is a simple commit (an assigned consumer, an
    administrator), which only an empty group takes; in a transaction it is a producer
    that knows no members (before KIP-447), and any takes it. While the group waits for
    the leader's assignment nobody commits, or a member would undo what the new owner of
    a partition did (KAFKA-8487); in a transaction that is for its end to decide.
    """
    member_id, instance_id = command.member_id, command.instance_id
    simple = not member_id and instance_id is None
    if command.generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if command.generation < 0 and simple and group.state is not GroupState.DEAD:
        known = command.in_transaction
        return ErrorCode.NONE if known else ErrorCode.UNKNOWN_MEMBER_ID
    code = _refusal(group, member_id, instance_id, command.generation)
    is_syncing = group.state is GroupState.COMPLETING_REBALANCE
    if code is ErrorCode.NONE and is_syncing and not command.in_transaction:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return code


def _refusal(
    group: Group, member_id: str, instance_id: str | None, generation: int
) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    code = joining.refusal(group, member_id, instance_id)
    if code is ErrorCode.NONE and generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return code


_DECIDED: Mapping[type, Callable[[Draft, Any], None]] = MappingProxyType(
    {
        Join: joining.join,
        Sync: _sync,
        Heartbeat: _heartbeat,
        Leave: _leave,
        AdmitCommit: _admit_commit,
        Expire: _expire,
        Delete: _delete,
        Resume: _resume,
        Written: _written,
    }
)
