"""The other commands: sync, heartbeat, leave, commit, and what a timer does."""

import pytest

from broker.groups.commands import Delete, Expire, Join, Leaver, TimerKey, TimerKind
from broker.groups.states import GroupState
from broker.protocol.errors import ErrorCode
from tests.support.playbook import (
    RANGE,
    Playbook,
    again,
    alive,
    commit,
    completing,
    heartbeat,
    join,
    joined,
    leave,
    left,
    nothing,
    refused,
    stable,
    sync,
    synced,
    tick,
)


@pytest.fixture
def group():
    book = Playbook()
    yield book
    book.finish()


def test_syncs_of_followers_wait_for_the_leader(group):
    completing(group, "a", "b")
    (
        group
        >> sync("b", 1)
        << nothing
        >> sync("a", 1, {"a": b"p0", "b": b"p1"})
        << synced("a", b"p0")
        << synced("b", b"p1")
    )
    assert group.group.state is GroupState.STABLE


def test_a_leader_may_sync_first(group):
    completing(group, "a", "b")
    (
        group
        >> sync("a", 1, {"b": b"p1"})
        << synced("a", b"")
        >> sync("b", 1)
        << synced("b", b"p1")
        >> sync("b", 1)
        << synced("b", b"p1")
    )


def test_a_member_that_the_leader_forgot_gets_empty_bytes(group):
    completing(group, "a", "b")
    group >> sync("b", 1) >> sync("a", 1, {"a": b"all"})
    assert (group << synced("a", b"all") << synced("b", b"")) is group


def test_a_second_sync_of_a_member_sends_the_first_back(group):
    completing(group, "a", "b")
    (
        group
        >> sync("b", 1)
        >> sync("b", 1)
        << refused("b", "REBALANCE_IN_PROGRESS")
        >> sync("a", 1, {"b": b"x"})
        << synced("a", b"")
        << synced("b", b"x")
    )


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (sync("a", 7), "ILLEGAL_GENERATION"),
        (sync("nobody", 1), "UNKNOWN_MEMBER_ID"),
        (sync("a", 1, protocol_type="connect"), "INCONSISTENT_GROUP_PROTOCOL"),
        (sync("a", 1, protocol_name="other"), "INCONSISTENT_GROUP_PROTOCOL"),
        (sync("a", 1, instance_id="i"), "UNKNOWN_MEMBER_ID"),
    ],
)
def test_a_sync_of_another_generation_member_or_protocol_is_refused(group, step, code):
    completing(group, "a")
    group >> step
    (_, answer) = group.answers.popleft()
    assert answer.code is ErrorCode[code]


def test_a_sync_may_name_the_protocol_that_was_chosen(group):
    completing(group, "a")
    step = sync("a", 1, {"a": b"x"}, protocol_type="consumer", protocol_name="range")
    group >> step << synced("a", b"x")


def test_a_sync_during_a_new_rebalance_is_told_to_rejoin(group):
    stable(group, "a", "b")
    group >> again("a") >> sync("b", 1) << refused("b", "REBALANCE_IN_PROGRESS")


def test_parked_syncs_are_sent_back_when_a_member_joins(group):
    completing(group, "a", "b")
    group >> sync("b", 1) >> join("c") << refused("b", "REBALANCE_IN_PROGRESS")


def test_a_leader_that_never_syncs_is_out_and_the_rest_rejoin(group):
    completing(group, "a", "b")
    (group >> sync("b", 1) << nothing >> heartbeat("a", 1) << alive("a"))
    # The leader lives, and never assigns: the sync phase ends with its timeout.
    for _ in range(12):
        group >> heartbeat("a", 1) << alive("a") >> tick(5_000)
        if group.answers:
            break
    group << refused("b", "REBALANCE_IN_PROGRESS")
    group >> again("b") << joined("b", generation=2, leader_id="b")
    group >> heartbeat("a", 1) << refused("a", "UNKNOWN_MEMBER_ID")


