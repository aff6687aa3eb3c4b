"""InitProducerId: who gets which epoch, who is fenced, and who has to come again."""

import pytest

from broker.transactions.commands import Added, Initialized
from broker.transactions.metadata import EPOCH_MAX, TransactionMetadata
from broker.transactions.states import TransactionState
from tests.broker.transactions.book import MINUTE_MS, Book, ongoing, refused

CONCURRENT = refused("CONCURRENT_TRANSACTIONS")
FENCED = refused("PRODUCER_FENCED")


@pytest.fixture
def book() -> Book:
    return Book()


def having(metadata: TransactionMetadata, **limits: int) -> Book:
    book = Book(**limits)
    book.begin(metadata)
    return book


def test_a_new_id_gets_a_producer_id_and_epoch_zero(book: Book) -> None:
    assert book.init(new_producer_id=77) == Initialized(77, 0)
    assert book.metadata.timeout_ms == MINUTE_MS
    assert book.state == "Empty"


def test_each_new_instance_gets_the_next_epoch_of_the_same_id(book: Book) -> None:
    assert book.init(new_producer_id=77) == Initialized(77, 0)
    assert book.init(timeout_ms=5) == Initialized(77, 1)
    assert book.init() == Initialized(77, 2)


def test_nobody_hears_of_an_epoch_that_is_not_durable(book: Book) -> None:
    book.holds_writes = True
    assert book.init() is None
    assert book.row is None
    book.store()
    assert book.answers == {"init": Initialized(10, 0)}
    assert book.row is not None


def test_an_epoch_that_could_not_be_written_is_given_again(book: Book) -> None:
    book.init()
    book.holds_writes = True
    book.init()
    book.store(refused("KAFKA_STORAGE_ERROR").code)
    assert book.answers.pop("init") == refused("COORDINATOR_NOT_AVAILABLE")
    book.holds_writes = False
    assert book.init() == Initialized(10, 1)


def test_a_second_instance_waits_for_the_first_ones_epoch(book: Book) -> None:
    book.holds_writes = True
    book.init()
    assert book.init(ticket="second") == CONCURRENT
    book.store()
    assert book.answers == {"init": Initialized(10, 0)}


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_outside_the_limits_is_refused(book: Book, timeout_ms: int) -> None:
    assert book.init(timeout_ms=timeout_ms) == refused("INVALID_TRANSACTION_TIMEOUT")
    assert book.transaction.never_used()


def test_an_open_transaction_is_aborted_before_anybody_gets_an_epoch(book: Book):
    old = ongoing(book, 3, "g")
    assert book.init() == CONCURRENT
    (marker,) = book.markers
    assert (marker.commit, marker.producer_epoch) == (False, old.producer_epoch + 1)
    assert (marker.partitions, marker.groups) == ({(1, 3)}, {"g"})
    assert book.state == "CompleteAbort"
    assert book.init() == Initialized(10, 2)
    assert book.add(old, 3) == book.commit(old) == FENCED


def test_in_version_two_the_fence_and_the_abort_take_one_epoch_together() -> None:
    book = Book(version=2)
    old = ongoing(book, 3, version=2)
    assert book.init() == CONCURRENT
    assert book.markers[0].producer_epoch == old.producer_epoch + 1
    assert book.init() == Initialized(10, 2)


@pytest.mark.parametrize("version", [1, 2])
def test_who_ran_out_of_time_goes_on_if_nobody_came(version: int) -> None:
    """Source: Apache Kafka 4.3.1, asked in versions 3 to 5 of InitProducerId."""
    book = Book(version=version)
    late = ongoing(book, 3, version=version)
    book.tick(MINUTE_MS)
    assert book.state == "CompleteAbort"
    for _ in range(2):
        goes_on = book.init(late.producer_id, late.producer_epoch)
        assert goes_on == Initialized(10, 1)
    assert book.add(late, 3, version=version) == FENCED
    assert book.init() == Initialized(10, 2)
    assert book.init(late.producer_id, late.producer_epoch) == FENCED


@pytest.mark.parametrize("version", [1, 2])
def test_who_goes_on_with_an_open_transaction_gets_the_epoch_that_fences_it(version):
    book = Book(version=version)
    producer = ongoing(book, 3, version=version)
    assert book.init(10, producer.producer_epoch) == CONCURRENT
    assert book.init(10, producer.producer_epoch) == Initialized(10, 1)
    assert book.init(10, 1) == Initialized(10, 2)


def test_who_was_fenced_twice_is_fenced() -> None:
    book = Book()
    for _ in range(2):
        producer = ongoing(book, 3)
        assert book.init() == CONCURRENT
    assert producer.producer_epoch == 2
    assert book.init(10, 0) == book.init(10, 1) == FENCED
    assert book.init(10, 2) == Initialized(10, 3)


def test_nobody_gets_an_epoch_while_markers_are_being_written(book: Book) -> None:
    producer = ongoing(book)
    book.holds_markers = True
    assert book.commit(producer) is None
    assert book.init() == CONCURRENT
    book.write_markers()
    assert book.init() == Initialized(10, 1)


# -- KIP-360: a producer that goes on -------------------------------------------


