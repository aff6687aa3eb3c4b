"""What one turn of the loop takes of requests that came together, over all connections.

The problem. A read of 64 KiB may hold three thousand requests. A hundred peers who send
such reads, and perhaps read no answer, have seconds of work waiting; one who connects
meanwhile must be accepted, heard and answered in three or four turns of the loop, and
each of them would take as long as all those others together.

The idea. Who has more than `SLICE` requests waits in a queue, which each turn begins
with and goes through for ``TURN_NS``: a slice for each, one after the other. Who was
just read may start a slice before that, unless that makes the turn ``READING_NS`` long.
A request that comes alone and whole does not ask (`only_frame`): of those a connection
has one in a turn, so a newcomer passes all the others.

The price. Of a hundred who have much to say each has a hundredth of the time; the clock
is read once more for each request that came with others.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from broker.clock import ticks_ns

TURN_NS: Final = 1_000_000
"""So long the queue has in a turn of the loop; its last request may take longer."""

READING_NS: Final = 8_000_000
"""When a turn has lasted so long, what is read in it joins the queue."""

SLICE: Final = 16
"""So many requests of a connection are started before others who wait have theirs. With
half of that a pipeline is answered in more calls of the kernel: a tenth slower."""


class Waiting(Protocol):
    """A connection with requests that may be started."""

    def resume(self) -> None:
        """Start some of them; if some are left, come again."""


class Turn:
    """Who starts requests in this turn of the loop, and who in the next."""

    __slots__ = (
        "_began_ns", "_call_soon", "_called", "_queue", "_resuming", "_ticks_ns",
    )  # fmt: skip

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        ticks_ns: Callable[[], int] = ticks_ns,
    ) -> None:
        self._call_soon, self._ticks_ns = call_soon, ticks_ns
        self._queue: deque[Waiting] = deque()
        self._called = self._resuming = False
        self._began_ns: int | None = None  # while nothing was started in this turn

    def come(self, connection: Waiting) -> None:
        """Resume a connection in the next turn, or when those before it had theirs."""
        self._queue.append(connection)
        self._call_next()

    def is_over(self, started: int) -> bool:
        """Whether one that started so many at once leaves its rest to others."""
        lasted_ns = self._lasted_ns()
        if started < SLICE and not self._resuming:
            return lasted_ns >= READING_NS
        return lasted_ns >= TURN_NS or (started >= SLICE and bool(self._queue))

    def _lasted_ns(self) -> int:
        """How long ago the first request of this turn was started."""
        now_ns = self._ticks_ns()
        if self._began_ns is None:
            self._began_ns = now_ns
            self._call_next()
        return now_ns - self._began_ns

    def _call_next(self) -> None:
        if not self._called:
            self._called = True
            self._call_soon(self._next)

    def _next(self) -> None:
        """A turn begins: those who wait are resumed, each once, while it lasts."""
        self._called, self._began_ns, self._resuming = False, None, True
        for _ in range(len(self._queue)):
            self._queue.popleft().resume()
            if self._began_ns is not None and self._lasted_ns() >= TURN_NS:
                break
        self._resuming = False
        if self._queue:
            self._call_next()
