"""What of a group is stored, who waits for that, and what a restart makes of it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.groups.commands import TimerKey, TimerKind, Written
from broker.groups.snapshot import GroupSnapshot, MemberSnapshot, decode, encode
from broker.groups.states import GroupState
from tests.support.playbook import (
    Playbook,
    again,
    alive,
    commit,
    completing,
    heartbeat,
    hold,
    join,
    joined,
    leave,
    left,
    nothing,
    refused,
    stable,
    stored,
    sync,
    synced,
    tick,
)

TEXT = st.text(max_size=8)
MS = st.integers(0, 2**31 - 1)
PROTOCOLS = st.lists(st.tuples(TEXT, st.binary(max_size=8)), max_size=3).map(tuple)
MEMBERS = st.builds(
    MemberSnapshot, TEXT, st.none() | TEXT, TEXT, TEXT, MS, MS, PROTOCOLS, st.binary()
)
GROUPS = st.builds(
    GroupSnapshot,
    TEXT,
    MS,
    TEXT,
    TEXT,
    st.none() | st.integers(0, 2**62),
    st.lists(MEMBERS, max_size=3).map(tuple),
)


@pytest.fixture
def group():
    book = Playbook()
    yield book
    book.finish()


def restarted(book: Playbook, **limits: int) -> Playbook:
    """The group after a restart of the broker, from the text in the catalog."""
    again = Playbook(**limits)
    again.now_ms = book.now_ms
    again.restore(decode(encode(book.group.snapshot())))
    return again


# -- the text -----------------------------------------------------------------


@given(GROUPS)
def test_a_snapshot_is_read_as_it_was_written(snapshot):
    text = encode(snapshot)
    assert text.isascii()
    assert decode(text) == snapshot


def test_names_of_any_kind_survive():
    odd = "\0\N{SNOWMAN}\ud800'\""
    member = MemberSnapshot(odd, odd, odd, odd, 1, 2, ((odd, b"\xff"),), b"\0")
    snapshot = GroupSnapshot(odd, 1, odd, odd, None, (member,))
    assert decode(encode(snapshot)) == snapshot


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "7", '{"version":1,"members":[{}]}', "{"]
)
def test_what_is_no_snapshot_is_said_to_be_none(text):
    with pytest.raises(ValueError, match=r"metadata of a group|Expecting"):
        decode(text)


def test_a_version_of_the_future_is_not_guessed_at():
    fields = json.loads(encode(GroupSnapshot("consumer", 1, "", "", 5)))
    with pytest.raises(ValueError, match="version 2"):
        decode(json.dumps(fields | {"version": 2}))


# -- before an answer ---------------------------------------------------------


def test_syncs_are_answered_once_the_generation_is_stored(group):
    completing(group, "a", "b")
    (
        group
        >> hold
        >> sync("b", 1)
        >> sync("a", 1, {"a": b"1", "b": b"2"})
        << nothing
        >> heartbeat("a", 1)
        << alive("a")
        >> commit("a", 1)
        << refused("a", "REBALANCE_IN_PROGRESS")
    )
    assert group.stores[0].snapshot == group.group.snapshot()
    group >> stored() << synced("a", b"1") << synced("b", b"2")
    assert group.group.state is GroupState.STABLE


def test_who_syncs_while_the_generation_is_stored_waits_too(group):
    completing(group, "a", "b")
    group >> hold >> sync("a", 1, {"b": b"2"}) >> sync("b", 1) << nothing
    group >> stored() << synced("a", b"") << synced("b", b"2")


def test_a_generation_that_cannot_be_stored_is_over(group):
    completing(group, "a", "b")
    (
        group
        >> hold
        >> sync("b", 1)
        >> sync("a", 1, {"a": b"1"})
        >> stored("COORDINATOR_NOT_AVAILABLE")
        << refused("a", "COORDINATOR_NOT_AVAILABLE")
        << refused("b", "COORDINATOR_NOT_AVAILABLE")
        >> heartbeat("b", 1)
        << refused("b", "REBALANCE_IN_PROGRESS")
        >> again("a")
        >> again("b")
        << joined("a", generation=2)
        << joined("b", generation=2)
    )
    assert all(not member.assignment for member in group.group.roster)


def test_members_of_a_generation_that_could_not_be_stored_are_watched(group):
    completing(group, "a")
    group >> hold >> sync("a", 1) >> stored("COORDINATOR_NOT_AVAILABLE")
    group << refused("a", "COORDINATOR_NOT_AVAILABLE") >> tick(10_000) << nothing
    assert group.group.state is GroupState.EMPTY


@pytest.mark.parametrize("code", ["NONE", "COORDINATOR_NOT_AVAILABLE"])
def test_what_becomes_of_an_old_generation_does_not_matter(group, code):
    completing(group, "a")
    group >> hold >> sync("a", 1, {"a": b"1"}) >> join("b")
    group << refused("a", "REBALANCE_IN_PROGRESS") >> stored(code) << nothing
    group >> again("a") << joined("a", generation=2) << joined("b", generation=2)
    group >> stored(code) << nothing


def test_of_a_leader_that_syncs_twice_the_last_word_counts(group):
    completing(group, "a")
    group >> hold >> sync("a", 1, {"a": b"1"}) >> sync("a", 1, {"a": b"2"})
    group << refused("a", "REBALANCE_IN_PROGRESS")
    first, last = group.stores
    group.say(Written(first.serial))
    group << nothing
    assert last.snapshot.members[0].assignment == b"2"
    group >> stored() << synced("a", b"2")


def test_a_session_that_ran_out_while_the_group_was_stored_starts_anew(group):
    completing(group, "a")
    group >> hold >> sync("a", 1) >> tick(20_000) << nothing >> stored()
    group << synced("a", b"") >> tick(9_999) >> heartbeat("a", 1) << alive("a")
    group >> tick(10_000)
    assert not group.group.roster


def test_a_static_member_hears_its_new_id_once_that_is_stored(group):
    stable(group, "a", instance_id="i")
    group >> hold >> join("a2", instance_id="i") << nothing
    (stored_member,) = group.stores[0].snapshot.members
    assert (stored_member.member_id, stored_member.assignment) == ("a2", b"a")
    group >> stored() << joined("a2", generation=1) >> sync("a2", 1)
    group << synced("a2", b"a")


def test_the_session_of_a_static_member_starts_when_it_hears_its_id(group):
    stable(group, "a", instance_id="i")
    group >> hold >> join("a2", instance_id="i") >> tick(20_000) << nothing
    group >> stored() << joined("a2", generation=1) >> tick(9_999)
    assert "a2" in group.group.roster
    group >> tick(1)
    assert not group.group.roster


def test_a_static_member_whose_id_cannot_be_stored_comes_again(group):
    stable(group, "a", instance_id="i")
    group >> hold >> join("a2", instance_id="i") >> stored("COORDINATOR_NOT_AVAILABLE")
    group << refused("a2", "COORDINATOR_NOT_AVAILABLE")
    group >> join("a3", instance_id="i") >> stored() << joined("a3", generation=1)


def test_a_static_member_that_comes_twice_is_answered_as_the_last(group):
    stable(group, "a", instance_id="i")
    group >> hold >> join("a2", instance_id="i") >> join("a3", instance_id="i")
    group << refused("a2", "FENCED_INSTANCE_ID") >> stored()
    group << joined("a3", member_id="a3", generation=1)


def test_a_rebalance_takes_a_static_member_along_that_waits_to_be_stored(group):
    stable(group, "a", instance_id="i")
    group >> hold >> join("a2", instance_id="i") >> join("b")
    group << joined("a2", generation=2) << joined("b", generation=2)
    group >> stored() << nothing


def test_an_emptied_group_is_stored_and_nobody_waits(group):
    stable(group, "a")
    group >> hold >> tick(5_000) >> leave("a") << left("NONE")
    empty = GroupSnapshot("consumer", 2, "", "", group.now_ms)
    assert group.stores[0].snapshot == empty
    group >> stored("COORDINATOR_NOT_AVAILABLE") << nothing


# -- after a restart ----------------------------------------------------------


def test_members_go_on_in_their_generation(group):
    stable(group, "a", "b")
    (
        restarted(group)
        >> heartbeat("a", 1)
        << alive("a")
        >> commit("b", 1)
        << alive("b")
        >> sync("b", 1)
        << synced("b", b"b")
        >> again("b")
        << joined("b", generation=1, leader_id="a", members=())
        >> heartbeat("a", 2)
        << refused("a", "ILLEGAL_GENERATION")
    )


def test_a_member_that_does_not_come_back_expires(group):
    stable(group, "a", "b")
    group >> tick(9_000)
    book = restarted(group)
    book >> tick(9_000) >> heartbeat("a", 1) << alive("a") >> tick(1_000)
    book >> heartbeat("a", 1) << refused("a", "REBALANCE_IN_PROGRESS")
    book >> again("a") << joined("a", generation=2, leader_id="a")
    assert "b" not in book.group.roster


def test_a_static_member_keeps_its_place(group):
    stable(group, "a", instance_id="i")
    book = restarted(group)
    book >> heartbeat("a", 1, "other") << refused("a", "UNKNOWN_MEMBER_ID")
    book >> join("a2", instance_id="i") << joined("a2", generation=1)
    book >> heartbeat("a", 1, "i") << refused("a", "FENCED_INSTANCE_ID")


def test_an_empty_group_keeps_its_kind_generation_and_age(group):
    stable(group, "a")
    group >> leave("a") << left("NONE")
    emptied_ms = group.now_ms
    group >> tick(1_000)
    book = restarted(group)
    assert book.group.describe().protocol_type == "consumer"
    assert book.group.retention_state().empty_since_ms == emptied_ms
    assert not book.timers
    book >> join("b") >> tick(3_000) << joined("b", generation=3)


def test_a_group_above_a_lowered_maximum_joins_again(group):
    stable(group, "a", "b")
    book = restarted(group, members_max=1)
    assert book.group.state is GroupState.PREPARING_REBALANCE
    assert TimerKey(TimerKind.JOIN) in book.timers
    book >> again("b") >> again("a") << refused("a", "GROUP_MAX_SIZE_REACHED")
    book << joined("b", generation=2)
