"""How much of its time the event loop's thread takes no processor."""

from collections.abc import Callable
from time import monotonic_ns, thread_time_ns


class LoopIdle:
    """Asked now and then, on the loop's own thread. What waits for a disk in the loop
    counts as idle, and so does what waits for a processor that others have."""

    def __init__(
        self,
        now_ns: Callable[[], int] = monotonic_ns,
        taken_ns: Callable[[], int] = thread_time_ns,
    ) -> None:
        self._now_ns, self._taken_ns = now_ns, taken_ns
        self._before = now_ns(), taken_ns()

    def percent(self) -> int:
        """Since it was asked before, or made; 100 if nothing was taken."""
        now_ns, taken_ns = self._now_ns(), self._taken_ns()
        before_ns, taken_before_ns = self._before
        self._before = now_ns, taken_ns
        passed_ns = max(1, now_ns - before_ns)
        busy = (taken_ns - taken_before_ns) * 100 // passed_ns
        return max(0, 100 - busy)
