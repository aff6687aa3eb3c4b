"""The states of a transactional id, and the moves between them, as one visible table.

A transactional id is a name under which one producer at a time writes to many
partitions as if at once. It *begins* with the first partition that is added, is *ended*
by the producer's word or by its timeout, and is *complete* when each of its partitions
has a marker that says how it ended. From the moment that an end is decided (a Prepare
state, durable) it can end in no other way, whatever crashes.

    state           InitProducerId   AddPartitions...   EndTxn v1   EndTxn v2
    Empty           new epoch        begins             48          ending.py
    Ongoing         aborts, 51       adds               prepares    prepares
    PrepareCommit   51               51                 51 (*)      51 (*)
    PrepareAbort    51               51                 51 (*)      51 (*)
    CompleteCommit  new epoch        begins             ok (*)      ending.py
    CompleteAbort   new epoch        begins             ok (*)      ending.py
    Dead            15               15                 15          15

    48 INVALID_TXN_STATE    51 CONCURRENT_TRANSACTIONS    15 COORDINATOR_NOT_AVAILABLE
    (*) if the same end is asked for again; 48 if the other one is
    ending.py has the table of version 2, which goes by the epoch as well

In every state another producer id than the current one is refused with 49
(INVALID_PRODUCER_ID_MAPPING), another epoch with 90 (PRODUCER_FENCED).

Source: Kafka's ``TransactionState``; its ``PrepareEpochFence`` is not a state here,
because whoever fences prepares the abort in the same step.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class TransactionState(StrEnum):
    """Where a transactional id stands; the values are what ListTransactions shows."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"


COMPLETE = frozenset(
    {TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)
PREPARED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
IDLE = COMPLETE | {TransactionState.EMPTY}
"""Nothing is open: an epoch may be given, a transaction begun, the id forgotten."""

# state -> the states it may be entered from (TransactionState.validPreviousStates)
ENTERED_FROM: Mapping[TransactionState, frozenset[TransactionState]] = MappingProxyType(
    {
        TransactionState.EMPTY: IDLE,
        TransactionState.ONGOING: IDLE | {TransactionState.ONGOING},
        TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
        # v2: a producer may abort what it is not sure to have begun
        TransactionState.PREPARE_ABORT: IDLE | {TransactionState.ONGOING},
        TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
        TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
        TransactionState.DEAD: IDLE,
    }
)


def may_move(before: TransactionState, after: TransactionState) -> bool:
    """Whether a transactional id in state ``before`` may go to ``after``."""
    return before in ENTERED_FROM[after]
