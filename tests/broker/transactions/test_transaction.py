"""The state of a transactional id, and what its events do to it."""

import pytest

from broker.transactions.commands import Owed
from broker.transactions.metadata import TransactionMetadata
from broker.transactions.states import TransactionState
from broker.transactions.transaction import (
    Completed,
    EndAnswered,
    EndParked,
    Transaction,
    WriteBegan,
    WriteEnded,
    WriteFailed,
)

IDLE = TransactionMetadata(1, 0)
OPEN = IDLE.moved(TransactionState.ONGOING, 5, partitions=frozenset({(1, 2)}))
WIDER = OPEN.moved(TransactionState.ONGOING, 6, groups=frozenset({"g"}))
ENDING = WIDER.moved(TransactionState.PREPARE_COMMIT, 7)
OVER = ENDING.moved(TransactionState.COMPLETE_COMMIT, 8, partitions=frozenset())


def after(*events, metadata=IDLE) -> Transaction:
    transaction = Transaction("t", metadata)
    for event in events:
        transaction.apply(event)
    return transaction


def test_what_is_being_written_does_not_hold_yet() -> None:
    transaction = after(WriteBegan(1, OPEN))
    assert (transaction.metadata, transaction.newest) == (IDLE, OPEN)
    assert transaction.is_pending
    transaction.apply(WriteEnded(1))
    assert (transaction.metadata, transaction.newest) == (OPEN, OPEN)
    assert not transaction.is_pending


def test_what_could_not_be_written_never_was() -> None:
    transaction = after(WriteBegan(1, OPEN), WriteFailed(1))
    assert (transaction.metadata, transaction.newest) == (IDLE, IDLE)
    assert not transaction.is_behind


def test_the_newest_value_counts_in_whatever_order_the_writes_end() -> None:
    began = WriteBegan(1, OPEN), WriteBegan(2, WIDER)
    assert after(*began).newest == WIDER
    assert after(*began, WriteFailed(1), WriteEnded(2)).metadata == WIDER
    assert after(*began, WriteFailed(2), WriteEnded(1)).metadata == OPEN
    assert after(*began, WriteEnded(2), WriteEnded(1)).metadata == WIDER


def test_markers_are_owed_from_the_durable_decision_to_the_last_of_them() -> None:
    transaction = after(WriteBegan(3, ENDING), metadata=WIDER)
    assert transaction.owed is None
    transaction.apply(WriteEnded(3))
    parts = frozenset({(1, 2)}), frozenset({"g"})
    assert transaction.owed == Owed(3, 1, 0, True, *parts, 1)
    transaction.apply(Completed(OVER))
    assert transaction.owed is None


def test_a_transaction_that_a_crash_left_prepared_owes_its_markers() -> None:
    owed = Transaction("t", ENDING).owed
    assert owed is not None
    assert (owed.serial, owed.commit) == (0, True)


def test_a_complete_transaction_is_behind_until_something_is_written() -> None:
    transaction = after(Completed(OVER), metadata=ENDING)
    assert transaction.is_behind
    assert not transaction.is_pending
    again = WriteBegan(1, OVER)
    transaction.apply(again)
    assert not transaction.is_behind
    assert not transaction.is_pending, "it means no change"
    transaction.apply(WriteFailed(1))
    assert transaction.is_behind


def test_a_failed_write_before_one_that_is_on_its_way_leaves_nothing_behind() -> None:
    transaction = after(Completed(OVER), WriteBegan(1, OVER), metadata=ENDING)
    transaction.apply(WriteBegan(2, OVER.moved(TransactionState.ONGOING, 9)))
    transaction.apply(WriteFailed(1))
    assert not transaction.is_behind


def test_a_completion_of_what_is_not_prepared_is_our_mistake() -> None:
    with pytest.raises(AssertionError):
        after(Completed(OVER), metadata=OPEN)


def test_who_ends_it_waits_until_it_is_answered() -> None:
    transaction = after(EndParked("a"), EndParked("b"))
    assert list(transaction.waiting()) == ["a", "b"]
    transaction.apply(EndAnswered())
    assert not list(transaction.waiting())


def test_an_id_without_epoch_or_row_was_never_used() -> None:
    assert Transaction("t").never_used()
    assert not after(WriteBegan(1, IDLE), metadata=TransactionMetadata()).never_used()
    assert not Transaction("t", IDLE).never_used()
    assert Transaction("t", IDLE.moved(TransactionState.DEAD, 9)).never_used()
