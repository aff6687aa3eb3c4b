"""Adding, verifying, timeouts, crashes, and being forgotten."""

import pytest

from broker.protocol.errors import ErrorCode
from broker.transactions.commands import (
    Add,
    Added,
    End,
    Ended,
    Forget,
    Initialized,
    InitProducer,
    MarkersWritten,
    TimerKey,
)
from broker.transactions.limits import TransactionLimits
from broker.transactions.metadata import EPOCH_MAX, TransactionMetadata
from broker.transactions.transaction import Transaction
from broker.transactions.transactional_id import needs_producer_id, verify
from tests.broker.transactions.book import MINUTE_MS, Book, ongoing, refused

CONCURRENT = refused("CONCURRENT_TRANSACTIONS")
FENCED = refused("PRODUCER_FENCED")
INVALID = refused("INVALID_TXN_STATE")
FAILED = ErrorCode.COORDINATOR_NOT_AVAILABLE
DAY_MS = 24 * 60 * MINUTE_MS


@pytest.fixture
def book() -> Book:
    return Book()


# -- adding -----------------------------------------------------------------------


def test_a_transaction_begins_with_its_first_part(book: Book) -> None:
    producer = book.init()
    book.now_ms += 5
    assert book.add(producer, 3) == Added()
    assert (book.state, book.metadata.started_ms) == ("Ongoing", book.now_ms)
    book.now_ms += 5
    assert book.add(producer, 4, "g") == Added()
    assert book.metadata.started_ms == book.now_ms - 5
    assert book.metadata.partitions == {(1, 3), (1, 4)}
    assert book.metadata.groups == {"g"}


def test_the_names_of_its_groups_take_so_much_and_no_more(book: Book) -> None:
    most = TransactionLimits().groups_bytes_max
    producer = book.init()
    assert book.add(producer, "a" * (most + 1)) == refused("UNKNOWN_SERVER_ERROR")
    assert book.state == "Empty"
    assert book.add(producer, "a" * (most - 1)) == Added()
    assert book.add(producer, "bc") == refused("UNKNOWN_SERVER_ERROR")
    assert book.add(producer, "b") == Added()
    assert book.add(producer, 3, "b") == Added()
    assert book.add(producer, 4) == Added()
    assert book.end(producer, commit=True) == Ended(10, 0)
    assert book.add(producer, "c" * most) == Added()


def test_a_part_is_durable_before_the_producer_may_write_to_it(book: Book) -> None:
    producer = book.init()
    book.holds_writes = True
    assert book.add(producer, 3) is None
    assert verify(book.transaction, 10, 0, (1, 3)) == ErrorCode.TRANSACTION_ABORTABLE
    book.store()
    assert book.answers.pop("add") == Added()
    assert verify(book.transaction, 10, 0, (1, 3)) == ErrorCode.NONE


def test_what_is_part_of_it_already_is_not_written_again(book: Book) -> None:
    producer = ongoing(book, 1, 2, "g")
    book.holds_writes = True
    assert book.add(producer, 2, "g") == book.add(producer) == Added()
    assert book.add(producer, 3) is None


def test_parts_that_are_added_at_once_are_all_added(book: Book) -> None:
    producer = book.init()
    book.holds_writes = True
    for part in range(3):
        assert book.add(producer, part, ticket=part) is None
    book.store()
    assert book.answers == dict.fromkeys(range(3), Added())
    assert book.metadata.partitions == {(1, 0), (1, 1), (1, 2)}


def test_a_part_that_could_not_be_written_takes_no_other_with_it(book: Book) -> None:
    producer = book.init()
    book.holds_writes = True
    book.add(producer, 1, ticket="lost")
    book.add(producer, 2, ticket="kept")
    book.store_one(FAILED, at=0)
    book.store()
    assert book.answers == {"lost": refused(FAILED.name), "kept": Added()}
    assert (1, 2) in book.metadata.partitions


def test_nothing_is_added_while_an_end_or_an_epoch_is_on_its_way(book: Book) -> None:
    producer = book.init()
    book.holds_writes = True
    book.init()
    assert book.add(producer, 1) == CONCURRENT
    book.store()
    book.holds_writes = False
    producer = book.answers.pop("init")
    book.add(producer, 1)
    book.holds_writes = book.holds_markers = True
    book.commit(producer)
    assert book.add(producer, 1) == book.add(producer, 2) == CONCURRENT
    book.store()
    assert book.add(producer, 1) == CONCURRENT
    book.write_markers()
    book.holds_writes = False
    assert book.add(producer, 1) == Added()


