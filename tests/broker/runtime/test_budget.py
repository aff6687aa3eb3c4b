"""Bytes under way: taken, given back, and waited for."""

import pytest

from broker.runtime.budget import PASSED_OVER_MAX, Budget, Reservation


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
    assert woken == [1, 1]
    budget.give(20)
    assert woken == [1, 1, 30]  # 64 is not let look for what is not there
    budget.give(70)
    assert woken == [1, 1, 30, 64]
    assert not budget.is_awaited


def test_of_many_who_want_the_same_as_many_are_woken_as_there_is_room_for() -> None:
    budget, looks = Budget(100), list[int]()

    def want(who: int) -> None:
        looks.append(who)
        if not budget.try_take(10):
            budget.wait(lambda: want(who), 10)

    for who in range(1_000):
        want(who)
    looks.clear()
    for _ in range(50):
        budget.give(10)
    assert looks == list(range(10, 60))


def test_who_waits_under_a_name_is_first_when_the_others_lined_up_twice_since() -> None:
    budget, large, woken = Budget(100), object(), list[str]()
    budget.take(100)
    budget.wait(lambda: woken.append("large"), 80, large)
    for _ in range(PASSED_OVER_MAX + 20):
        budget.wait(lambda: budget.try_take(10) and woken.append("small"), 10)
        budget.give(10)
        if budget.taken < 100:
            break
    assert woken == ["small"] * PASSED_OVER_MAX + ["small"] * 3
    assert not budget.try_take(1)  # what comes back is kept for it
    budget.give(70)
    assert woken[-1] == "large"
    budget.give(10)
    assert woken[-1] == "large"  # nobody else while it looks
    assert budget.try_take(80, large)
    assert woken[-1] == "small"


def test_giving_back_more_than_was_taken_is_our_mistake() -> None:
    with pytest.raises(AssertionError):
        Budget(100).give(1)


def test_a_reservation_grows_shrinks_and_is_given_back_once() -> None:
    budget = Budget(100)
    assert budget.try_take(60)
    reservation = Reservation(budget, 60)
    assert budget.room == 40
    reservation.resize(120)  # it is under way already
    assert (budget.taken, budget.room) == (120, 0)
    woken: list[int] = []
    budget.wait(lambda: woken.append(budget.room), 10)
    assert reservation.is_awaited
    reservation.resize(30)
    assert woken == [70]
    reservation.release()
    reservation.release()
    assert budget.taken == 0


def test_one_who_is_first_is_served_before_all_others() -> None:
    budget, large, other = Budget(100), object(), object()
    budget.take(60)
    assert not budget.try_take(80, large)
    budget.put_first(large)
    budget.put_first(other)  # one at a time
    woken: list[int] = []
    assert not budget.try_take(1, other)
    budget.wait(lambda: woken.append(1))
    budget.give(60)
    assert woken == [1]
    budget.wait(lambda: woken.append(2))
    assert not budget.try_take(1)
    assert budget.try_take(80, large)
    assert woken == [1, 2]
    assert budget.try_take(20, other)


def test_one_who_steps_back_lets_the_others_in() -> None:
    budget, gone = Budget(100), object()
    budget.take(10)
    budget.put_first(gone)
    woken: list[int] = []
    budget.wait(lambda: woken.append(1))
    budget.step_back(object())
    assert not budget.try_take(1)
    budget.step_back(gone)
    assert woken == [1]
    assert budget.try_take(1)


def test_who_gave_up_is_not_woken() -> None:
    budget, woken = Budget(100), list[int]()
    wakes = [lambda n=n: woken.append(n) for n in range(3)]  # type: ignore[misc]
    budget.take(100)
    arrivals = [budget.wait(wake, 3 - size) for size, wake in enumerate(wakes)]
    budget.forget(arrivals[1])
    budget.give(100)
    assert woken == [2, 0]
    budget.forget(arrivals[0])
    assert not budget.is_awaited


def test_of_those_who_gave_up_nothing_is_kept() -> None:
    budget, woken = Budget(100), list[int]()
    budget.take(100)
    budget.wait(lambda: woken.append(-1), 1_000)
    for size in range(10_000):
        budget.forget(budget.wait(lambda size=size: woken.append(size), size))
    assert len(budget._order) < 1_000
    budget.give(100)
    assert woken == [-1]


def test_while_one_is_first_no_other_reservation_grows() -> None:
    """Else who grows again and again would have all that comes back."""
    budget, large, other = Budget(100), object(), object()
    first, rest = Reservation(budget, 0, large), Reservation(budget, 0, other)
    assert rest.try_grow(60)
    assert not budget.try_take(80, large)
    budget.put_first(large)
    assert not rest.try_grow(10)
    assert rest.try_grow(0)
    assert first.try_grow(10)
    rest.release()
    assert first.try_grow(80)
    budget.step_back(large)
    assert rest.try_grow(10)
    first.release()
    assert rest.try_grow(1_000)  # nobody else holds any
