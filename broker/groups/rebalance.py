"""A rebalance, phase by phase: prepare, collect joins, collect syncs.

The problem: members come, go and vanish at any time, and all of them must end up in the
same generation with the same assignor, waiting no longer than needed and never for
ever. The idea, Kafka's: a rebalance has two phases. In the first, joins are parked
until everybody rejoined or the most patient member's timeout passed (who has not
rejoined is out). In the second, syncs are parked until the leader's brings the
assignments. A group that was empty waits for the initial delay instead, and again while
members arrive.

These functions are those phases, made on a draft; which command does what is in
``joining.py`` and ``classic.py``. Sources: ``GroupMetadataManager.prepareRebalance``,
``completeClassicGroupJoin``, ``expirePendingSync``, ``ClassicGroup``.

A generation counts once it is durable: the leader's sync asks for the group to be
written, and all syncs stay parked until that is done, as in Kafka. The price is one
write of the catalog per rebalance, and that groups cannot rebalance while nothing can
be written.
"""

from collections.abc import Mapping

from broker.groups.commands import Refused, TimerKey, TimerKind
from broker.groups.draft import JOIN_TIMER, SYNC_TIMER, Draft
from broker.groups.events import (
    GenerationBegan,
    LeaderElected,
    MoreJoined,
    RebalanceBegan,
    TypeChosen,
    WaitExtended,
)
from broker.groups.group import ASSIGNMENT
from broker.groups.members import Member
from broker.groups.states import GroupState
from broker.machine import Ticket
from broker.protocol.errors import ErrorCode

_AGAIN = Refused(ErrorCode.REBALANCE_IN_PROGRESS)


def add(draft: Draft, member: Member, protocol_type: str) -> None:
    """Take in a member whose first join is parked; the first one leads."""
    if not draft.group.roster:
        draft.record(TypeChosen(protocol_type))
        draft.record(LeaderElected(member.member_id))
    draft.put(member)
    if draft.group.filling():
        draft.record(MoreJoined())
    key = TimerKey(TimerKind.MEMBER, member.member_id)
    draft.schedule(key, draft.limits.new_member_join_timeout_ms)


def after_departure(draft: Draft) -> None:
    """Somebody left: rebalance, or see whether the rest is complete now."""
    if draft.group.state is GroupState.PREPARING_REBALANCE:
        _complete_join_if_all_joined(draft)
    elif draft.group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        prepare(draft)


# -- first phase: joins -------------------------------------------------------


def rebalance(draft: Draft) -> None:
    """Start a rebalance, or go on with the one that is under way."""
    if draft.group.state is GroupState.PREPARING_REBALANCE:
        _complete_join_if_all_joined(draft)
    else:
        prepare(draft)


def prepare(draft: Draft) -> None:
    """Ask everybody to join again; an empty group waits for company first."""
    if draft.group.state is GroupState.COMPLETING_REBALANCE:
        _take_back_assignments(draft)
    # A static member whose place was being written has a join parked: it counts.
    draft.record(RebalanceBegan())
    draft.cancel(SYNC_TIMER)
    draft.move(GroupState.PREPARING_REBALANCE)
    if draft.group.filling():
        _wait_for_company(draft)
    else:
        _complete_join_if_all_joined(draft)
        if draft.group.state is GroupState.PREPARING_REBALANCE:
            draft.schedule(JOIN_TIMER, draft.group.roster.rebalance_timeout_ms())


def _take_back_assignments(draft: Draft) -> None:
    members = tuple(draft.group.roster)
    given = (m for m in members if m.sync_ticket is not None or m.assignment)
    draft.put_all(m._replace(sync_ticket=None, assignment=b"") for m in given)
    for member in members:
        if member.sync_ticket is not None:
            draft.reply(member.sync_ticket, _AGAIN)
            draft.expect_heartbeat(member)


def _wait_for_company(draft: Draft) -> None:
    delay_ms = draft.limits.initial_rebalance_delay_ms
    patience_ms = draft.group.roster.rebalance_timeout_ms()
    draft.record(WaitExtended(max(patience_ms - delay_ms, 0)))
    if delay_ms > 0:
        draft.schedule(JOIN_TIMER, delay_ms)
    else:
        _complete_join(draft)


