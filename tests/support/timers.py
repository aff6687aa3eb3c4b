"""Timers that run when a test says that time passes."""

from collections.abc import Callable

from tests.support.clock import ManualClock


class ManualTimer:
    """A delay that has not run out."""

    def __init__(
        self, clock: ManualClock, due_ms: int, callback: Callable[[], None]
    ) -> None:
        self.clock = clock
        self.due_ms = due_ms
        self.callback = callback
        self.cancelled = self.fired = False

    def cancel(self) -> None:
        self.cancelled = True

    def put_off(self, delay_ms: int) -> bool:
        due_ms = self.clock.monotonic_ms() + delay_ms
        if self.cancelled or self.fired or due_ms < self.due_ms:
            return False
        self.due_ms = due_ms
        return True


class ManualTimers:
    """``after`` as the broker's timers have it, on a clock that is moved by hand."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self._timers: list[ManualTimer] = []

    def __len__(self) -> int:
        return len(self.waiting())

    def waiting(self) -> list[ManualTimer]:
        """The delays that have not run out."""
        return [timer for timer in self._timers if not timer.cancelled]

    def after(self, delay_ms: int, callback: Callable[[], None]) -> ManualTimer:
        due_ms = self.clock.monotonic_ms() + delay_ms
        timer = ManualTimer(self.clock, due_ms, callback)
        self._timers.append(timer)
        return timer

    def advance(self, ms: int) -> None:
        """Let time pass; what is due runs in order, at its own time."""
        until_ms = self.clock.monotonic_ms() + ms
        while due := self._next(until_ms):
            self._timers.remove(due)
            self.clock.advance(max(due.due_ms - self.clock.monotonic_ms(), 0))
            due.fired = True
            due.callback()
        self.clock.advance(until_ms - self.clock.monotonic_ms())

    def _next(self, until_ms: int) -> ManualTimer | None:
        self._timers = self.waiting()
        due = [timer for timer in self._timers if timer.due_ms <= until_ms]
        return min(due, key=lambda timer: timer.due_ms, default=None)
