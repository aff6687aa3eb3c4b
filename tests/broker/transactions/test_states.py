"""The table of states: every move that a machine makes is in it, and no dead end is."""

from broker.transactions.states import (
    COMPLETE,
    ENTERED_FROM,
    IDLE,
    PREPARED,
    TransactionState,
    may_move,
)


def test_every_state_but_dead_can_be_left_and_every_one_be_entered() -> None:
    assert set(ENTERED_FROM) == set(TransactionState)
    left = frozenset[TransactionState]().union(*ENTERED_FROM.values())
    assert left == set(TransactionState) - {TransactionState.DEAD}


def test_what_is_decided_is_never_undone() -> None:
    commit, abort = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
    after = [state for state in TransactionState if may_move(commit, state)]
    assert after == [TransactionState.COMPLETE_COMMIT]
    after = [state for state in TransactionState if may_move(abort, state)]
    assert after == [TransactionState.COMPLETE_ABORT]


def test_only_what_is_begun_is_committed() -> None:
    assert ENTERED_FROM[TransactionState.PREPARE_COMMIT] == {TransactionState.ONGOING}


def test_each_state_is_in_one_kind() -> None:
    assert not COMPLETE & PREPARED
    assert COMPLETE < IDLE
    alone = {TransactionState.ONGOING, TransactionState.DEAD}
    assert IDLE | PREPARED | alone == set(TransactionState)
