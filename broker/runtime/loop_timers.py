"""The timing wheel, driven by the event loop.

The wheel knows no time; the loop knows only how to call something later, at a cost in
a heap for each. So all delays go to the wheel, and the loop is asked for exactly one
call: at the wheel's next deadline. Nothing ticks while nothing is due.

The loop's call is moved only to come earlier. When the timer that it was for has been
cancelled it comes for nothing and asks again: cheaper than to move it on each cancel.
"""

import asyncio
from collections.abc import Callable

import structlog

from broker.clock import Clock
from broker.timing.wheel import Timer, TimingWheel

log = structlog.get_logger("lakelog.timers")


class LoopTimer:
    """A delay that runs."""

    __slots__ = ("_timer", "_wheel")

    def __init__(self, wheel: TimingWheel, timer: Timer) -> None:
        self._wheel = wheel
        self._timer = timer

    def cancel(self) -> None:
        """Let it not fire. Nothing happens if it did, or was cancelled before."""
        self._wheel.cancel(self._timer)


class Timers:
    """``after(ms, callback)`` for the whole broker. Only for the loop's own thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._wheel = TimingWheel(start_ms=clock.monotonic_ms())
        self._call: asyncio.TimerHandle | None = None
        self._call_ms = 0

    def __len__(self) -> int:
        """Delays that run."""
        return len(self._wheel)

    def after(self, delay_ms: int, callback: Callable[[], None]) -> LoopTimer:
        """Call ``callback`` once, no earlier than ``delay_ms`` from now."""
        now_ms = self._clock.monotonic_ms()
        timer = self._wheel.add(now_ms + max(delay_ms, 0), callback)
        if self._call is None or timer.deadline_ms < self._call_ms:
            self._arm(now_ms)
        return LoopTimer(self._wheel, timer)

    def close(self) -> None:
        """Fire nothing more."""
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _arm(self, now_ms: int) -> None:
        if self._call is not None:
            self._call.cancel()
            self._call = None
        deadline_ms = self._wheel.next_deadline()
        if deadline_ms is not None:
            self._call_ms = deadline_ms
            delay_s = max(deadline_ms - now_ms, 0) / 1000
            self._call = self._loop.call_later(delay_s, self._wake)

    def _wake(self) -> None:
        self._call = None
        for timer in self._wheel.advance(self._clock.monotonic_ms()):
            try:
                timer.fire()
            except Exception:
                log.exception("a timer's callback failed")
        self._arm(self._clock.monotonic_ms())
