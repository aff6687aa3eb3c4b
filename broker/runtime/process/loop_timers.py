"""The timing wheel, driven by the event loop.

The wheel knows no time; the loop knows only how to call something later, at a cost in
a heap for each. So all delays go to the wheel, and the loop is asked for exactly one
call: at the wheel's next deadline. Nothing ticks while nothing is due.

Time in which the loop did not run (it was held up; the process or its machine stood
still) does not count: what peers sent meanwhile waits in the sockets, and a session
must not expire before its heartbeat is read. A pause shows as a call that comes far too
late. The wheel stands still for as long, so delays have what they had left, and sockets
are read first. The price: a client that died in the pause is noticed as much later, and
delays are longer in a broker whose turns take seconds.

What is due in one moment may be very much: the sessions of a large group whose clients
died together. It is called for ``TURN_MS`` at a time, and sockets are read in between;
what they bring may still cancel the rest.

The loop's call is moved only to come earlier. When the timer that it was for has been
cancelled it comes for nothing and asks again: cheaper than to move it on each cancel.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context

import structlog

from broker.clock import Clock
from broker.timing.wheel import Timer, TimingWheel

PAUSE_MS = 1_000
"""A call that comes so late means that the loop did not run."""

SOCKETS_FIRST_MS = 50
"""How long sockets are read after a pause before anything expires."""

TURN_MS = 4
"""After so long the loop has its turn before more is called that is due."""

log = structlog.get_logger("lakelog.timers")


class LoopTimer:
    """A delay that runs."""

    __slots__ = ("_timer", "_timers")

    def __init__(self, timers: "LoopTimers", timer: Timer) -> None:
        self._timers = timers
        self._timer = timer

    def cancel(self) -> None:
        """Stop it. Nothing happens if it fired or was stopped before."""
        self._timers.wheel.cancel(self._timer)

    def put_off(self, delay_ms: int) -> bool:
        """Let it end ``delay_ms`` from now. False, and nothing is done, if it does not
        run any more or would end earlier than it does."""
        timers = self._timers
        return timers.wheel.put_off(self._timer, timers.now_ms() + max(delay_ms, 0))


class LoopTimers:
    """``after(ms, callback)`` for the whole broker. Only for the loop's own thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._context = Context()
        """What is called is part of no request, though one began the delay."""
        self._clock = clock
        self.wheel = TimingWheel(start_ms=clock.monotonic_ms())
        self._call: asyncio.TimerHandle | None = None
        self._call_ms = 0
        self._paused_ms = 0
        self._is_pause_news = True
        self._due: deque[Timer] = deque()

    def __len__(self) -> int:
        """Delays that run, or have ended and were not called yet."""
        return len(self.wheel) + sum(timer.active for timer in self._due)

    def after(self, delay_ms: int, callback: Callable[[], None]) -> LoopTimer:
        """Call ``callback`` once, no earlier than ``delay_ms`` from now."""
        now_ms = self.now_ms()
        timer = self.wheel.add(now_ms + max(delay_ms, 0), callback)
        if self._call is None or timer.deadline_ms < self._call_ms:
            self._arm(now_ms)
        return LoopTimer(self, timer)

    def expect_pauses(self) -> None:
        """A start holds the loop up by itself: until it ends that warns nobody."""
        self._is_pause_news = False

    def warn_of_pauses(self) -> None:
        """From now on; one that began before is none to warn of."""
        self.now_ms()
        self._is_pause_news = True

    def close(self) -> None:
        """Fire nothing more."""
        self._cancel_call()

    def _cancel_call(self) -> None:
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def now_ms(self) -> int:
        """The wheel's time: the clock's, less the pauses of the process."""
        now_ms = self._clock.monotonic_ms() - self._paused_ms
        if self._call is not None and now_ms - self._call_ms >= PAUSE_MS:
            lost_ms, now_ms = now_ms - self._call_ms, self._call_ms
            say = log.warning if self._is_pause_news else log.debug
            say(
                "the loop was held up, or the process stopped; delays go on",
                paused_ms=lost_ms,
            )
            self._paused_ms += lost_ms
            self._arm(now_ms, SOCKETS_FIRST_MS)
        return now_ms

    def _arm(self, now_ms: int, more_ms: int = 0) -> None:
        self._cancel_call()
        deadline_ms = now_ms if self._due else self.wheel.next_deadline()
        if deadline_ms is not None:
            self._call_ms = deadline_ms
            delay_s = (max(deadline_ms - now_ms, 0) + more_ms) / 1000
            self._call = self._loop.call_later(
                delay_s, self._fire_due, context=self._context
            )

    def _fire_due(self) -> None:
        paused_ms = self._paused_ms
        now_ms = self.now_ms()
        if self._paused_ms != paused_ms:
            return  # called again when sockets have been read
        self._cancel_call()
        self._due.extend(self.wheel.advance(now_ms))
        end_ms = self._clock.monotonic_ms() + TURN_MS
        while self._due:
            try:
                self._due.popleft().fire()
            except Exception:
                log.exception("a timer's callback failed")
            if self._clock.monotonic_ms() >= end_ms:
                break
        self._arm(self.now_ms())
