"""The clock: the only module that asks what time it is.

Everything below takes ``now`` as an argument, so that tests move time by hand.
"""

import time
from typing import Protocol

ticks_ns = time.perf_counter_ns
"""For measuring how long something took; nothing is decided by it."""


class Clock(Protocol):
    """What the shell may know of time."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since the epoch: what records are stamped with."""

    def monotonic_ms(self) -> int:
        """Milliseconds of a clock that never goes back: what timeouts run on."""

    def monotonic_ns(self) -> int:
        """The same in nanoseconds: by it turns of the loop are shared out."""


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    monotonic_ns = staticmethod(time.monotonic_ns)
