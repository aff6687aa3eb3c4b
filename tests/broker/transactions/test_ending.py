"""EndTxn: the tables of both versions, retries, and what is decided for ever."""

import pytest

from broker.transactions.commands import Added, Ended, Initialized
from broker.transactions.ending import completed, prepared, uncompleted
from broker.transactions.metadata import (
    EPOCH_MAX,
    KEPT_PARTITIONS_MAX,
    TransactionMetadata,
)
from broker.transactions.states import TransactionState
from broker.transactions.transaction import owed_by
from broker.transactions.transactional_id import verify
from tests.broker.transactions.book import Book, ongoing, refused

CONCURRENT = refused("CONCURRENT_TRANSACTIONS")
FENCED = refused("PRODUCER_FENCED")
INVALID = refused("INVALID_TXN_STATE")
UNKNOWN = refused("INVALID_PRODUCER_ID_MAPPING")


@pytest.fixture
def book() -> Book:
    return Book()


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_is_answered_when_its_markers_are_written(book: Book, commit) -> None:
    producer = ongoing(book, 1, 2, "g")
    book.holds_markers = True
    assert book.end(producer, commit) is None
    owed = book.transaction.owed
    assert owed is not None
    assert (owed.commit, owed.producer_id, owed.producer_epoch) == (commit, 10, 0)
    assert (owed.partitions, owed.groups) == ({(1, 1), (1, 2)}, {"g"})
    book.write_markers()
    assert book.answers.pop("end") == Ended(10, 0)
    assert book.state == ("CompleteCommit" if commit else "CompleteAbort")
    assert not book.metadata.open_partitions | book.metadata.groups
    again = uncompleted(book.metadata)
    assert owed_by(again, owed.serial) == owed._replace(groups=frozenset())


@pytest.mark.parametrize("version", [1, 2])
def test_no_marker_is_written_before_the_decision_is_durable(book, version) -> None:
    producer = ongoing(book, version=version)
    book.holds_writes = True
    assert book.commit(producer, version=version) is None
    assert book.transaction.owed is None
    assert not book.markers
    book.store()
    assert [marker.commit for marker in book.markers] == [True]


@pytest.mark.parametrize("version", [1, 2])
def test_an_end_that_could_not_be_written_may_be_asked_for_again(book, version):
    producer = ongoing(book, version=version)
    book.holds_writes = True
    assert book.commit(producer, version=version) is None
    book.store(refused("COORDINATOR_NOT_AVAILABLE").code)
    assert book.answers.pop("end") == refused("COORDINATOR_NOT_AVAILABLE")
    assert book.state == "Ongoing"
    book.holds_writes = False
    assert isinstance(book.commit(producer, version=version), Ended)


@pytest.mark.parametrize("version", [1, 2])
def test_a_second_end_waits_for_the_first(book: Book, version: int) -> None:
    producer = ongoing(book, version=version)
    book.holds_writes = True
    book.commit(producer, version=version)
    again = {"version": version, "ticket": "again"}
    assert book.commit(producer, **again) == CONCURRENT
    book.holds_markers = True
    book.store()
    assert book.commit(producer, **again) == CONCURRENT
    assert book.abort(producer, **again) == INVALID
    book.write_markers()
    assert isinstance(book.commit(producer, **again), Ended)
    assert book.abort(producer, **again) == INVALID


@pytest.mark.parametrize("version", [1, 2])
def test_only_the_current_producer_ends_a_transaction(book: Book, version) -> None:
    nobody = Initialized(-1, -1)
    assert Book().commit(nobody, version=version) == UNKNOWN
    ongoing(book, version=version)
    assert book.commit(nobody, version=version) == UNKNOWN
    assert book.commit(Initialized(10, 1), version=version) == FENCED
    assert book.commit(Initialized(10, -1), version=version) == FENCED
    assert book.commit(Initialized(11, 0), version=version) == UNKNOWN
    assert book.state == "Ongoing"


# -- version 1 --------------------------------------------------------------------


def test_version_one_keeps_its_epoch_and_knows_a_retry_by_the_state(book: Book):
    producer = ongoing(book)
    assert book.commit(producer) == Ended(10, 0)
    assert book.commit(producer) == Ended(10, 0)
    assert book.abort(producer) == INVALID
    assert book.add(producer, 4) == Added()
    assert book.abort(producer) == Ended(10, 0)
    assert book.abort(producer) == Ended(10, 0)
    assert book.commit(producer) == INVALID
    assert [marker.commit for marker in book.markers] == [True, False]


