"""What the judge of transactions allows, and what it does not."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from broker.records.batch import assign
from broker.records.layout import TRANSACTIONAL_BIT
from broker.records.markers import Marker, marker_batch
from tests.simulation.clients import batch_of, read_records
from tests.simulation.model import CommittedModel, PartitionModel, Violation
from tests.simulation.tables import decided
from tests.simulation.transactions import TransactionalIds, TransactionModel


def written(commit_asked: bool) -> tuple[PartitionModel, TransactionModel]:
    """A partition with a record of a transaction at offset 0."""
    part, transaction = PartitionModel("t-0"), TransactionModel("t", commit_asked)
    part.send(b"v", "p", 1)
    part.transactions[b"v"] = transaction
    part.note(0, b"v", "acknowledged")
    return part, transaction


def test_a_record_counts_only_if_somebody_asked_to_commit_it() -> None:
    part, transaction = written(commit_asked=False)
    part.read(0, 1, [(0, b"v")], "how")
    with pytest.raises(Violation, match="nobody asked to commit"):
        part.read(0, 1, [(0, b"v")], "how", committed=True)
    part.read(0, 2, [], "how", committed=True)
    assert transaction.is_committed is False


def seen(part: PartitionModel) -> None:
    part.read(0, 1, [(0, b"v")], "how", committed=True)


def missed(part: PartitionModel) -> None:
    part.read(0, 1, [], "how")


Look = Callable[[PartitionModel], None]


@pytest.mark.parametrize(("first", "then"), [(seen, missed), (missed, seen)])
def test_a_transaction_is_seen_whole_or_not_at_all(first: Look, then: Look) -> None:
    part, _ = written(commit_asked=True)
    first(part)
    first(part)
    with pytest.raises(Violation, match="and is not"):
        then(part)


def test_what_was_acknowledged_must_be_seen() -> None:
    for commit, look in ((True, missed), (False, seen)):
        part, transaction = written(commit_asked=True)
        getattr(transaction, "committed" if commit else "aborted")("acknowledged")
        with pytest.raises(Violation, match="acknowledged"):
            look(part)


def test_offsets_of_a_transaction_are_there_if_it_is_committed_and_else_not() -> None:
    known = CommittedModel("g/t/0")
    kept, dropped = TransactionModel("kept", True), TransactionModel("dropped", True)
    for offset, one in ((1, kept), (2, dropped)):
        known.transactions[offset] = one
        known.ask(offset)
        one.offsets.append((known.acknowledge, offset))
    kept.committed("acknowledged")
    dropped.aborted("acknowledged")
    kept.acknowledge_offsets()
    dropped.acknowledge_offsets()
    known.saw(1, known.acknowledged, "how")
    with pytest.raises(Violation, match="committed is -1"):
        known.saw(-1, known.acknowledged, "how")
    with pytest.raises(Violation, match="dropped was aborted"):
        known.saw(2, known.acknowledged, "how")


def test_who_is_fenced_succeeds_no_more_and_nobody_shares_an_epoch() -> None:
    ids = TransactionalIds()
    ids.given("x", (0, 1), "new")
    ids.given("x", (0, 0), "old")
    ids.check(ids.newest["x"], (0, 1), "Produce")
    with pytest.raises(Violation, match="fenced"):
        ids.check(ids.newest["x"], (0, 0), "Produce")
    with pytest.raises(Violation, match="new has"):
        ids.given("x", (0, 1), "old")


def test_what_is_stable_stays_so() -> None:
    part = PartitionModel("t-0")
    part.saw_stable(5, 0, "how")
    with pytest.raises(Violation, match="5 was stable"):
        part.saw_stable(4, part.stable, "how")


def log_of_two() -> list[bytes]:
    """Of producer 1: 0, aborted at 2, then 4; of 2: 1, committed at 3; plain: 5."""
    batches = [
        batch_of([b"a"], 0, (1, 0, 0), TRANSACTIONAL_BIT),
        batch_of([b"b"], 0, (2, 0, 0), TRANSACTIONAL_BIT),
        marker_batch(1, 0, Marker(False), 0),
        marker_batch(2, 0, Marker(True), 0),
        batch_of([b"c"], 0, (1, 0, 1), TRANSACTIONAL_BIT),
        batch_of([b"d"], 0),
    ]
    for offset, batch in enumerate(batches):
        assign(batch, offset)
    return [bytes(batch) for batch in batches]


def test_a_reader_drops_what_was_aborted_up_to_its_marker() -> None:
    records = b"".join(log_of_two())
    every = [(0, b"a"), (1, b"b"), (4, b"c"), (5, b"d")]
    assert read_records(records, 0) == (every, 6)
    aborted = [SimpleNamespace(producer_id=1, first_offset=0)]
    assert read_records(records, 0, aborted) == (every[1:], 6)


def test_a_table_has_what_counts_before_the_first_open_transaction() -> None:
    batches = log_of_two()
    assert decided(batches, 6) == ([batches[1]], 4)
    assert decided(batches[:4], 4) == ([batches[1]], 4)
