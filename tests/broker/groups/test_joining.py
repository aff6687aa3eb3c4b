"""Who may come in, told as dialogues."""

import struct

import pytest

from broker.groups.commands import Alive, MemberSummary
from broker.groups.states import GroupState
from tests.support.playbook import (
    Playbook,
    again,
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


def subscription(*topics: str, user_data: bytes = b"") -> bytes:
    names = b"".join(struct.pack(">h", len(t)) + t.encode() for t in topics)
    return struct.pack(">hi", 0, len(topics)) + names + user_data


@pytest.fixture
def group():
    book = Playbook()
    yield book
    book.finish()


def test_the_first_member_leads_after_the_initial_delay(group):
    (
        group
        >> join("a")
        >> tick(2_999)
        << nothing
        >> tick(1)
        << joined(
            "a",
            generation=1,
            leader_id="a",
            protocol_type="consumer",
            protocol_name="range",
            members=(MemberSummary("a", None, b"meta"),),
            skip_assignment=False,
        )
    )


def test_a_second_member_makes_the_first_rejoin(group):
    stable(group, "a")
    (
        group
        >> join("b")
        << nothing
        >> heartbeat("a", 1)
        << refused("a", "REBALANCE_IN_PROGRESS")
        >> again("a")
        << joined("a", generation=2, leader_id="a")
        << joined("b", generation=2, leader_id="a", members=())
    )


def test_an_empty_member_id_gets_one_first(group):
    (
        group
        >> join("b", requires_member_id=True)
        << refused("b", "MEMBER_ID_REQUIRED", member_id="b")
        >> again("b")
        >> tick(3_000)
        << joined("b", member_id="b", generation=1)
    )


def test_a_rebalance_waits_for_a_pending_id_until_its_session_is_over(group):
    stable(group, "a")
    (
        group
        >> join("b", requires_member_id=True, session_timeout_ms=7_000)
        << refused("b", "MEMBER_ID_REQUIRED")
        >> again("a")
        << nothing
        >> tick(6_999)
        << nothing
        >> tick(1)
        << joined("a", generation=2)
        >> again("b")
        << refused("b", "UNKNOWN_MEMBER_ID", member_id="b")
    )


def test_a_join_of_an_unknown_id_is_refused(group):
    group >> again("x") << refused("x", "UNKNOWN_MEMBER_ID", member_id="x")
    stable(group, "a")
    group >> again("x") << refused("x", "UNKNOWN_MEMBER_ID", member_id="x")


@pytest.mark.parametrize(
    "fields",
    [
        {"protocol_type": "connect"},
        {"protocols": (("sticky", b""),)},
        {"protocols": ()},
        {"protocol_type": ""},
    ],
)
def test_a_member_that_shares_no_protocol_is_refused(group, fields):
    stable(group, "a")
    group >> join("b", **fields) << refused("b", "INCONSISTENT_GROUP_PROTOCOL")


@pytest.mark.parametrize("fields", [{"protocol_type": ""}, {"protocols": ()}])
def test_even_the_first_member_must_say_what_it_speaks(group, fields):
    group >> join("a", **fields) << refused("a", "INCONSISTENT_GROUP_PROTOCOL")


def test_an_emptied_group_may_become_of_another_kind(group):
    stable(group, "a")
    group >> leave("a") << left("NONE")
    group >> join("w", protocol_type="connect", protocols=(("v1", b""),))
    group >> tick(3_000) << joined("w", generation=3, protocol_type="connect")


def test_a_follower_that_lost_its_answer_gets_it_again(group):
    completing(group, "a", "b")
    group >> again("b") << joined("b", generation=1, members=())


def test_a_leader_that_lost_its_answer_gets_it_again_with_the_members(group):
    completing(group, "a", "b")
    group >> again("a")
    (_, answer) = group.answers.popleft()
    assert [m.member_id for m in answer.members] == ["a", "b"]


def test_a_follower_of_a_stable_group_gets_the_current_generation(group):
    stable(group, "a", "b")
    group >> again("b") << joined("b", generation=1, leader_id="a")
    assert group.group.state is GroupState.STABLE


def test_a_leader_that_rejoins_a_stable_group_wants_a_rebalance(group):
    stable(group, "a", "b")
    group >> again("a") << nothing
    assert group.group.state is GroupState.PREPARING_REBALANCE
    group >> again("b") << joined("a", generation=2) << joined("b", generation=2)


@pytest.mark.parametrize("bring", [stable, completing])
def test_changed_metadata_makes_a_rebalance(group, bring):
    bring(group, "a", "b")
    group >> again("b", protocols=(("range", b"other"),)) << nothing
    group >> again("a")
    group << joined(
        "a",
        generation=2,
        members=(
            MemberSummary("a", None, b"meta"),
            MemberSummary("b", None, b"other"),
        ),
    )
    group << joined("b", generation=2)


def test_a_second_join_of_a_parked_member_sends_the_first_back(group):
    stable(group, "a", "b")
    (
        group
        >> join("first", "b", protocols=(("range", b"1"),))
        >> join("second", "b", protocols=(("range", b"2"),))
        << refused("first", "REBALANCE_IN_PROGRESS", member_id="b")
        >> again("a")
        << joined("a", generation=2)
        << joined("second", generation=2)
    )


def test_a_full_group_takes_nobody_else():
    book = Playbook(members_max=2)
    stable(book, "a", "b")
    book >> join("c") << refused("c", "GROUP_MAX_SIZE_REACHED", member_id="")
    assert book.group.state is GroupState.STABLE
    book >> again("b") << joined("b", generation=1)
    book.finish()


def test_what_members_say_of_their_assignors_is_bounded_for_all_of_them():
    book = Playbook(metadata_bytes_max=30)
    little, much = (("range", b"x" * 5),), (("range", b"x" * 16),)
    stable(book, "a", "b", protocols=little)
    full = "GROUP_MAX_SIZE_REACHED"
    book >> join("c", protocols=(("range", b"x" * 6),)) << refused("c", full)
    book >> again("b", protocols=much) << refused("b", full)
    book >> heartbeat("b", 1) << ("b", Alive, {})
    (
        book
        >> again("a", protocols=little)
        >> again("b", protocols=(("range", b"y" * 15),))
    )
    book << joined("a", generation=2) << joined("b", generation=2)
    book.finish()


def test_what_a_new_member_says_may_fill_the_bound_to_its_last_byte():
    book = Playbook(metadata_bytes_max=30)
    little = (("range", b"x" * 5),)
    stable(book, "a", "b", protocols=little)
    book >> join("c", protocols=little)
    book >> again("a", protocols=little) >> again("b", protocols=little)
    for member in "abc":
        book << joined(member, generation=2)
    book.finish()


def test_who_says_too_much_is_not_waited_for():
    book = Playbook(metadata_bytes_max=30)
    stable(book, "a")
    book >> join("c", requires_member_id=True) << refused("c", "MEMBER_ID_REQUIRED")
    book >> again("a") << nothing
    book >> again("c", protocols=(("range", b"x" * 40),))
    book << refused("c", "GROUP_MAX_SIZE_REACHED") << joined("a", generation=2)
    book.finish()


def test_who_rejoins_a_full_rebalance_too_late_is_out():
    book = Playbook(members_max=2)
    stable(book, "a", "b")
    (
        book
        >> again("a")
        >> join("c")
        >> again("b")
        << refused("b", "GROUP_MAX_SIZE_REACHED")
        << joined("a", generation=2)
        << joined("c", generation=2)
    )
    book.finish()


# -- static members (KIP-345, KIP-814) ----------------------------------------


def test_a_static_member_needs_no_knock(group):
    group >> join("a", instance_id="i", requires_member_id=True) >> tick(3_000)
    group << joined("a", generation=1, members=(MemberSummary("a", "i", b"meta"),))


def test_a_static_follower_restarts_without_a_rebalance(group):
    stable(group, "a", "b", instance_id=None)
    group >> leave("b") << left("NONE")
    group >> join("s", instance_id="i") >> again("a")
    group << joined("a", generation=2) << joined("s", generation=2)
    group >> sync("a", 2, {"s": b"mine"}) << synced("a", b"") >> sync("s", 2)
    (
        group
        << synced("s", b"mine")
        >> join("s2", instance_id="i")
        << joined("s2", member_id="s2", generation=2, leader_id="a", members=())
        >> sync("s2", 2)
        << synced("s2", b"mine")
        >> again("s", instance_id="i")
        << refused("s", "FENCED_INSTANCE_ID")
        >> heartbeat("s", 2, "i")
        << refused("s", "FENCED_INSTANCE_ID")
    )


def test_a_static_leader_that_restarts_skips_the_assignment(group):
    stable(group, "a", instance_id="i")
    (
        group
        >> join("a2", instance_id="i", can_skip_assignment=True)
        << joined(
            "a2",
            generation=1,
            leader_id="a2",
            skip_assignment=True,
            members=(MemberSummary("a2", "i", b"meta"),),
        )
        >> sync("a2", 1)
        << synced("a2", b"a")
    )


def test_an_older_static_leader_is_told_that_its_old_self_leads(group):
    stable(group, "a", instance_id="i")
    group >> join("a2", instance_id="i")
    group << joined("a2", generation=1, leader_id="a", skip_assignment=False)


def test_a_static_member_with_another_subscription_makes_a_rebalance(group):
    before = (("range", subscription("t", user_data=b"old assignment")),)
    same = (("range", subscription("t")),)
    other = (("range", subscription("t", "u")),)
    stable(group, "a", instance_id="i", protocols=before)
    group >> join("a2", instance_id="i", protocols=same) << joined("a2", generation=1)
    group >> join("a3", instance_id="i", protocols=other) << joined("a3", generation=2)


def test_a_static_member_with_another_assignor_makes_a_rebalance(group):
    both = (("range", b""), ("sticky", b""))
    stable(group, "a", instance_id="i", protocols=both)
    group >> join("a2", instance_id="i", protocols=both[::-1])
    group << joined("a2", generation=2, protocol_name="sticky")
    group >> sync("a2", 2) << synced("a2", b"")
    group >> join("a3", instance_id="i", protocols=both[:1])
    group << joined("a3", generation=3, protocol_name="range")


def test_a_static_worker_of_connect_is_judged_by_its_protocol_alone(group):
    v1, v2 = (("v1", b"1"),), (("v1", b"2"),)
    stable(group, "a", instance_id="i", protocol_type="connect", protocols=v1)
    group >> join("b", instance_id="i", protocol_type="connect", protocols=v2)
    group << joined("b", generation=1)


def test_a_parked_request_of_the_old_self_is_fenced(group):
    (
        group
        >> join("a", instance_id="i")
        >> join("a2", instance_id="i")
        << refused("a", "FENCED_INSTANCE_ID", member_id="a")
        >> tick(3_000)
        << joined("a2", generation=1, leader_id="a2")
    )


def test_a_static_member_that_restarts_before_the_assignment_makes_a_rebalance(group):
    completing(group, "a", "b", instance_id=None)
    group >> leave("b") << left("NONE") >> join("s", instance_id="i") >> again("a")
    group << joined("a", generation=2) << joined("s", generation=2)
    group >> join("s2", instance_id="i") << nothing
    group >> again("a") << joined("a", generation=3) << joined("s2", generation=3)
