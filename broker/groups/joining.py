"""JoinGroup, decided: who may come in, under which id, and what that sets off.

Most of what is subtle about groups is here, since a join means five things: a first
request for an id, the first real join of a pending id, a member rejoining a rebalance,
a member that lost its answer and asks again, and a static member that restarted. Each
has a function, named so. Source: ``GroupMetadataManager.classicGroupJoin*``.
"""

from broker.groups.commands import Join, Refused, TimerKey, TimerKind
from broker.groups.draft import Draft
from broker.groups.events import LeaderElected, MemberIdAssigned
from broker.groups.group import Group, Takeover
from broker.groups.members import Member, size_of
from broker.groups.rebalance import add, after_departure, rebalance
from broker.groups.states import GroupState
from broker.groups.subscription import CONSUMER, subscribed_topics
from broker.protocol.errors import ErrorCode


def join(draft: Draft, command: Join) -> None:
    """Answer or park one join. Codes as Kafka's, in Kafka's order."""
    if draft.group.state is GroupState.DEAD:
        _refuse(draft, command, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    elif not _has_room(draft, command.member_id):
        _reject_full(draft, command)
    elif not _metadata_fits(draft, command):
        _reject_metadata(draft, command)
    elif not _supports_protocols(draft.group, command):
        _refuse(draft, command, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    elif command.member_id:
        _join_known(draft, command)
    elif command.instance_id is not None:
        _join_static(draft, command)
    elif command.requires_member_id:
        _assign_member_id(draft, command)
    else:
        _add_member(draft, command, command.new_member_id)


def _refuse(draft: Draft, command: Join, code: ErrorCode) -> None:
    draft.reply(command.ticket, Refused(code, command.member_id))


def _has_room(draft: Draft, member_id: str) -> bool:
    """``acceptJoiningMember``: who is in may rejoin, if it is not too late for it.

    In a rebalance it is who rejoined that counts, so that a group above a lowered
    maximum loses its last comers.
    """
    group, members_max = draft.group, draft.limits.members_max
    if group.state is GroupState.EMPTY:
        return True
    member = group.roster.get(member_id)
    if group.state is GroupState.PREPARING_REBALANCE:
        parked = member is not None and member.join_ticket is not None
        return parked or group.roster.joining < members_max
    return member is not None or len(group.roster) < members_max


def _reject_full(draft: Draft, command: Join) -> None:
    """Full. A member that rejoined too late for its place loses it."""
    member = draft.group.roster.get(command.member_id)
    if member is not None:
        draft.remove(member, ErrorCode.GROUP_MAX_SIZE_REACHED)
    draft.drop_id(command.member_id)
    draft.reply(command.ticket, Refused(ErrorCode.GROUP_MAX_SIZE_REACHED))
    if draft.group.state is GroupState.PREPARING_REBALANCE:
        after_departure(draft)


def _metadata_fits(draft: Draft, command: Join) -> bool:
    """Whether what all members say of their assignors stays within bounds."""
    roster = draft.group.roster
    known = roster.get(command.member_id or roster.static_id(command.instance_id) or "")
    others = roster.metadata_bytes - (size_of(known.protocols) if known else 0)
    return others + size_of(command.protocols) <= draft.limits.metadata_bytes_max


def _reject_metadata(draft: Draft, command: Join) -> None:
    """Too much. A member stays as it was; a pending id is waited for no more."""
    dropped = draft.drop_id(command.member_id)
    draft.reply(command.ticket, Refused(ErrorCode.GROUP_MAX_SIZE_REACHED))
    if dropped and draft.group.state is GroupState.PREPARING_REBALANCE:
        after_departure(draft)


def _supports_protocols(group: Group, command: Join) -> bool:
    """``supportsProtocols``: the same kind of group, and an assignor that all know."""
    if not command.protocol_type or not command.protocols:
        return False
    if not group.roster:
        return True
    same_type = command.protocol_type == group.protocol_type
    return same_type and group.roster.supports_any(command.protocols)


def _assign_member_id(draft: Draft, command: Join) -> None:
    """KIP-394: an id first, so that a client that retries is not two members.

    The pending id is counted: a rebalance waits for it until its session runs out.
    """
    member_id = command.new_member_id
    draft.record(MemberIdAssigned(member_id))
    draft.schedule(TimerKey(TimerKind.MEMBER, member_id), command.session_timeout_ms)
    draft.reply(command.ticket, Refused(ErrorCode.MEMBER_ID_REQUIRED, member_id))


def _add_member(draft: Draft, command: Join, member_id: str) -> None:
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
    add(draft, member, command.protocol_type)
    rebalance(draft)


def refusal(group: Group, member_id: str, instance_id: str | None) -> ErrorCode:
    """``validateMember``: NONE for a member that is who it says it is."""
    if instance_id is not None:
        holder = group.roster.static_id(instance_id)
        if holder is not None and holder != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        if holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
    known = member_id in group.roster
    return ErrorCode.NONE if known else ErrorCode.UNKNOWN_MEMBER_ID


def _join_known(draft: Draft, command: Join) -> None:
    """A join with an id: of a pending one, of a member, or of nobody we know."""
    group = draft.group
    if command.member_id in group.roster.pending and command.instance_id is None:
        _add_member(draft, command, command.member_id)
        return
    code = refusal(group, command.member_id, command.instance_id)
    member = group.roster.get(command.member_id)
    if code is not ErrorCode.NONE or member is None:
        _refuse(draft, command, code)
    elif _only_asks_again(group, command, member):
        leads = member.member_id == group.leader_id
        draft.reply(command.ticket, draft.joined(member, with_members=leads))
    else:
        _update(draft, command, member)
        rebalance(draft)


def _only_asks_again(group: Group, command: Join, member: Member) -> bool:
    """Whether nothing changed, so that the current generation is the answer.

    A leader that rejoins a stable group wants a rebalance: something it watches (the
    partitions of a topic, say) changed.
    """
    if member.protocols != command.protocols:
        return False
    if group.state is GroupState.STABLE:
        return member.member_id != group.leader_id
    return group.state is GroupState.COMPLETING_REBALANCE


def _update(draft: Draft, command: Join, member: Member) -> Member:
    """Take over what the join says and park it; an older one of it is sent back."""
    if member.join_ticket is not None:
        refused = Refused(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
        draft.reply(member.join_ticket, refused)
    return draft.put(
        member,
        session_timeout_ms=command.session_timeout_ms,
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        client_id=command.client_id,
        client_host=command.client_host,
        protocols=command.protocols,
        join_ticket=command.ticket,
    )


# -- static members -----------------------------------------------------------


def _join_static(draft: Draft, command: Join) -> None:
    """KIP-345: no id first. A known instance takes over its place under a new id."""
    group = draft.group
    assert command.instance_id is not None
    holder = group.roster.static_id(command.instance_id)
    old = None if holder is None else group.roster.get(holder)
    if old is None:
        _add_member(draft, command, command.new_member_id)
        return
    unchanged = group.state is GroupState.STABLE and _same_wishes(group, command, old)
    successor = _replace(draft, old, command.new_member_id)
    member = _update(draft, command, successor)
    draft.expect_heartbeat(member)
    if unchanged and draft.group.roster.vote() == group.protocol_name:
        skips = command.can_skip_assignment
        before = group.leader_id
        draft.write(Takeover(member.member_id, command.ticket, before, skips))
    else:
        rebalance(draft)


def _replace(draft: Draft, old: Member, new_member_id: str) -> Member:
    """A static member came back under a new id: the old id is fenced (KIP-345)."""
    led = draft.group.leader_id == old.member_id
    draft.remove(old, ErrorCode.FENCED_INSTANCE_ID, old.member_id)
    successor = draft.put(
        old, member_id=new_member_id, is_new=False, join_ticket=None, sync_ticket=None
    )
    if led:
        draft.record(LeaderElected(new_member_id))
    return successor


def _same_wishes(group: Group, command: Join, old: Member) -> bool:
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


def takeover_written(draft: Draft, takeover: Takeover, code: ErrorCode) -> None:
    """Go on with the generation: a static member restarted, nobody else notices.

    It hears its new id when that is durable; before, a restart could bring back the old
    one. If it cannot be written the member has to come again, as a new one yet; Kafka
    also gives the old id back its place, which somebody else may hold by then.

    A leader must not assign now: nobody would hear of it. From v9 on it is told to
    skip (KIP-814); before, it is told that its old self leads.
    """
    member = draft.group.roster.get(takeover.member_id)
    if member is None:
        return  # it came once more, and this join was fenced
    draft.put(member, join_ticket=None)
    draft.expect_heartbeat(member)
    if code is not ErrorCode.NONE:
        draft.reply(takeover.ticket, Refused(code))
        return
    can_skip = takeover.can_skip_assignment
    skips = member.member_id == draft.group.leader_id and can_skip
    leader_id = draft.group.leader_id if can_skip else takeover.leader_before
    joined = draft.joined(member, with_members=skips)
    reply = joined._replace(leader_id=leader_id, skip_assignment=skips)
    draft.reply(takeover.ticket, reply)