@pytest.mark.parametrize("commit", [True, False])
def test_version_one_ends_nothing_that_was_not_begun(book: Book, commit) -> None:
    assert book.end(book.init(), commit) == INVALID


# -- version 2 (KIP-890) ----------------------------------------------------------

ENDS, OK = object(), object()
TABLE = {
    "Empty": (FENCED, ENDS, FENCED, INVALID),
    "CompleteAbort": (OK, ENDS, INVALID, INVALID),
    "CompleteCommit": (INVALID, ENDS, OK, INVALID),
}


def brought_to(state: str) -> tuple[Book, Initialized]:
    """A version 2 book in this state, and its producer as it is now."""
    book = Book(version=2)
    if state == "Empty":
        book.init()
        producer = book.init()
    else:
        end = book.commit if state == "CompleteCommit" else book.abort
        producer = end(ongoing(book, version=2), version=2)
    book.markers.clear()
    assert book.state == state
    return book, producer


@pytest.mark.parametrize("column", range(4))
@pytest.mark.parametrize("state", TABLE)
def test_the_table_of_version_two(state: str, column: int) -> None:
    book, current = brought_to(state)
    commit, is_retry = column >= 2, column % 2 == 0
    epoch = current.producer_epoch - is_retry
    answer = book.end(Initialized(10, epoch), commit, version=2)
    wanted = TABLE[state][column]
    if wanted is ENDS:
        assert answer == Ended(10, current.producer_epoch + 1)
        assert [(m.commit, m.partitions) for m in book.markers] == [(False, set())]
        assert book.state == "CompleteAbort"
    else:
        assert not book.markers
        assert book.state == state
        assert answer == (Ended(10, current.producer_epoch) if wanted is OK else wanted)


def test_version_two_bumps_the_epoch_and_marks_with_the_new_one(book: Book) -> None:
    producer = ongoing(book, 5, version=2)
    assert book.commit(producer, version=2) == Ended(10, 1)
    assert [marker.producer_epoch for marker in book.markers] == [1]
    assert book.add(producer, 5, version=2) == FENCED
    assert book.add(Initialized(10, 1), 5, version=2) == Added()


def test_a_delayed_end_does_not_end_a_later_transaction(book: Book) -> None:
    first = ongoing(book, version=2)
    second = book.commit(first, version=2)
    assert book.add(second, 1, version=2) == Added()
    assert book.commit(first, version=2) == book.abort(first, version=2) == FENCED
    assert book.state == "Ongoing"


def test_a_higher_epoch_than_the_current_is_no_retry(book: Book) -> None:
    ended = book.commit(ongoing(book, version=2), version=2)
    ahead = Initialized(10, ended.producer_epoch + 1)
    assert book.commit(ahead, version=2) == FENCED


def at_the_last_epoch() -> tuple[Book, Initialized]:
    book = Book(version=2)
    book.begin(TransactionMetadata(10, EPOCH_MAX - 1, timeout_ms=1_000))
    producer = Initialized(10, EPOCH_MAX - 1)
    assert book.add(producer, 1, version=2) == Added()
    return book, producer


def test_at_the_last_epoch_the_producer_goes_on_under_a_new_id() -> None:
    book, producer = at_the_last_epoch()
    book.holds_markers = True
    assert book.commit(producer, version=2, new_producer_id=50) is None
    assert book.transaction.owed[1:3] == (10, EPOCH_MAX)
    book.crash()
    book.write_markers()
    assert book.metadata[:2] == (50, 0)
    assert book.commit(producer, version=2) == Ended(50, 0), "a retry"
    assert book.abort(producer, version=2) == INVALID
    assert book.add(Initialized(50, 0), 1, version=2) == Added()
    assert book.commit(producer, version=2) != Ended(50, 0)
    assert book.state == "Ongoing"


@pytest.mark.parametrize("is_last", [False, True])
def test_who_was_answered_waits_over_a_crash_until_its_end_is_complete_again(
    is_last: bool,
) -> None:
    """The row says Prepare a while longer than the producer knows its next epoch."""
    book = Book(version=2)
    book, producer = (
        at_the_last_epoch() if is_last else (book, ongoing(book, version=2))
    )
    current = book.commit(producer, version=2)
    named = current.producer_id, current.producer_epoch
    book.holds_markers = True
    book.crash()
    assert book.state == "PrepareCommit"
    assert book.abort(current, version=2) == CONCURRENT
    assert book.commit(current, version=2) == CONCURRENT
    assert book.add(current, 1, version=2) == CONCURRENT
    assert book.init(*named) == CONCURRENT
    assert verify(book.transaction, *named, (1, 1)) is CONCURRENT.code
    book.write_markers()
    book.holds_markers = False
    assert book.commit(current, version=2) == INVALID
    assert isinstance(book.abort(current, version=2), Ended)


