"""Delayed operations: completed exactly once, by whoever comes first."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.timing.delayed import DelayedOperation, DelayedOperations
from broker.timing.wheel import Timer, TimingWheel


class HandDriven:
    """Timers on a wheel that is moved by hand."""

    def __init__(self) -> None:
        self.wheel = TimingWheel()
        self.now_ms = 0

    def after(self, delay_ms: int, callback: Callable[[], None], /) -> "WheelHandle":
        timer = self.wheel.add(self.now_ms + delay_ms, callback)
        return WheelHandle(self.wheel, timer)

    def advance(self, ms: int) -> None:
        self.now_ms += ms
        for timer in self.wheel.advance(self.now_ms):
            timer.fire()


class WheelHandle:
    def __init__(self, wheel: TimingWheel, timer: Timer) -> None:
        self.wheel, self.timer = wheel, timer

    def cancel(self) -> None:
        self.wheel.cancel(self.timer)

    def put_off(self, delay_ms: int) -> bool:
        raise NotImplementedError


class Enough(DelayedOperation):
    """Waits until the sum of some counters reaches a bound."""

    __slots__ = ("bound", "counters", "ends", "then")

    def __init__(
        self,
        counters: dict[str, int],
        bound: int,
        then: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__()
        self.counters, self.bound, self.then = counters, bound, then
        self.ends: list[str] = []

    def satisfied(self) -> bool:
        assert not self.done, "asked after completion"
        return sum(self.counters.values()) >= self.bound

    def complete(self, *, expired: bool) -> None:
        self.ends.append("expired" if expired else "satisfied")
        self.then()


def test_a_satisfied_operation_never_waits() -> None:
    timers = HandDriven()
    waits, operation = DelayedOperations(timers), Enough({"a": 5}, 5)
    assert waits.watch(operation, ["a"], 100)
    assert operation.ends == ["satisfied"]
    assert len(waits) == len(timers.wheel) == 0


def test_no_time_to_wait_is_expiry_at_once() -> None:
    waits, operation = DelayedOperations(HandDriven()), Enough({}, 1)
    assert waits.watch(operation, ["a"], 0)
    assert operation.ends == ["expired"]


def test_a_check_completes_and_stops_the_timer() -> None:
    timers, counters = HandDriven(), {"a": 0, "b": 0}
    waits, operation = DelayedOperations(timers), Enough(counters, 2)
    assert not waits.watch(operation, ["a", "b", "a"], 100)
    counters["a"] = 1
    assert waits.check("a") == 0
    counters["b"] = 1
    assert waits.check("b") == 1
    assert waits.check("a") == 0
    timers.advance(1_000)
    assert operation.ends == ["satisfied"]
    assert len(waits) == len(timers.wheel) == 0


def test_who_waits_may_come_to_wait_for_more() -> None:
    timers, counters = HandDriven(), {"a": 0}
    waits, operation = DelayedOperations(timers), Enough(counters, 1)
    waits.watch(operation, ["a"], 100)
    for key in ("b", "b", "a"):
        waits.watch_also(operation, key)
    assert operation.keys == ["a", "b"]
    counters["a"] = 1
    assert waits.check("b") == 1
    assert operation.ends == ["satisfied"]
    assert waits.operations() == set()


def test_expiry_completes_and_leaves_every_key() -> None:
    timers, counters = HandDriven(), {"a": 0}
    waits, operation = DelayedOperations(timers), Enough(counters, 1)
    waits.watch(operation, ["a", "b"], 100)
    timers.advance(99)
    assert operation.ends == []
    timers.advance(1)
    counters["a"] = 1
    assert waits.check("a") == waits.check("b") == 0
    assert operation.ends == ["expired"]


def test_what_happens_between_look_and_watch_is_seen() -> None:
    """An operation whose first look sets in motion what it waits for."""

    class SetsInMotion(Enough):
        __slots__ = ()

        def satisfied(self) -> bool:
            before = super().satisfied()
            self.counters["a"] += 1
            return before

    timers = HandDriven()
    waits, operation = DelayedOperations(timers), SetsInMotion({"a": 0}, 1)
    assert waits.watch(operation, ["a"], 100)
    assert operation.ends == ["satisfied"]
    assert len(waits) == len(timers.wheel) == 0


def test_a_dropped_operation_is_never_completed() -> None:
    timers, counters = HandDriven(), {"a": 0}
    waits, operation = DelayedOperations(timers), Enough(counters, 1)
    waits.watch(operation, ["a"], 100)
    waits.drop(operation)
    waits.drop(operation)
    counters["a"] = 1
    assert waits.check("a") == 0
    timers.advance(1_000)
    assert operation.ends == []
    assert len(waits) == len(timers.wheel) == 0


def test_completion_may_check_the_same_key_again() -> None:
    counters = {"a": 0}
    waits = DelayedOperations(HandDriven())
    operations = [Enough(counters, 1, then=lambda: waits.check("a")) for _ in range(3)]
    for operation in operations:
        waits.watch(operation, ["a"], 100)
    counters["a"] = 1
    waits.check("a")
    assert [operation.ends for operation in operations] == [["satisfied"]] * 3


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(
                st.just("watch"), st.sets(st.sampled_from("abc")), st.integers(1, 9)
            ),
            st.tuples(st.just("add"), st.sampled_from("abc"), st.integers(1, 3)),
            st.tuples(st.just("sleep"), st.just(""), st.integers(1, 40)),
        ),
        max_size=30,
    )
)
def test_exactly_once_whatever_happens(steps: list[tuple[str, str, int]]) -> None:
    timers, counters = HandDriven(), {"a": 0, "b": 0, "c": 0}
    waits, operations = DelayedOperations(timers), list[Enough]()
    for verb, keys, number in steps:
        if verb == "watch":
            operation = Enough({}, 0)
            operation.counters, operation.bound = counters, number
            operations.append(operation)
            waits.watch(operation, keys, 20)
        elif verb == "add":
            counters[keys] += number
            waits.check(keys)
        else:
            timers.advance(number)
    assert len(waits) == sum(not operation.done for operation in operations)
    timers.advance(20)
    assert all(len(operation.ends) == 1 for operation in operations)
    assert len(waits) == len(timers.wheel) == 0