def test_a_follower_that_never_syncs_is_out(group):
    completing(group, "a", "b")
    group >> sync("a", 1, {"a": b"x"}) << synced("a", b"x")
    for _ in range(12):
        group >> heartbeat("b", 1)
        group.answers.clear()
        group >> heartbeat("a", 1)
        group.answers.clear()
        group >> tick(5_000)
    group >> heartbeat("b", 1) << refused("b", "UNKNOWN_MEMBER_ID")
    group >> heartbeat("a", 1) << refused("a", "REBALANCE_IN_PROGRESS")


def test_heartbeats_keep_a_member_and_silence_ends_it(group):
    generation = stable(group, "a", "b")
    for _ in range(5):
        group >> heartbeat("a", generation) << alive("a")
        group >> heartbeat("b", generation) << alive("b") >> tick(9_000)
    (
        group
        >> heartbeat("a", generation)
        << alive("a")
        >> tick(1_000)
        >> heartbeat("b", generation)
        << refused("b", "UNKNOWN_MEMBER_ID")
        >> heartbeat("a", generation)
        << refused("a", "REBALANCE_IN_PROGRESS")
    )


def test_a_heartbeat_during_a_rebalance_is_refused_and_still_counts(group):
    generation = stable(group, "a", "b")
    group >> again("a") << nothing
    for _ in range(5):
        group >> heartbeat("b", generation) << refused("b", "REBALANCE_IN_PROGRESS")
        group >> tick(9_000)
    group >> again("b") << joined("a", generation=2) << joined("b", generation=2)


def test_a_heartbeat_between_join_and_sync_is_fine(group):
    completing(group, "a")
    group >> heartbeat("a", 1) << alive("a")


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (heartbeat("a", 0), "ILLEGAL_GENERATION"),
        (heartbeat("x", 1), "UNKNOWN_MEMBER_ID"),
        (heartbeat("a", 1, "instance"), "UNKNOWN_MEMBER_ID"),
    ],
)
def test_a_wrong_heartbeat_is_refused(group, step, code):
    stable(group, "a")
    group >> step
    assert group.answers.popleft()[1].code is ErrorCode[code]


def test_a_parked_join_counts_as_alive(group):
    stable(group, "a", "b")
    group >> again("a", rebalance_timeout_ms=300_000)
    for _ in range(6):
        group >> heartbeat("b", 1) << refused("b", "REBALANCE_IN_PROGRESS")
        group >> tick(9_000)
    group >> again("b") << joined("a", generation=2) << joined("b", generation=2)


def test_a_parked_sync_counts_as_alive(group):
    completing(group, "a", "b")
    group >> sync("b", 1)
    for _ in range(3):
        group >> heartbeat("a", 1) << alive("a") >> tick(9_000)
    group >> sync("a", 1, {"b": b"x"}) << synced("a", b"") << synced("b", b"x")
    # ... and its session, which ran out meanwhile, was started anew with the answer.
    assert group.group.roster.get("b") is not None
    group >> tick(10_000)
    assert group.group.roster.get("b") is None


def test_leaving_starts_a_rebalance_at_once(group):
    stable(group, "a", "b")
    (
        group
        >> leave("b")
        << left("NONE")
        >> heartbeat("a", 1)
        << refused("a", "REBALANCE_IN_PROGRESS")
        >> again("a")
        << joined("a", generation=2, leader_id="a")
    )


def test_the_last_member_leaves_an_empty_group(group):
    stable(group, "a")
    group >> tick(500) >> leave("a") << left("NONE")
    assert group.group.state is GroupState.EMPTY
    assert group.group.empty_since_ms == group.now_ms
    assert not group.timers


def test_many_leave_in_one_request_each_with_its_code(group):
    stable(group, "a", "b", "c")
    (
        group
        >> leave("b", "nobody", "c")
        << left("NONE", "UNKNOWN_MEMBER_ID", "NONE")
        >> again("a")
        << joined("a", generation=2)
    )
    assert len(group.group.roster) == 1


def test_a_leave_of_nobody_changes_nothing(group):
    stable(group, "a")
    group >> leave("nobody", "") << left("UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID")
    assert group.group.state is GroupState.STABLE