@pytest.mark.parametrize(
    ("producer_id", "epoch", "code"),
    [
        (11, 0, "INVALID_PRODUCER_ID_MAPPING"),
        (-1, -1, "INVALID_PRODUCER_ID_MAPPING"),
        (10, 1, "PRODUCER_FENCED"),
        (10, -1, "PRODUCER_FENCED"),
    ],
)
def test_only_the_current_producer_adds_and_writes(book, producer_id, epoch, code):
    other = Initialized(producer_id, epoch)
    assert book.add(other, 1) == refused("INVALID_PRODUCER_ID_MAPPING")
    ongoing(book, 1)
    assert book.add(other, 1) == refused(code)
    assert verify(book.transaction, producer_id, epoch, (1, 1)) == ErrorCode[code]


def test_an_id_that_nobody_has_takes_nobody_even_by_no_id() -> None:
    nobody = verify(Transaction("t"), -1, -1, (1, 1))
    assert nobody == ErrorCode.INVALID_PRODUCER_ID_MAPPING


# -- verifying --------------------------------------------------------------------


def test_a_write_is_verified_by_part(book: Book) -> None:
    ongoing(book, 1, "g")
    abortable = ErrorCode.TRANSACTION_ABORTABLE
    assert verify(book.transaction, 10, 0, (1, 1)) == ErrorCode.NONE
    assert verify(book.transaction, 10, 0, "g") == ErrorCode.NONE
    assert verify(book.transaction, 10, 0, (2, 1)) == abortable
    assert verify(book.transaction, 10, 0, "other") == abortable


def test_nothing_is_let_in_from_the_moment_that_an_end_is_decided(book: Book) -> None:
    producer = ongoing(book, 1)
    book.holds_writes = book.holds_markers = True
    book.commit(producer)
    concurrent = ErrorCode.CONCURRENT_TRANSACTIONS
    assert verify(book.transaction, 10, 0, (1, 1)) == concurrent
    book.store()
    assert verify(book.transaction, 10, 0, (1, 1)) == concurrent
    book.write_markers()
    over = verify(book.transaction, 10, 0, (1, 1))
    assert over == ErrorCode.TRANSACTION_ABORTABLE


# -- time -------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_that_lasts_too_long_is_aborted_and_its_producer_fenced(version):
    book = Book(version=version)
    producer = ongoing(book, 1, version=version)
    book.tick(MINUTE_MS - 1)
    assert not book.markers
    book.tick(1)
    assert [(m.commit, m.producer_epoch) for m in book.markers] == [(False, 1)]
    told = {1: (FENCED, FENCED), 2: (INVALID, Ended(10, 1))}
    assert book.commit(producer, version=version) == told[version][0]
    assert book.add(producer, 2, version=version) == FENCED
    assert book.abort(producer, version=version) == told[version][1], "it may go on"


def test_the_time_of_a_transaction_begins_with_it_and_not_with_the_last(book: Book):
    producer = ongoing(book, 1)
    book.tick(MINUTE_MS - 1)
    book.commit(producer)
    book.tick(MINUTE_MS)
    book.add(producer, 1)
    book.tick(MINUTE_MS - 1)
    assert [marker.commit for marker in book.markers] == [True]
    book.tick(1)
    assert [marker.commit for marker in book.markers] == [True, False]


def test_a_timeout_comes_after_what_is_on_its_way(book: Book) -> None:
    producer = ongoing(book, 1)
    book.holds_writes = True
    book.commit(producer)
    book.tick(2 * MINUTE_MS)
    book.store()
    book.tick(2 * MINUTE_MS)
    assert [marker.commit for marker in book.markers] == [True]
    assert book.answers.pop("end") == Ended(10, 0)


