"""Which records were on their way while one failed and a connection was lost."""

import pytest

from admin_api.records.epochs import Epochs


@pytest.fixture
def epochs():
    return Epochs()


def fail_and_lose(epochs):
    epochs.failed(is_late=True)
    epochs.lost()


def test_one_of_both_puts_nothing_in_doubt(epochs):
    numbers = [epochs.sent() for _ in range(2)]
    epochs.failed(is_late=True)
    assert not epochs.any_with_late()
    assert not epochs.ended(numbers[0])
    epochs.failed(is_late=True)
    assert not epochs.ended(numbers[1])
    epochs.lost()  # nothing is on its way
    assert not epochs.any_with_late()


@pytest.mark.parametrize("order", [("failed", "lost"), ("lost", "failed")])
def test_both_put_in_doubt_what_was_sent_before_the_first(order, epochs):
    happen = {"failed": lambda: epochs.failed(is_late=True), "lost": epochs.lost}
    before = epochs.sent()
    happen[order[0]]()
    between = epochs.sent()
    happen[order[1]]()
    behind = epochs.sent()
    assert epochs.any_with_late()
    assert [epochs.ended(one) for one in (behind, between, before)] == [0, 0, 1]


def test_what_ended_between_both_leaves_nothing_in_doubt(epochs):
    numbers = [epochs.sent() for _ in range(3)]
    epochs.lost()
    assert not any(epochs.ended(one) for one in numbers)
    later = epochs.sent()
    epochs.failed(is_late=True)
    assert not epochs.any_with_late()
    assert not epochs.ended(later)


def test_what_is_in_doubt_is_told_once(epochs):
    epochs.sent()
    fail_and_lose(epochs)
    assert epochs.any_with_late()
    assert not epochs.any_with_late()
    epochs.sent()
    fail_and_lose(epochs)
    assert epochs.any_with_late()


def test_one_that_failed_and_was_not_late_takes_none_along(epochs):
    number = epochs.sent()
    epochs.failed(is_late=False)
    epochs.lost()
    assert not epochs.any_with_late()
    assert epochs.ended(number)


def test_a_record_stays_in_doubt_whatever_happens_next(epochs):
    number = epochs.sent()
    fail_and_lose(epochs)
    epochs.sent()
    epochs.failed(is_late=True)
    assert epochs.ended(number)


def test_a_record_that_was_not_sent_after_all_is_not_waited_for(epochs):
    epochs.sent()
    epochs.unsent()
    fail_and_lose(epochs)
    assert not epochs.any_with_late()