def test_a_producer_that_goes_on_gets_the_next_epoch_and_may_ask_twice(book: Book):
    book.init()
    assert book.init(10, 0) == Initialized(10, 1)
    assert book.init(10, 0) == Initialized(10, 1)
    assert book.init(10, 1) == Initialized(10, 2)
    assert book.init(10, 0) == FENCED


def test_a_producer_cannot_go_on_once_another_came(book: Book) -> None:
    book.init()
    book.init(10, 0)
    book.init()
    assert book.init(10, 0) == book.init(10, 1) == FENCED
    assert book.init(10, 2) == Initialized(10, 3)


@pytest.mark.parametrize(("producer_id", "epoch"), [(11, 0), (10, 5)])
def test_who_names_another_producer_is_fenced(book, producer_id, epoch) -> None:
    book.init()
    assert book.init(producer_id, epoch) == FENCED


def test_a_forgotten_producer_that_goes_on_is_a_new_one(book: Book) -> None:
    assert book.init(4711, 9, new_producer_id=12) == Initialized(12, 0)


def test_going_on_aborts_what_is_open(book: Book) -> None:
    producer = ongoing(book, 1)
    assert book.init(10, producer.producer_epoch) == CONCURRENT
    assert [marker.commit for marker in book.markers] == [False]


# -- epochs that are used up ------------------------------------------------------


def test_when_epochs_are_used_up_the_next_instance_has_a_new_id() -> None:
    book = having(TransactionMetadata(10, EPOCH_MAX - 2))
    assert book.init() == Initialized(10, EPOCH_MAX - 1)
    assert book.init(new_producer_id=50) == Initialized(50, 0)


def test_who_goes_on_at_the_last_epoch_gets_a_new_id_and_may_ask_twice() -> None:
    book = having(TransactionMetadata(10, EPOCH_MAX - 1))
    assert book.init(10, EPOCH_MAX - 1, new_producer_id=50) == Initialized(50, 0)
    assert book.init(10, EPOCH_MAX - 1) == Initialized(50, 0)
    assert book.init(10, EPOCH_MAX - 1) == Initialized(50, 0)
    assert book.init(50, 0) == Initialized(50, 1)
    assert book.init(10, EPOCH_MAX - 1) == FENCED


def test_another_epoch_of_the_id_before_is_fenced() -> None:
    book = having(TransactionMetadata(10, EPOCH_MAX - 1))
    book.init(10, EPOCH_MAX - 1, new_producer_id=50)
    assert book.init(10, EPOCH_MAX - 2) == FENCED


def test_asking_again_at_the_last_epoch_does_not_take_a_new_id() -> None:
    book = having(TransactionMetadata(10, EPOCH_MAX - 2))
    assert book.init(10, EPOCH_MAX - 2) == Initialized(10, EPOCH_MAX - 1)
    assert book.init(10, EPOCH_MAX - 2) == Initialized(10, EPOCH_MAX - 1)
    assert book.init(10, 3) == FENCED


@pytest.mark.parametrize("version", [1, 2])
def test_fencing_at_the_last_epoch_stays_within_an_epochs_bits(version: int) -> None:
    book = having(TransactionMetadata(10, EPOCH_MAX - 1, timeout_ms=5), version=version)
    producer = Initialized(10, EPOCH_MAX - 1)
    assert book.add(producer, 1) == Added()
    assert book.init() == CONCURRENT
    assert book.markers[0].producer_epoch == EPOCH_MAX
    assert book.state is TransactionState.COMPLETE_ABORT
    assert book.init(new_producer_id=50) == Initialized(50, 0)


@pytest.mark.parametrize("version", [1, 2])
def test_who_goes_on_at_the_last_epoch_with_an_open_transaction_gets_a_new_id(
    version: int,
) -> None:
    """As an Apache Kafka 4.3.1 answers: after the abort, a new id; not once more."""
    book = having(TransactionMetadata(10, EPOCH_MAX - 1, timeout_ms=5), version=version)
    producer = Initialized(10, EPOCH_MAX - 1)
    assert book.add(producer, 1) == Added()
    assert book.init(10, EPOCH_MAX - 1) == CONCURRENT
    assert book.init(10, EPOCH_MAX - 1, new_producer_id=50) == Initialized(50, 0)
    assert book.init(10, EPOCH_MAX - 1, new_producer_id=51) == FENCED
    assert book.init(50, 0) == Initialized(50, 1)


@pytest.mark.parametrize("version", [1, 2])
def test_an_epoch_before_the_last_is_fenced_when_epochs_are_used_up(
    version: int,
) -> None:
    book = having(TransactionMetadata(10, EPOCH_MAX - 1, timeout_ms=5), version=version)
    assert book.add(Initialized(10, EPOCH_MAX - 1), 1) == Added()
    assert book.init() == CONCURRENT
    assert book.init(10, EPOCH_MAX - 2, new_producer_id=50) == FENCED


def test_without_the_new_id_that_it_needs_an_init_is_to_come_again(book: Book) -> None:
    assert book.init(new_producer_id=-1) == CONCURRENT
    assert book.transaction.never_used()
