"""The wheel against a sorted list, and what it promises about order and cost."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.timing.wheel import Timer, TimingWheel


def nothing() -> None:
    pass


def due_at(wheel: TimingWheel, now_ms: int) -> list[int]:
    return [timer.deadline_ms for timer in wheel.advance(now_ms)]


def test_nothing_is_due_early() -> None:
    wheel = TimingWheel()
    wheel.add(8, nothing)
    assert due_at(wheel, 7) == []
    assert due_at(wheel, 8) == [8]
    assert due_at(wheel, 9) == []


def test_a_long_jump_finds_everything_in_order() -> None:
    wheel = TimingWheel(size=4)
    for deadline in (5_000, 3, 70, 1_000_000, 64, 15, 16):
        wheel.add(deadline, nothing)
    assert due_at(wheel, 10_000_000) == [3, 15, 16, 64, 70, 5_000, 1_000_000]
    assert len(wheel) == 0
    assert wheel.next_deadline() is None


def test_equal_deadlines_expire_as_they_were_added() -> None:
    wheel = TimingWheel(size=8)
    first = wheel.add(100, nothing)
    wheel.advance(60)
    second = wheel.add(100, nothing)
    wheel.advance(97)
    third = wheel.add(100, nothing)
    assert wheel.advance(200) == [first, second, third]


def test_a_passed_deadline_is_due_at_the_next_advance() -> None:
    wheel = TimingWheel(start_ms=1_000)
    wheel.add(400, nothing)
    wheel.add(1_000, nothing)
    assert wheel.next_deadline() == 1_000
    assert due_at(wheel, 1_000) == [400, 1_000]


def test_time_that_goes_back_stands_still() -> None:
    wheel = TimingWheel()
    wheel.advance(50)
    wheel.add(60, nothing)
    assert due_at(wheel, 10) == []
    assert due_at(wheel, 60) == [60]


def test_a_deadline_between_ticks_is_rounded_up() -> None:
    wheel = TimingWheel(tick_ms=10)
    wheel.add(11, nothing)
    assert due_at(wheel, 19) == []
    assert wheel.next_deadline() == 20
    assert due_at(wheel, 20) == [11]


def test_a_timer_fires_once() -> None:
    fired: list[int] = []
    wheel = TimingWheel()
    timer = wheel.add(5, lambda: fired.append(1))
    (due,) = wheel.advance(5)
    assert due is timer
    assert timer.active
    timer.fire()
    timer.fire()
    assert fired == [1]
    assert not wheel.cancel(timer)


def test_a_timer_cancelled_between_due_and_fire_stays_silent() -> None:
    fired: list[int] = []
    wheel = TimingWheel()
    timer = wheel.add(5, lambda: fired.append(1))
    wheel.advance(5)
    assert wheel.cancel(timer)
    timer.fire()
    assert fired == []
    assert len(wheel) == 0


def test_a_cancelled_timer_leaves_nothing_to_wake_up_for() -> None:
    wheel = TimingWheel()
    timers = [wheel.add(deadline, nothing) for deadline in (3, 300, 300_000, -1)]
    assert all(wheel.cancel(timer) for timer in timers)
    assert not any(wheel.cancel(timer) for timer in timers)
    assert len(wheel) == 0
    assert wheel.next_deadline() is None
    assert wheel.advance(10_000_000) == []


def test_a_timer_that_was_put_off_is_due_at_its_new_deadline_alone() -> None:
    wheel = TimingWheel()
    timer = wheel.add(5, nothing)
    assert wheel.put_off(timer, 5_000)
    assert due_at(wheel, 4_999) == []
    assert len(wheel) == 1
    assert wheel.advance(5_000) == [timer]
    assert len(wheel) == 0


def test_a_timer_is_put_off_only_while_it_waits_and_never_to_be_earlier() -> None:
    wheel = TimingWheel()
    timer = wheel.add(100, nothing)
    assert not wheel.put_off(timer, 99)
    assert wheel.advance(100) == [timer]
    assert not wheel.put_off(timer, 200), "it was handed out"
    cancelled = wheel.add(200, nothing)
    wheel.cancel(cancelled)
    assert not wheel.put_off(cancelled, 300)
    assert wheel.advance(300) == []


def test_a_timer_that_was_overdue_may_be_put_off() -> None:
    wheel = TimingWheel(start_ms=1_000)
    timer = wheel.add(400, nothing)
    assert wheel.put_off(timer, 1_500)
    assert due_at(wheel, 1_499) == []
    assert wheel.advance(1_500) == [timer]


def test_a_timer_that_was_put_off_and_cancelled_leaves_nothing() -> None:
    wheel = TimingWheel()
    timer = wheel.add(70, nothing)
    wheel.put_off(timer, 300_000)
    wheel.advance(100)
    assert wheel.cancel(timer)
    assert wheel.next_deadline() is None
    assert len(wheel) == 0


def test_sleeping_on_next_deadline_wakes_up_a_few_times_only() -> None:
    wheel = TimingWheel()
    wheel.add(86_399_999, nothing)  # a day: five digits of base 64
    wakes = 0
    while (deadline := wheel.next_deadline()) is not None:
        wakes += 1
        wheel.advance(deadline)
    assert wakes <= 5


Step = tuple[str, int]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(-5, 6_000)),
        st.tuples(st.just("cancel"), st.integers(0, 50)),
        st.tuples(st.just("put off"), st.integers(0, 6_000)),
        st.tuples(st.just("advance"), st.integers(0, 3_000)),
        st.tuples(st.just("sleep"), st.just(0)),
    ),
    max_size=60,
)


class SortedTimers:
    """The naive model: a list, sorted by tick and by insertion."""

    def __init__(self, tick_ms: int) -> None:
        self.tick_ms = tick_ms
        self.waiting: list[Timer] = []

    def tick(self, timer: Timer, now_tick: int) -> int:
        return max(-(-timer.deadline_ms // self.tick_ms), now_tick)

    def take(self, now_ms: int) -> list[Timer]:
        now_tick = now_ms // self.tick_ms
        due = [t for t in self.waiting if self.tick(t, 0) <= now_tick]
        self.waiting = [t for t in self.waiting if t not in due]
        return due


@settings(max_examples=300, deadline=None)
@given(STEPS, st.sampled_from([1, 3, 10]), st.sampled_from([2, 4, 64]))
def test_agrees_with_a_sorted_list(steps: list[Step], tick_ms: int, size: int) -> None:
    wheel, model, now = TimingWheel(tick_ms, size), SortedTimers(tick_ms), 0
    reached: dict[Timer, int] = {}
    moved: set[Timer] = set()  # that were put off: they may be anywhere in their tick
    order: Callable[[Timer], int] = lambda timer: reached[timer]  # noqa: E731
    for verb, number in steps:
        if verb == "add":
            timer = wheel.add(now + number, nothing)
            reached[timer] = max(-(-timer.deadline_ms // tick_ms), now // tick_ms)
            model.waiting.append(timer)
        elif verb == "cancel" and model.waiting:
            assert wheel.cancel(model.waiting.pop(number % len(model.waiting)))
        elif verb == "put off" and model.waiting:
            timer = model.waiting[number % len(model.waiting)]
            assert wheel.put_off(timer, timer.deadline_ms + number)
            reached[timer] = max(-(-timer.deadline_ms // tick_ms), now // tick_ms)
            moved.add(timer)
        elif verb in ("advance", "sleep"):
            wake = wheel.next_deadline()
            now = now + number if verb == "advance" else max(now, wake or now)
            found, expected = wheel.advance(now), sorted(model.take(now), key=order)
            assert set(found) == set(expected)
            assert [reached[t] for t in found] == [reached[t] for t in expected]
            assert [t for t in found if t not in moved] == [
                t for t in expected if t not in moved
            ]
        wake = wheel.next_deadline()
        assert (wake is None) == (not model.waiting)
        assert len(wheel) == len(model.waiting)
        if wake is not None:
            assert wake <= min(reached[timer] for timer in model.waiting) * tick_ms