def test_who_is_fenced_at_the_last_epoch_is_not_taken_for_one_that_asks_again() -> None:
    book, producer = at_the_last_epoch()
    book.init()
    assert (book.state, book.metadata.producer_epoch) == ("CompleteAbort", EPOCH_MAX)
    assert book.abort(producer, version=2) == FENCED


def test_without_the_new_id_that_it_needs_an_end_is_to_come_again() -> None:
    book, producer = at_the_last_epoch()
    assert book.commit(producer, version=2, new_producer_id=-1) == CONCURRENT
    assert book.state == "Ongoing"


# -- the two steps ----------------------------------------------------------------


def test_what_was_begun_keeps_its_start_and_what_was_not_begins_with_its_end() -> None:
    idle = TransactionMetadata(1, 0)
    begun = idle.moved(TransactionState.ONGOING, 5, started_ms=5)
    assert prepared(begun, 9, commit=True, version=1).started_ms == 5
    assert prepared(idle, 9, commit=False, version=2).started_ms == 9


@pytest.mark.parametrize("version", [1, 2])
def test_who_was_fenced_may_come_again_unless_epochs_are_used_up(version) -> None:
    metadata = TransactionMetadata(1, 4, TransactionState.ONGOING, last_epoch=3)
    after = prepared(metadata, 0, commit=False, version=version, fences=True)
    assert (after.producer_epoch, after.last_epoch) == (5, 4)
    used_up = metadata._replace(producer_epoch=EPOCH_MAX - 1)
    after = prepared(used_up, 0, commit=False, version=version, fences=True)
    assert (after.producer_epoch, after.last_epoch) == (EPOCH_MAX, -1)


def test_an_end_of_version_1_tells_whether_its_epoch_is_above_that_of_the_records():
    """Also where the producer had gone on, and so has an epoch before."""
    metadata = TransactionMetadata(1, 4, TransactionState.ONGOING, last_epoch=3)
    used_up = metadata._replace(producer_epoch=EPOCH_MAX - 1)
    for one in (metadata, used_up, TransactionMetadata(1, 0, TransactionState.ONGOING)):
        for fences in (True, False):
            after = prepared(one, 0, commit=False, version=1, fences=fences)
            assert completed(after, 0).is_fenced is fences


def test_completing_changes_nothing_but_the_state_and_what_is_over() -> None:
    metadata = TransactionMetadata(
        1, 4, TransactionState.PREPARE_ABORT, 60, 1, -1, 3, frozenset({(1, 1)}),
        frozenset("g"), 5, 6, 2,
    )  # fmt: skip
    assert completed(metadata, 7) == TransactionMetadata(
        1, 4, TransactionState.COMPLETE_ABORT, 60, 1, -1, 3, frozenset({(1, 1)}),
        started_ms=5, updated_ms=7, version=2,
    )  # fmt: skip


@pytest.mark.parametrize("next_id", [-1, 9])
@pytest.mark.parametrize("commit", [True, False])
def test_a_complete_transaction_owes_again_what_it_owed(commit, next_id) -> None:
    epoch = EPOCH_MAX - 1 if next_id > 0 else 4
    begun = TransactionMetadata(
        1, epoch, TransactionState.ONGOING, partitions=frozenset({(1, 1)})
    )
    before = prepared(begun, 0, commit=commit, version=2, next_producer_id=next_id)
    after = completed(before, 0)
    assert uncompleted(after) == before
    assert completed(uncompleted(after), 0) == after


@pytest.mark.parametrize("more", [0, 1])
def test_an_idle_id_keeps_no_more_partitions_than_it_may(more: int) -> None:
    parts = frozenset((1, index) for index in range(KEPT_PARTITIONS_MAX + more))
    before = TransactionMetadata(
        1, 4, TransactionState.PREPARE_COMMIT, partitions=parts
    )
    assert completed(before, 0).partitions == (set() if more else parts)


def test_what_was_part_of_the_last_transaction_is_none_of_the_next() -> None:
    metadata = TransactionMetadata(
        1, 4, TransactionState.COMPLETE_COMMIT, partitions=frozenset({(1, 1)})
    )
    assert not prepared(metadata, 0, commit=False, version=2).partitions
