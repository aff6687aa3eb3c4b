"""Each event changes what its name says, and nothing else."""

import pytest

from broker.groups import events
from broker.groups.group import ASSIGNMENT, Group, Takeover
from broker.groups.members import Member
from broker.groups.states import GroupState

ONE = Member("a", None, "", "", 10, 20, (("range", b""),))
TWO = Member("b", None, "", "", 10, 20, (("range", b""),))
TAKEOVER = Takeover("a", "t", "", False)


def group_after(*happened) -> Group:
    group = Group("g", 5)
    for event in happened:
        group.apply(event)
    return group


@pytest.mark.parametrize(
    ("happened", "changed"),
    [
        ([events.LeaderElected("a")], {"leader_id": "a"}),
        ([events.TypeChosen("connect")], {"protocol_type": "connect"}),
        ([events.MoreJoined()], {"arrived": True}),
        ([events.WaitExtended(7)], {"initial_remaining_ms": 7}),
        ([events.MoreJoined(), events.WaitExtended(0)], {}),
        (
            [events.GenerationBegan(1, "range")],
            {"generation": 1, "protocol_name": "range", "said": ()},
        ),
        ([events.MembersPut(())], {}),
        (
            [events.StateMoved(GroupState.PREPARING_REBALANCE, 9)],
            {"state": GroupState.PREPARING_REBALANCE, "empty_since_ms": None},
        ),
        ([events.WriteBegan(1, None)], {"writes": 1}),
        ([events.WriteBegan(1, None, TAKEOVER), events.WriteEnded(1)], {"writes": 1}),
        (
            [events.WriteBegan(2, None, TAKEOVER), events.RebalanceBegan()],
            {"writes": 2},
        ),
        ([events.WriteEnded(9)], {}),
    ],
)  # fmt: skip
def test_an_event_changes_what_it_names(happened, changed):
    wanted = Group("g", 5)
    for name, value in changed.items():
        setattr(wanted, name, value)
    assert group_after(*happened) == wanted


def test_members_come_change_sync_and_go():
    group = group_after(
        events.MemberPut(ONE), events.MemberPut(TWO), events.GenerationBegan(1, "range")
    )
    assert (list(group.roster), group.unsynced) == ([ONE, TWO], {"a", "b"})
    group.apply(events.MemberSynced("a"))
    group.apply(events.MemberRemoved("a"))
    assert (list(group.roster), group.unsynced) == ([TWO], {"b"})
    group.apply(events.RebalanceBegan())
    assert not group.unsynced


def test_many_members_change_by_one_event():
    group = group_after(events.MembersPut((ONE, TWO)))
    parked = ONE._replace(join_ticket="j"), TWO._replace(sync_ticket="s")
    group.apply(events.MembersPut(parked))
    assert (tuple(group.roster), group.roster.joining) == (parked, 1)


def test_ids_that_were_given_are_known_until_they_are_dropped():
    group = group_after(events.MemberIdAssigned("p"), events.MemberIdAssigned("q"))
    group.apply(events.MemberIdDropped("p"))
    assert group.roster.pending == {"q"}


def test_a_group_is_empty_since_it_became_so():
    states = GroupState.PREPARING_REBALANCE, GroupState.EMPTY
    group = group_after(*(events.StateMoved(state, 9) for state in states))
    assert (group.state, group.state_before, group.empty_since_ms) == (*states[::-1], 9)


def test_an_illegal_move_is_our_mistake():
    with pytest.raises(AssertionError, match=r"Empty -> Stable"):
        group_after(events.StateMoved(GroupState.STABLE, 0))


def test_of_two_assignments_the_last_counts_and_takeovers_stand_side_by_side():
    first = events.WriteBegan(1, None, ASSIGNMENT)
    group = group_after(first, events.WriteBegan(2, None, ASSIGNMENT))
    assert group.writing == {2: ASSIGNMENT}
    took = [events.WriteBegan(n, None, TAKEOVER) for n in (1, 2)]
    assert group_after(*took).writing == {1: TAKEOVER, 2: TAKEOVER}


def test_only_what_outlives_the_broker_is_durable():
    kinds = [one for one in vars(events).values() if hasattr(one, "change")]
    durable = [one.__name__ for one in kinds if one.durable]
    assert durable == ["WriteBegan"]
