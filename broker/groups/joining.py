"""JoinGroup, decided: who may come in, under which id, and what that sets off.

Most of what is subtle about groups is here, since a join means five things: a first
knock, the first real join of a pending id, a member rejoining a rebalance, a member
that lost its answer and asks again, and a static member that restarted. Each has a
function, named so. Source: ``GroupMetadataManager.classicGroupJoin*``.
"""

from dataclasses import replace
from functools import partial

from broker.groups.commands import Join, Refused, TimerKey, TimerKind
from broker.groups.members import Member
from broker.groups.rebalance import Rebalance
from broker.groups.states import GroupState
from broker.groups.subscription import CONSUMER, subscribed_topics
from broker.protocol.errors import ErrorCode


def join(group: Rebalance, command: Join) -> None:
    """Answer or park one join. Codes as Kafka's, in Kafka's order."""
    if group.state is GroupState.DEAD:
        _refuse(group, command, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    elif not _has_room(group, command.member_id):
        _turn_away(group, command)
    elif not _speaks_with_us(group, command):
        _refuse(group, command, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    elif command.member_id:
        _come_back(group, command)
    elif command.instance_id is not None:
        _come_as_static(group, command)
    elif command.requires_member_id:
        _knock(group, command)
    else:
        _come_in(group, command, command.new_member_id)


def _refuse(group: Rebalance, command: Join, code: ErrorCode) -> None:
    group.reply(command.ticket, Refused(code, command.member_id))


def _has_room(group: Rebalance, member_id: str) -> bool:
    """``acceptJoiningMember``: who is in may rejoin, if it is not too late for it.

    In a rebalance it is who rejoined that counts, so that a group above a lowered
    maximum loses its last comers.
    """
    roster, members_max = group.roster, group.limits.members_max
    if group.state is GroupState.EMPTY:
        return True
    member = roster.get(member_id)
    if group.state is GroupState.PREPARING_REBALANCE:
        parked = member is not None and member.join_ticket is not None
        return parked or roster.joining < members_max
    return member is not None or len(roster) < members_max


def _turn_away(group: Rebalance, command: Join) -> None:
    """Full. A member that rejoined too late for its place loses it."""
    member = group.roster.get(command.member_id)
    if member is not None:
        group.remove(member, ErrorCode.GROUP_MAX_SIZE_REACHED)
    forget_pending(group, command.member_id)
    group.reply(command.ticket, Refused(ErrorCode.GROUP_MAX_SIZE_REACHED))
    if group.state is GroupState.PREPARING_REBALANCE:
        group.after_departure()


def _speaks_with_us(group: Rebalance, command: Join) -> bool:
    """``supportsProtocols``: the same kind of group, and an assignor that all know."""
    if not command.protocol_type or not command.protocols:
        return False
    if not group.roster:
        return True
    same_type = command.protocol_type == group.protocol_type
    return same_type and group.roster.supports_any(command.protocols)


def _knock(group: Rebalance, command: Join) -> None:
    """KIP-394: an id first, so that a client that retries is not two members.

    The pending id is counted: a rebalance waits for it until its session runs out.
    """
    member_id = command.new_member_id
    group.roster.pending.add(member_id)
    group.wake(TimerKey(TimerKind.MEMBER, member_id), command.session_timeout_ms)
    group.reply(command.ticket, Refused(ErrorCode.MEMBER_ID_REQUIRED, member_id))


def forget_pending(group: Rebalance, member_id: str) -> bool:
    """Let go of an id that was given and not used; whether there was one."""
    if member_id not in group.roster.pending:
        return False
    group.roster.pending.discard(member_id)
    group.wake(TimerKey(TimerKind.MEMBER, member_id), None)
    return True


def _come_in(group: Rebalance, command: Join, member_id: str) -> None:
    member = Member(
        member_id,
        command.instance_id,
        command.client_id,
        command.client_host,
        command.session_timeout_ms,
        command.rebalance_timeout_ms,
        command.protocols,
        join_ticket=command.ticket,
    )
    group.add(member, command.protocol_type)
    group.rebalance()


def refusal(group: Rebalance, member_id: str, instance_id: str | None) -> ErrorCode:
    """``validateMember``: NONE for a member that is who it says it is."""
    if instance_id is not None:
        holder = group.roster.static_id(instance_id)
        if holder is not None and holder != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        if holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
    known = member_id in group.roster
    return ErrorCode.NONE if known else ErrorCode.UNKNOWN_MEMBER_ID


def _come_back(group: Rebalance, command: Join) -> None:
    """A join with an id: of a pending one, of a member, or of nobody we know."""
    if command.member_id in group.roster.pending and command.instance_id is None:
        _come_in(group, command, command.member_id)
        return
    code = refusal(group, command.member_id, command.instance_id)
    member = group.roster.get(command.member_id)
    if code is not ErrorCode.NONE or member is None:
        _refuse(group, command, code)
    elif _only_asks_again(group, command, member):
        leads = member.member_id == group.leader_id
        group.reply(command.ticket, group.joined(member, with_members=leads))
    else:
        _rejoin(group, command, member)


def _only_asks_again(group: Rebalance, command: Join, member: Member) -> bool:
    """Whether nothing changed, so that the current generation is the answer.

    A leader that rejoins a stable group wants a rebalance: something it watches (the
    partitions of a topic, say) changed.
    """
    if member.protocols != command.protocols:
        return False
    if group.state is GroupState.STABLE:
        return member.member_id != group.leader_id
    return group.state is GroupState.COMPLETING_REBALANCE


def _rejoin(group: Rebalance, command: Join, member: Member) -> None:
    _update(group, command, member)
    group.rebalance()


def _update(group: Rebalance, command: Join, member: Member) -> None:
    """Take over what the join says and park it; an older one of it is sent back."""
    member.session_timeout_ms = command.session_timeout_ms
    member.rebalance_timeout_ms = command.rebalance_timeout_ms
    member.client_id, member.client_host = command.client_id, command.client_host
    group.roster.change_protocols(member, command.protocols)
    before = group.roster.park_join(member, command.ticket)
    if before is not None:
        refused = Refused(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
        group.reply(before, refused)


def _come_as_static(group: Rebalance, command: Join) -> None:
    """KIP-345: no knock. A known instance takes over its place under a new id."""
    assert command.instance_id is not None
    holder = group.roster.static_id(command.instance_id)
    old = None if holder is None else group.roster.get(holder)
    if old is None:
        _come_in(group, command, command.new_member_id)
        return
    unchanged = group.state is GroupState.STABLE and _same_wishes(group, command, old)
    leader_before = group.leader_id
    member = group.replace(old, command.new_member_id)
    _update(group, command, member)
    group.expect_heartbeat(member)
    if unchanged and group.roster.vote() == group.protocol_name:
        group.store(partial(_resume, group, command, member, leader_before))
    else:
        group.rebalance()


def _same_wishes(group: Rebalance, command: Join, old: Member) -> bool:
    """Whether a static member still wants what it wanted.

    Kafka looks only at the assignor that would be chosen; we also look at the topics,
    or a restart with another subscription would go unnoticed. The rest of the metadata
    does not count: a restarted client has lost the assignment that it carried there.
    """
    offered = dict(command.protocols).get(group.protocol_name)
    if offered is None:
        return False
    if group.protocol_type != CONSUMER:
        return True
    was = old.metadata(group.protocol_name)
    return was == offered or subscribed_topics(was) == subscribed_topics(offered)


def _resume(
    group: Rebalance,
    command: Join,
    member: Member,
    leader_before: str,
    stored: ErrorCode,
) -> None:
    """Go on with the generation: a static member restarted, nobody else notices.

    It hears its new id when that is durable; before, a restart could bring back the old
    one. If it cannot be stored the member has to come again, as a new one yet; Kafka
    also gives the old id back its place, which somebody else may hold by then.

    A leader must not assign now: nobody would hear of it. From v9 on it is told to
    skip (KIP-814); before, it is told that its old self leads.
    """
    if member.member_id not in group.roster:
        return  # it came once more, and this join was fenced
    group.roster.park_join(member, None)
    group.expect_heartbeat(member)
    if stored is not ErrorCode.NONE:
        group.reply(command.ticket, Refused(stored))
        return
    leads = member.member_id == group.leader_id
    skips = leads and command.can_skip_assignment
    leader_id = group.leader_id if command.can_skip_assignment else leader_before
    joined = group.joined(member, with_members=skips)
    reply = replace(joined, leader_id=leader_id, skip_assignment=skips)
    group.reply(command.ticket, reply)