def test_a_member_that_leaves_during_a_rebalance_completes_it(group):
    stable(group, "a", "b")
    group >> again("a") << nothing
    group >> leave("b") << left("NONE") << joined("a", generation=2)


def test_what_a_leaver_has_parked_is_answered(group):
    completing(group, "a", "b")
    group >> sync("b", 1) >> leave("b")
    group << left("NONE") << refused("b", "UNKNOWN_MEMBER_ID")


def test_an_administrator_removes_a_static_member_by_its_instance(group):
    stable(group, "a", instance_id="i")
    (
        group
        >> leave(Leaver("a", "other"), Leaver("", "other"))
        << left("UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID")
        >> leave(Leaver("stale", "i"))
        << left("FENCED_INSTANCE_ID")
        >> leave(Leaver("", "i"))
        << left("NONE")
    )
    assert group.group.state is GroupState.EMPTY


def test_a_pending_id_may_leave_and_a_waiting_rebalance_goes_on(group):
    stable(group, "a")
    group >> join("b", requires_member_id=True)
    group << refused("b", "MEMBER_ID_REQUIRED")
    group >> again("a") << nothing
    group >> leave("b") << left("NONE") << joined("a", generation=2)


def test_a_pending_id_that_leaves_a_stable_group_starts_nothing(group):
    stable(group, "a")
    group >> join("b", requires_member_id=True)
    group << refused("b", "MEMBER_ID_REQUIRED") >> leave("b") << left("NONE")
    assert group.group.state is GroupState.STABLE
    group >> tick(9_000) << nothing >> heartbeat("a", 1) << alive("a")


def test_simple_commits_are_taken_by_an_empty_group_only(group):
    group >> commit("", -1) << alive("")
    stable(group, "a")
    group >> commit("", -1) << refused("", "UNKNOWN_MEMBER_ID")


def test_members_commit_with_their_generation(group):
    stable(group, "a", "b")
    (
        group
        >> commit("a", 1)
        << alive("a")
        >> commit("a", 0)
        << refused("a", "ILLEGAL_GENERATION")
        >> commit("x", 1)
        << refused("x", "UNKNOWN_MEMBER_ID")
        >> again("a")
        >> commit("b", 1)
        << alive("b")
    )


def test_nobody_commits_between_join_and_sync(group):
    completing(group, "a")
    group >> commit("a", 1) << refused("a", "REBALANCE_IN_PROGRESS")


def test_a_commit_of_a_member_nobody_knows_is_refused_in_an_empty_group(group):
    group >> commit("a", 3) << refused("a", "UNKNOWN_MEMBER_ID")


def test_a_commit_of_the_first_generation_is_a_members_and_no_simple_one(group):
    """An empty group that was never used is of this generation, and knows nobody."""
    group >> commit("", 0) << refused("", "UNKNOWN_MEMBER_ID")


def test_a_commit_is_a_sign_of_life(group):
    stable(group, "a")
    for _ in range(4):
        group >> commit("a", 1) << alive("a") >> tick(9_000)
    group >> heartbeat("a", 1) << alive("a")


def test_in_a_transaction_who_says_nothing_of_members_commits_in_every_state(group):
    in_transaction = commit("", -1, in_transaction=True)
    group >> in_transaction << alive("")
    completing(group, "a")
    group >> in_transaction << alive("")
    group >> sync("a", 1, {"a": "all"})
    group.answers.clear()
    group >> in_transaction << alive("")


def test_in_a_transaction_members_commit_between_join_and_sync(group):
    completing(group, "a")
    (
        group
        >> commit("a", 1, in_transaction=True)
        << alive("a")
        >> commit("a", 0, in_transaction=True)
        << refused("a", "ILLEGAL_GENERATION")
        >> commit("a", -1, in_transaction=True)
        << refused("a", "ILLEGAL_GENERATION")
        >> commit("x", 1, in_transaction=True)
        << refused("x", "UNKNOWN_MEMBER_ID")
        >> commit("", 1, in_transaction=True)
        << refused("", "UNKNOWN_MEMBER_ID")
    )


