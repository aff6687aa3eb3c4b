"""The wheel on a loop: in time, in order, cancelled, and quiet."""

import asyncio
from collections.abc import Callable
from contextvars import Context, ContextVar
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
import uvloop
from structlog.testing import capture_logs

from broker.clock import SystemClock
from broker.runtime.process import loop_timers
from broker.runtime.process.loop_timers import (
    PAUSE_MS,
    SOCKETS_FIRST_MS,
    TURN_MS,
    LoopTimers,
)
from tests.support.clock import ManualClock


class Loop:
    """Keeps the one call that is asked of it, and makes it when its time comes."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.due_ms: int | None = None
        self.call: Callable[[], None] = lambda: None
        self.calls = 0

    def call_later(
        self, delay_s: float, callback: Callable[[], None], *, context: Context
    ) -> Any:
        assert self.due_ms is None, "the call before was not cancelled"
        self.due_ms = self.clock.monotonic_ms() + round(delay_s * 1000)
        self.call = partial(context.run, callback)
        return SimpleNamespace(cancel=self._cancel)

    def _cancel(self) -> None:
        self.due_ms = None

    def run(self, ms: int) -> None:
        """Let time pass while the loop runs."""
        end_ms = self.clock.monotonic_ms() + ms
        while self.due_ms is not None and self.due_ms <= end_ms:
            self.clock.advance(max(self.due_ms - self.clock.monotonic_ms(), 0))
            self.due_ms = None
            self.calls += 1
            self.call()
        self.clock.advance(max(end_ms - self.clock.monotonic_ms(), 0))


def timers_of_a_loop() -> tuple[LoopTimers, Loop]:
    clock = ManualClock()
    loop = Loop(clock)
    return LoopTimers(loop, clock), loop  # type: ignore[arg-type]


def test_delays_fire_in_their_order_and_in_their_millisecond() -> None:
    timers, loop = timers_of_a_loop()
    start_ms = loop.clock.monotonic_ms()
    fired: list[tuple[int, int]] = []
    for ms in (50, 5, 90, 0, 5):
        timers.after(
            ms, lambda ms=ms: fired.append((ms, loop.clock.monotonic_ms() - start_ms))
        )
    loop.run(200)
    assert fired == [(ms, ms) for ms in (0, 5, 5, 50, 90)]


def test_a_delay_is_never_early_on_a_real_loop() -> None:
    async def story() -> None:
        clock = SystemClock()
        timers = LoopTimers(asyncio.get_running_loop(), clock)
        for ms in (0, 1, 20):
            fired = asyncio.Event()
            start_ms = clock.monotonic_ms()
            timers.after(ms, fired.set)
            await fired.wait()
            assert clock.monotonic_ms() - start_ms >= ms
        assert len(timers) == 0

    uvloop.run(story())


def test_what_is_called_is_not_part_of_what_began_the_delay() -> None:
    part_of = ContextVar("part_of", default="nobody")
    timers, loop = timers_of_a_loop()
    found: list[str] = []
    token = part_of.set("a request")
    timers.after(5, lambda: found.append(part_of.get()))
    part_of.reset(token)
    timers.after(9, lambda: found.append(part_of.get()))
    loop.run(50)
    assert found == ["nobody", "nobody"]


def test_a_cancelled_delay_does_not_fire() -> None:
    timers, loop = timers_of_a_loop()
    fired: list[str] = []
    early = timers.after(5, lambda: fired.append("early"))
    timers.after(20, lambda: fired.append("late"))
    early.cancel()
    early.cancel()
    loop.run(50)
    assert fired == ["late"]
    assert len(timers) == 0


def test_a_delay_that_is_put_off_in_time_again_and_again_fires_once_at_last() -> None:
    timers, loop = timers_of_a_loop()
    fired: list[str] = []
    session = timers.after(45_000, lambda: fired.append("session"))
    for _ in range(100):
        loop.run(3_000)
        assert session.put_off(45_000)
    assert loop.calls < 30, "it is not moved each time"
    loop.run(44_999)
    assert fired == []
    loop.run(1)
    assert fired == ["session"]
    assert not session.put_off(45_000)
    assert len(timers) == 0


def test_a_callback_may_ask_for_more_and_may_fail() -> None:
    timers, loop = timers_of_a_loop()
    fired: list[str] = []

    def broken() -> None:
        timers.after(5, lambda: fired.append("again"))
        raise ZeroDivisionError

    timers.after(5, broken)
    timers.after(5, lambda: fired.append("other"))
    loop.run(50)
    assert fired == ["other", "again"]


def test_delays_that_end_in_one_moment_leave_the_loop_its_turns() -> None:
    timers, loop = timers_of_a_loop()
    clock, fired = loop.clock, list[int]()

    def work(number: int) -> None:
        clock.advance(1)
        fired.append(number)

    for number in range(100):
        timers.after(20, partial(work, number))
    heard = timers.after(20, lambda: fired.append(100))
    turns, before = list[int](), clock.monotonic_ms()
    while timers:
        loop.run(0 if turns else 20)
        turns.append(clock.monotonic_ms() - before - (0 if turns else 20))
        before = clock.monotonic_ms()
        heard.cancel()  # what a socket brought between two turns
    assert fired == list(range(100))
    assert len(turns) > 10
    assert max(turns) <= TURN_MS


def test_nothing_fires_after_the_close_of_what_was_due() -> None:
    timers, loop = timers_of_a_loop()
    fired = list[int]()

    def work() -> None:
        loop.clock.advance(TURN_MS)
        fired.append(1)

    for _ in range(3):
        timers.after(5, work)
    loop.run(5)
    assert fired == [1]
    assert len(timers) == 2
    timers.close()
    loop.run(50)
    assert fired == [1]


def test_nothing_ticks_while_nothing_is_due() -> None:
    timers, loop = timers_of_a_loop()
    timers.after(60_000, lambda: None)
    loop.run(59_999)
    turns_of_the_wheel = loop.calls
    assert turns_of_the_wheel <= 4  # one for each of its levels
    loop.run(1)
    assert loop.calls == turns_of_the_wheel + 1
    loop.run(600_000)
    assert loop.calls == turns_of_the_wheel + 1


def test_nothing_fires_after_the_close() -> None:
    timers, loop = timers_of_a_loop()
    fired: list[int] = []
    timers.after(5, lambda: fired.append(1))
    timers.close()
    loop.run(50)
    assert fired == []


def stopped(ms: int) -> tuple[LoopTimers, Loop, list[str]]:
    """Timers of a loop that did not run for so long, from its first moment on."""
    timers, loop = timers_of_a_loop()
    fired = list[str]()
    timers.after(1_000, lambda: fired.append("status"))
    timers.after(6_000, lambda: fired.append("session"))
    loop.clock.advance(ms)
    return timers, loop, fired


def test_a_pause_of_the_process_expires_nothing_that_had_time_left() -> None:
    _, loop, fired = stopped(60_000)
    loop.run(SOCKETS_FIRST_MS - 1)
    assert fired == []  # sockets first
    loop.run(100)
    assert fired == ["status"]
    loop.run(4_800)
    assert fired == ["status"]
    loop.run(200)
    assert fired == ["status", "session"]


def test_a_pause_is_warned_of_where_none_is_expected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_all_levels = structlog.wrap_logger(
        None, wrapper_class=structlog.make_filtering_bound_logger(0),
        cache_logger_on_first_use=False,
    )  # fmt: skip
    monkeypatch.setattr(loop_timers, "log", of_all_levels)  # whoever set up the process
    timers, loop = timers_of_a_loop()
    timers.expect_pauses()
    timers.after(1_000, lambda: None)
    with capture_logs() as events:
        loop.clock.advance(60_000)
        timers.warn_of_pauses()
    assert [event["log_level"] for event in events] == ["debug"]
    with capture_logs() as events:
        loop.clock.advance(60_000)
        timers.now_ms()
    assert [event["log_level"] for event in events] == ["warning"]


def test_a_delay_that_begins_after_a_pause_is_not_lengthened() -> None:
    timers, loop, fired = stopped(60_000)
    timers.after(100, lambda: fired.append("new"))  # before the loop's own call
    loop.run(100)
    assert fired == ["status", "new"]


def test_a_loop_that_is_only_busy_is_no_pause() -> None:
    _, loop, fired = stopped(1_000 + PAUSE_MS // 2)
    loop.run(0)
    assert fired == ["status"]
    loop.run(6_000 - 1_000 - PAUSE_MS // 2)
    assert fired == ["status", "session"]
