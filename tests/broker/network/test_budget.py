"""Bytes under way: taken, given back, and waited for."""

import pytest

from broker.network.budget import Budget


def test_no_more_than_the_limit_is_taken_by_asking() -> None:
    budget = Budget(100)
    assert budget.try_take(60)
    assert not budget.try_take(60)
    budget.give(60)
    assert budget.try_take(60)


def test_one_request_above_the_limit_is_admitted_alone() -> None:
    budget = Budget(100)
    assert budget.try_take(1_000)
    assert not budget.try_take(1)
    budget.give(1_000)
    assert not budget.spent


def test_those_who_wait_are_woken_in_their_order_while_there_is_something() -> None:
    budget, woken = Budget(100), []

    def want(name: str, size: int) -> None:
        if budget.try_take(size):
            woken.append(name)
        else:
            budget.wait(lambda: want(name, size))

    budget.take(100)
    for name, size in (("a", 70), ("b", 70), ("c", 30)):
        want(name, size)
    budget.give(50)
    assert woken == ["c"]
    budget.give(50)
    assert woken == ["c", "a"]
    budget.give(70)
    assert woken == ["c", "a", "b"]


def test_the_smallest_is_woken_first_and_the_limit_is_seen() -> None:
    budget, woken = Budget(100), []
    budget.take(100)
    assert not budget.is_awaited
    for size in (64, 1, 30, 1):
        budget.wait(lambda size=size: woken.append(size), size)
    budget.give(10)
    assert woken == [1, 1, 30, 64]
    assert not budget.is_awaited


def test_giving_back_more_than_was_taken_is_our_mistake() -> None:
    with pytest.raises(AssertionError):
        Budget(100).give(1)