def test_a_commit_in_a_transaction_is_no_sign_of_life(group):
    stable(group, "a")
    group >> tick(9_000) >> commit("a", 1, in_transaction=True) << alive("a")
    group >> tick(2_000) >> heartbeat("a", 1) << refused("a", "UNKNOWN_MEMBER_ID")


def test_a_static_member_commits_under_its_newest_id_only(group):
    stable(group, "a", instance_id="i")
    group >> join("a2", instance_id="i", can_skip_assignment=True)
    group.answers.clear()
    group >> commit("a", 1, "i") << refused("a", "FENCED_INSTANCE_ID")
    group >> commit("a2", 1, "i") << alive("a2")


def test_a_stable_group_is_described_in_full_and_another_by_its_members(group):
    stable(group, "a", client_id="c", client_host="/h")
    view = group.group.describe()
    assert (view.state, view.protocol_type, view.protocol_name) == (
        GroupState.STABLE,
        "consumer",
        "range",
    )
    assert view.members == (("a", None, "c", "/h", b"meta", b"a"),)
    group >> join("b") << nothing
    view = group.group.describe()
    assert (view.state, view.protocol_name) == (GroupState.PREPARING_REBALANCE, "")
    shown = [(m.metadata, m.assignment) for m in view.members]
    assert shown == [(b"", b"a"), (b"", b"")]


def test_a_dead_group_sends_everybody_to_find_the_coordinator(group):
    group >> join("p", requires_member_id=True)
    group << refused("p", "MEMBER_ID_REQUIRED")
    group.say(Delete())
    code = "COORDINATOR_NOT_AVAILABLE"
    (
        group
        >> join("a")
        << refused("a", code)
        >> sync("a", 1)
        << refused("a", code)
        >> heartbeat("a", 1)
        << refused("a", code)
        >> leave("a")
        << left(code)
        >> commit("", -1)
        << refused("", code)
    )
    assert not group.timers


@pytest.mark.parametrize("kind", list(TimerKind))
def test_a_timer_that_comes_too_late_changes_nothing(group, kind):
    generation = stable(group, "a")
    group.say(Expire(TimerKey(kind, "gone")))
    state = (group.group.state, group.group.generation)
    assert state == (GroupState.STABLE, generation)


def test_a_rebalance_of_hundreds_costs_each_join_its_own_work(group):
    names = [f"m{i}" for i in range(400)]
    assert stable(group, *names) == 1
    for name in names:
        group.say(Join(name, 10_000, 60_000, "consumer", RANGE, ticket=name))
    answers = dict(group.answers)
    group.answers.clear()
    assert len(answers) == 400
    assert len(answers["m0"].members) == 400
    assert sum(len(reply.members) for reply in answers.values()) == 400


def test_what_a_group_reads_is_told_by_consumers_only(group):
    assert not group.group.reads("t")
    assert group.group.is_simple_or_consumers()
    metadata = b"\x00\x00\x00\x00\x00\x01\x00\x01t"
    stable(group, "a", protocols=(("range", metadata),))
    assert group.group.reads("t")
    assert not group.group.reads("u")
    group >> again("a", protocols=RANGE) << joined("a", generation=2)
    # What is not understood might be anything.
    assert group.group.reads("u")


def test_other_kinds_of_groups_do_not_tell_what_they_read(group):
    stable(group, "w", protocol_type="connect")
    assert not group.group.is_simple_or_consumers()


def test_a_group_is_never_used_until_somebody_knocks_and_abandoned_afterwards(group):
    assert group.group.never_used()
    group >> join("p", requires_member_id=True) << refused("p", "MEMBER_ID_REQUIRED")
    assert not group.group.abandoned()
    group >> leave("p") << left("NONE")
    assert group.group.never_used()
    stable(group, "a")
    group >> leave("a") << left("NONE")
    assert (group.group.never_used(), group.group.abandoned()) == (False, True)


def test_who_waits_can_be_listed(group):
    stable(group, "a", "b")
    group >> again("a") << nothing
    assert list(group.group.parked()) == ["a"]
    group >> again("b") << joined("a") << joined("b") >> sync("b", 2)
    assert list(group.group.parked()) == ["b"]