def join_timer_fired(draft: Draft) -> None:
    """The wait is over, unless the group is filling and somebody just arrived."""
    group = draft.group
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    if group.filling() and group.arrived and group.initial_remaining_ms:
        delay_ms = draft.limits.initial_rebalance_delay_ms
        delay_ms = min(delay_ms, group.initial_remaining_ms)
        draft.record(WaitExtended(group.initial_remaining_ms - delay_ms))
        draft.schedule(JOIN_TIMER, delay_ms)
    else:
        _complete_join(draft)


def _complete_join_if_all_joined(draft: Draft) -> None:
    if not draft.group.filling() and draft.group.roster.all_joined():
        _complete_join(draft)


def _complete_join(draft: Draft) -> None:
    """End the first phase: a new generation of those who are there."""
    draft.cancel(JOIN_TIMER)
    for member in draft.group.roster:
        if member.join_ticket is None and member.instance_id is None:
            draft.remove(member, ErrorCode.UNKNOWN_MEMBER_ID)
    if not draft.group.roster:
        _become_empty(draft)
    elif _elect(draft):
        _begin_generation(draft)
    else:
        # Only static members, all silent: their sessions will end the wait.
        draft.schedule(JOIN_TIMER, draft.group.roster.rebalance_timeout_ms())


def _become_empty(draft: Draft) -> None:
    draft.record(GenerationBegan(draft.group.generation + 1, ""))
    draft.move(GroupState.EMPTY)
    draft.write()


def _elect(draft: Draft) -> bool:
    """The leader must be one that joined; False if nobody did."""
    roster = draft.group.roster
    leader = roster.get(draft.group.leader_id)
    if leader is None or leader.join_ticket is None:
        joined = (m.member_id for m in roster if m.join_ticket is not None)
        elected = next(joined, None)
        if elected is None:
            return False
        draft.record(LeaderElected(elected))
    return True


def _begin_generation(draft: Draft) -> None:
    group = draft.group
    draft.record(GenerationBegan(group.generation + 1, group.roster.vote()))
    draft.move(GroupState.COMPLETING_REBALANCE)
    members = tuple(draft.group.roster)
    draft.put_all(m._replace(is_new=False, join_ticket=None) for m in members)
    for member in members:
        draft.expect_heartbeat(member)
        if member.join_ticket is not None:
            leads = member.member_id == draft.group.leader_id
            draft.reply(member.join_ticket, draft.joined(member, with_members=leads))
    draft.schedule(SYNC_TIMER, draft.group.roster.rebalance_timeout_ms())


# -- second phase: syncs ------------------------------------------------------


def park_sync(draft: Draft, member: Member, ticket: Ticket) -> None:
    """Keep a sync until the leader's comes; an older one of it is sent back."""
    if member.sync_ticket is not None:
        draft.reply(member.sync_ticket, _AGAIN)
    draft.put(member, sync_ticket=ticket)
    draft.synced(member.member_id)


def assign(draft: Draft, assignments: Mapping[str, bytes]) -> None:
    """The leader decided: everybody gets its part, or nothing, once it is durable.

    Of a leader that asks again meanwhile, only the last word counts.
    """
    given = ((m, assignments.get(m.member_id, b"")) for m in draft.group.roster)
    draft.put_all(m._replace(assignment=a) for m, a in given if a != m.assignment)
    draft.write(ASSIGNMENT)


def assignment_written(draft: Draft, code: ErrorCode) -> None:
    """The assignments are durable, and we are stable; or all that was for nothing.

    Sessions start anew for all: one that ran out while its sync was parked was let
    pass, and nobody would watch that member again (``propagateAssignment``).
    """
    durable = code is ErrorCode.NONE
    if durable:
        draft.move(GroupState.STABLE)
    draft.answer_syncs(None if durable else Refused(code))
    for member in draft.group.roster:
        draft.expect_heartbeat(member)
    if not durable:
        prepare(draft)


def sync_timer_fired(draft: Draft) -> None:
    """Who joined and never synced is out, the leader included; and again."""
    if draft.group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        unsynced = draft.group.unsynced
        late = [m for m in draft.group.roster if m.member_id in unsynced]
        for member in late:
            draft.remove(member, ErrorCode.UNKNOWN_MEMBER_ID)
        if late:
            prepare(draft)