def test_an_abort_that_could_not_be_written_is_tried_again(book: Book) -> None:
    ongoing(book, 1)
    book.holds_writes = True
    book.tick(MINUTE_MS)
    book.store(FAILED)
    assert book.state == "Ongoing"
    book.holds_writes = False
    book.tick(book.limits.retry_ms)
    assert [marker.commit for marker in book.markers] == [False]
    assert book.markers[0].producer_epoch == 1, "the epoch was bumped once"


def test_the_row_of_a_complete_transaction_follows_if_nothing_newer_does(book: Book):
    producer = ongoing(book, 1)
    book.commit(producer)
    assert '"PrepareCommit"' in book.row
    book.tick(book.limits.completion_delay_ms)
    assert '"CompleteCommit"' in book.row
    assert not book.timers


def test_the_next_transaction_saves_the_row_of_the_last(book: Book) -> None:
    producer = ongoing(book, 1)
    book.commit(producer)
    writes = book.transaction.writes
    book.add(producer, 1)
    assert set(book.timers) == {TimerKey.TIMEOUT}
    book.commit(producer)
    assert book.transaction.writes == writes + 2


def test_a_row_that_could_not_follow_is_tried_again(book: Book) -> None:
    producer = ongoing(book, 1)
    book.commit(producer)
    book.holds_writes = True
    book.tick(book.limits.completion_delay_ms)
    book.store(FAILED)
    book.holds_writes = False
    book.tick(book.limits.retry_ms)
    assert '"CompleteCommit"' in book.row
    assert book.add(producer, 1) == Added()


def test_whoever_comes_need_not_wait_for_the_row_of_the_last(book: Book) -> None:
    producer = ongoing(book, 1)
    book.commit(producer)
    book.holds_writes = True
    book.tick(book.limits.completion_delay_ms)
    assert book.stores
    assert book.add(producer, 2) is None
    book.store_one(FAILED)
    book.store()
    assert book.answers.pop("add") == Added()
    assert book.state == "Ongoing"


# -- crashes ----------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_a_start_completes_what_was_decided(book: Book, commit: bool) -> None:
    producer = ongoing(book, 1, "g")
    book.holds_markers = True
    book.end(producer, commit)
    book.crash()
    assert book.state == ("PrepareCommit" if commit else "PrepareAbort")
    book.holds_markers = False
    book.write_markers()
    (marker,) = book.markers
    assert (marker.commit, marker.partitions) == (commit, {(1, 1)})
    assert book.end(producer, commit) == Ended(10, 0), "a retry hears how it ended"


def test_a_start_before_the_row_follows_writes_the_markers_again(book: Book) -> None:
    producer = ongoing(book, 1)
    book.commit(producer)
    book.crash()
    assert len(book.markers) == 2
    assert book.markers[0][1:] == book.markers[1][1:]
    assert book.commit(producer) == Ended(10, 0)


def test_a_start_takes_no_time_from_a_transaction(book: Book) -> None:
    producer = ongoing(book, 1)
    book.crash()
    assert book.add(producer, 2) == Added()
    book.tick(MINUTE_MS - 1)
    assert not book.markers
    book.tick(1)
    assert [marker.commit for marker in book.markers] == [False]


@pytest.mark.parametrize("version", [1, 2])
def test_what_ran_out_of_time_while_the_broker_was_away_can_be_committed(version):
    book = Book(version=version)
    producer = ongoing(book, 1, version=version)
    book.now_ms += DAY_MS
    book.crash()
    book.tick(book.limits.resumed_ms - 1)
    assert not book.markers
    book.commit(producer, version=version)
    assert [marker.commit for marker in book.markers] == [True]


def test_what_could_not_be_committed_then_can_be_within_the_ten_seconds(book: Book):
    producer = ongoing(book, 1)
    book.now_ms += DAY_MS
    book.crash()
    book.holds_writes = True
    book.commit(producer)
    book.store(FAILED)
    book.answers.clear()
    book.tick(book.limits.resumed_ms - 1)
    assert book.commit(producer) is None
    book.store()
    assert [marker.commit for marker in book.markers] == [True]


def test_what_could_not_be_added_then_takes_none_of_the_ten_seconds(book: Book) -> None:
    producer = ongoing(book, 1)
    book.now_ms += DAY_MS
    book.crash()
    book.holds_writes = True
    book.add(producer, 2)
    book.store(FAILED)
    book.holds_writes = False
    book.tick(book.limits.resumed_ms - 1)
    assert not book.markers
    book.tick(1)
    assert [marker.commit for marker in book.markers] == [False]


