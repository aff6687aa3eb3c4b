"""How late the event loop comes to what is due: measured four times a second."""

import asyncio
from typing import Final

from broker.clock import ticks_ns
from broker.status.histogram import Histogram

INTERVAL_S: Final = 0.25


class LoopLag:
    """Counts into ``histogram`` until closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, histogram: Histogram) -> None:
        self._loop, self._histogram = loop, histogram
        self._call: asyncio.TimerHandle | None = None
        self._due_ns = 0

    def start(self) -> None:
        """Measure from now on."""
        self._due_ns = ticks_ns() + int(INTERVAL_S * 1e9)
        self._call = self._loop.call_later(INTERVAL_S, self._measure)

    def close(self) -> None:
        """Measure no more."""
        if self._call is not None:
            self._call.cancel()

    def _measure(self) -> None:
        self._histogram.add_time(max(0, ticks_ns() - self._due_ns))
        self.start()
