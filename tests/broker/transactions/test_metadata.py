"""The value of a transactional id: what follows it, and what it says of itself."""

import pytest

from broker.transactions.metadata import EPOCH_MAX, TransactionMetadata
from broker.transactions.states import TransactionState


def test_each_value_remembers_the_producer_id_before() -> None:
    first = TransactionMetadata(producer_id=7, producer_epoch=3)
    after = first.moved(TransactionState.ONGOING, 50, producer_id=8)
    assert (after.producer_id, after.previous_producer_id) == (8, 7)
    assert (after.state, after.updated_ms) == (TransactionState.ONGOING, 50)
    assert first == TransactionMetadata(producer_id=7, producer_epoch=3)


def test_a_move_that_the_table_does_not_have_is_our_mistake() -> None:
    with pytest.raises(AssertionError, match="Empty -> PrepareCommit"):
        TransactionMetadata().moved(TransactionState.PREPARE_COMMIT, 0)


@pytest.mark.parametrize(
    ("epoch", "is_new", "is_exhausted"),
    [
        (-1, True, False),
        (0, False, False),
        (EPOCH_MAX - 2, False, False),
        (EPOCH_MAX - 1, False, True),
        (EPOCH_MAX, False, True),
    ],
)
def test_an_epoch_below_the_last_is_kept_for_fencing(epoch, is_new, is_exhausted):
    metadata = TransactionMetadata(1, epoch)
    assert metadata.is_new is is_new
    assert metadata.is_exhausted is is_exhausted


@pytest.mark.parametrize("state", TransactionState)
def test_partitions_are_open_until_the_transaction_is_over(state) -> None:
    metadata = TransactionMetadata(1, 0, state, partitions=frozenset({(1, 2)}))
    assert metadata.open_partitions == (set() if metadata.is_idle else {(1, 2)})


@pytest.mark.parametrize("state", TransactionState)
def test_a_state_is_idle_prepared_or_neither(state) -> None:
    metadata = TransactionMetadata(1, 0, state)
    assert metadata.is_complete is state.startswith("Complete")
    assert metadata.is_prepared is state.startswith("Prepare")
    assert metadata.is_idle is (state == "Empty" or metadata.is_complete)
