"""The wheel on a real loop: in time, in order, cancelled, and quiet."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import uvloop

from broker.clock import SystemClock
from broker.runtime.loop_timers import Timers


def on_loop(story: Callable[[Timers], Any]) -> None:
    async def main() -> None:
        await story(Timers(asyncio.get_running_loop(), SystemClock()))

    uvloop.run(asyncio.wait_for(main(), 10))


def test_delays_fire_in_their_order_and_never_early() -> None:
    async def story(timers: Timers) -> None:
        fired: list[tuple[int, float]] = []
        start = time.monotonic()
        for ms in (50, 5, 90, 0, 5):
            timers.after(ms, lambda ms=ms: fired.append((ms, time.monotonic() - start)))
        await asyncio.sleep(0.15)
        assert [ms for ms, _ in fired] == [0, 5, 5, 50, 90]
        for ms, took_s in fired:
            assert ms - 1 <= took_s * 1000 < ms + 50

    on_loop(story)


def test_a_cancelled_delay_does_not_fire() -> None:
    async def story(timers: Timers) -> None:
        fired: list[str] = []
        early = timers.after(5, lambda: fired.append("early"))
        timers.after(20, lambda: fired.append("late"))
        early.cancel()
        early.cancel()
        await asyncio.sleep(0.05)
        assert fired == ["late"]
        assert len(timers) == 0

    on_loop(story)


def test_a_callback_may_ask_for_more_and_may_fail() -> None:
    async def story(timers: Timers) -> None:
        fired: list[str] = []

        def broken() -> None:
            timers.after(5, lambda: fired.append("again"))
            raise ZeroDivisionError

        timers.after(5, broken)
        timers.after(5, lambda: fired.append("other"))
        await asyncio.sleep(0.05)
        assert fired == ["other", "again"]

    on_loop(story)


def test_nothing_ticks_while_nothing_is_due() -> None:
    async def story(timers: Timers) -> None:
        calls = 0
        advance = timers._wheel.advance

        def counted(now_ms: int) -> Any:
            nonlocal calls
            calls += 1
            return advance(now_ms)

        class Counting:
            def __getattr__(self, name: str) -> Any:
                return counted if name == "advance" else getattr(wheel, name)

        wheel = timers._wheel
        timers._wheel = Counting()  # type: ignore[assignment]
        timers.after(60_000, lambda: None)
        await asyncio.sleep(0.1)
        assert calls == 0

    on_loop(story)


def test_nothing_fires_after_the_close() -> None:
    async def story(timers: Timers) -> None:
        fired: list[int] = []
        timers.after(5, lambda: fired.append(1))
        timers.close()
        await asyncio.sleep(0.03)
        assert fired == []

    on_loop(story)