def test_an_abort_that_could_not_be_written_waits_for_no_clock(book: Book) -> None:
    producer = ongoing(book, 1)
    book.now_ms -= DAY_MS
    book.timers = {key: at - DAY_MS for key, at in book.timers.items()}
    book.holds_writes = True
    book.abort(producer)
    book.store(FAILED)
    book.holds_writes = False
    book.tick(MINUTE_MS)
    assert [marker.commit for marker in book.markers] == [False]


def test_a_clock_that_was_set_back_meanwhile_gives_no_more_time(book: Book) -> None:
    ongoing(book, 1)
    book.now_ms -= DAY_MS
    book.crash()
    book.tick(MINUTE_MS - 1)
    assert not book.markers
    book.tick(1)
    assert [marker.commit for marker in book.markers] == [False]


def test_what_nobody_ends_ten_seconds_after_a_start_is_aborted(book: Book) -> None:
    producer = ongoing(book, 1)
    book.tick(MINUTE_MS - 1)
    book.crash()
    book.tick(10_000)
    assert [marker.commit for marker in book.markers] == [False]
    assert book.commit(producer) == FENCED


def test_markers_of_another_decision_complete_nothing(book: Book) -> None:
    producer = ongoing(book, 1)
    book.holds_markers = True
    book.commit(producer)
    serial = book.transaction.owed.serial
    book.say(MarkersWritten(serial + 1))
    assert book.state == "PrepareCommit"
    book.say(MarkersWritten(serial))
    book.say(MarkersWritten(serial))
    assert book.state == "CompleteCommit"


# -- being forgotten --------------------------------------------------------------


def test_an_id_is_forgotten_when_it_is_idle_for_long_enough(book: Book) -> None:
    book.commit(ongoing(book, 1))
    book.tick(book.limits.completion_delay_ms)
    book.now_ms = book.metadata.updated_ms + 7 * DAY_MS - 1
    book.say(Forget())
    assert book.state == "CompleteCommit"
    book.now_ms += 1
    book.say(Forget())
    assert (book.state, book.row) == ("Dead", None)
    assert book.transaction.never_used()
    gone = refused("COORDINATOR_NOT_AVAILABLE")
    assert book.init() == book.add(Initialized(10, 0), 1) == gone
    assert book.commit(Initialized(10, 0)) == gone
    book.say(Forget())


def test_an_id_that_could_not_be_forgotten_lives_on(book: Book) -> None:
    book.init()
    book.now_ms += 8 * DAY_MS
    book.holds_writes = True
    book.say(Forget())
    assert book.init() == CONCURRENT
    book.store(FAILED)
    book.holds_writes = False
    assert book.init() == Initialized(10, 1)


@pytest.mark.parametrize("prepared", [True, False])
def test_an_id_whose_transaction_is_open_is_never_forgotten(book, prepared) -> None:
    producer = ongoing(book, 1)
    if prepared:
        book.holds_markers = True
        book.commit(producer)
    book.now_ms += 8 * DAY_MS
    book.say(Forget())
    assert book.state == ("PrepareCommit" if prepared else "Ongoing")
    Book().say(Forget())  # nor one that nobody uses: it has no row


# -- new producer ids -------------------------------------------------------------


@pytest.mark.parametrize(
    ("epoch", "init", "end_v1", "end_v2"),
    [
        (-1, True, False, False),
        (0, False, False, False),
        (EPOCH_MAX - 1, True, False, True),
    ],
)
def test_a_new_producer_id_is_asked_for_only_if_it_may_be_needed(
    epoch, init, end_v1, end_v2
) -> None:
    transaction = Transaction("t", TransactionMetadata(1, epoch))
    assert needs_producer_id(transaction, InitProducer(1)) is init
    assert needs_producer_id(transaction, End(1, epoch, True)) is end_v1
    assert needs_producer_id(transaction, End(1, epoch, True, version=2)) is end_v2


def test_an_add_needs_no_ticket(book: Book) -> None:
    producer = book.init()
    book.say(Add(producer.producer_id, 0, frozenset({(1, 1)})))
    assert book.state == "Ongoing"
    assert not book.answers
