"""The states of a classic group, and the moves between them, as one visible table.

A group is a small agreement machine: whoever is there *joins*, one of them (the leader)
decides who gets what, everybody *syncs* to learn it, and from then on heartbeats until
somebody comes, goes or changes its mind. Kafka's ``ClassicGroupState`` documents each
state with what it answers; so do we.

    state                 join          sync        heartbeat   leave      commit
    Empty                 starts        25          25          25         simple only
    PreparingRebalance    parked        27          27 (*)      removed    generation
    CompletingRebalance   current, or   parked      ok          rebalance  27
                          rebalance
    Stable                current, or   assignment  ok          rebalance  generation
                          rebalance
    Dead                  15            15          15          15         15

    25 UNKNOWN_MEMBER_ID    27 REBALANCE_IN_PROGRESS    15 COORDINATOR_NOT_AVAILABLE
    (*) answered 27, and still counted as a sign of life

The price of a table is that it says only *whether* a move is legal; when it happens is
in ``rebalance.py``.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class GroupState(StrEnum):
    """Where a group stands; the values are what DescribeGroups shows."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# state -> the states it may be entered from (ClassicGroupState.validPreviousStates)
ENTERED_FROM: Mapping[GroupState, frozenset[GroupState]] = MappingProxyType(
    {
        GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
        GroupState.PREPARING_REBALANCE: frozenset(
            {GroupState.EMPTY, GroupState.STABLE, GroupState.COMPLETING_REBALANCE}
        ),
        GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
        GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
        # A group dies empty: deletion refuses one with members, and nothing else kills.
        GroupState.DEAD: frozenset({GroupState.EMPTY}),
    }
)


def may_move(before: GroupState, after: GroupState) -> bool:
    """Whether a group in state ``before`` may go to ``after``."""
    return before in ENTERED_FROM[after]
