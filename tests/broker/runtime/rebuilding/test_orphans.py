"""How a transaction ends that nobody knows any more."""

from broker.runtime.rebuilding.orphans import OpenPart, SeenMarker, ended
from broker.transactions.metadata import EPOCH_MAX, V1, V2
from broker.transactions.snapshot import decode, encode
from broker.transactions.states import TransactionState
from broker.transactions.transaction import owed_by

NOW = 1_000
FIRST, SECOND, THIRD = (1, 0), (1, 1), (2, 0)


def test_without_a_marker_it_is_aborted_and_its_producer_is_fenced():
    parts = [OpenPart(7, 3, FIRST, 10, 100), OpenPart(7, 3, THIRD, 5, 200)]
    [one] = ended(parts, [], NOW)
    assert not one.commits
    assert one.proof is None
    owed = owed_by(one.metadata, 0)
    assert (owed.producer_id, owed.producer_epoch, owed.commit) == (7, 4, False)
    assert (owed.partitions, owed.fences, owed.version) == ({FIRST, THIRD}, True, V1)
    assert decode(encode(one.metadata)) == one.metadata


def test_a_marker_behind_its_beginning_says_how_it_ends():
    parts = [OpenPart(7, 3, FIRST, 10, 100), OpenPart(7, 3, THIRD, 5, 200)]
    for epoch, version in ((3, V1), (4, V2)):
        [one] = ended(parts, [SeenMarker(7, epoch, SECOND, 300, True)], NOW)
        assert (one.commits, one.proof) == (True, SECOND)
        owed = owed_by(one.metadata, 0)
        assert (owed.producer_epoch, owed.version) == (epoch, version)
    [one] = ended(parts, [SeenMarker(7, 3, SECOND, 300, False)], NOW)
    assert (one.commits, one.proof) == (False, SECOND)
    assert one.metadata.state is TransactionState.PREPARE_ABORT


def test_a_marker_of_another_transaction_says_nothing():
    part = OpenPart(7, 3, FIRST, 10, 200)
    for marker in (
        SeenMarker(7, 3, SECOND, 100, True),  # of the one before
        SeenMarker(8, 3, SECOND, 300, True),
        SeenMarker(7, 5, SECOND, 300, True),
        SeenMarker(7, 2, SECOND, 300, True),
    ):
        [one] = ended([part], [marker], NOW)
        assert (one.commits, one.proof) == (False, None)


def test_of_what_lies_in_no_segment_nothing_is_proven():
    part = OpenPart(7, 3, FIRST, 10, None)
    [one] = ended([part], [SeenMarker(7, 3, SECOND, 300, True)], NOW)
    assert not one.commits


def test_each_producer_has_its_own():
    parts = [OpenPart(9, 0, FIRST, 1, 1), OpenPart(7, EPOCH_MAX, FIRST, 2, 2)]
    found = ended(parts, [], NOW)
    assert [one.metadata.producer_id for one in found] == [7, 9]
    assert found[0].metadata.producer_epoch == EPOCH_MAX
    assert len({one.transactional_id for one in found}) == 2
