"""The table of moves, against what Kafka's ClassicGroupState allows."""

import itertools

import pytest

from broker.groups.states import ENTERED_FROM, GroupState, may_move

EMPTY, PREPARING = GroupState.EMPTY, GroupState.PREPARING_REBALANCE
COMPLETING, STABLE = GroupState.COMPLETING_REBALANCE, GroupState.STABLE
DEAD = GroupState.DEAD

LEGAL = {
    (EMPTY, PREPARING),
    (EMPTY, DEAD),
    (PREPARING, EMPTY),
    (PREPARING, COMPLETING),
    (COMPLETING, PREPARING),
    (COMPLETING, STABLE),
    (STABLE, PREPARING),
}


@pytest.mark.parametrize(("before", "after"), itertools.product(GroupState, GroupState))
def test_only_these_moves_are_legal(before, after):
    assert may_move(before, after) == ((before, after) in LEGAL)


def test_every_state_can_be_entered():
    assert set(ENTERED_FROM) == set(GroupState)


def test_the_names_are_the_ones_clients_see():
    assert [str(state) for state in GroupState] == [
        "Empty",
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
        "Dead",
    ]
