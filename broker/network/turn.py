"""What one turn of the loop takes of requests that came together, over all connections.

The problem. A read of 64 KiB may hold three thousand requests. A hundred peers who send
such reads, and perhaps read no answer, have seconds of work waiting; one who connects
meanwhile must be accepted, heard and answered in three or four turns of the loop, and
each of them would take as long as all those others together.

The idea is that of fair queues in routers (RFC 8290, section 4.2). A connection may
start ``CREDIT`` requests when they come; who used that up waits in a queue, which each
turn goes through for ``QUEUE_NS``, ``SERVED`` requests for each. Who did not use it up,
and could not start since the turn was long (``TURN_NS``) or an answer had to come
first, goes on before the queue. Credit comes back with a place in the queue, or when
nobody waits: who is served quickly, and at once has more, passes nobody who waits.

A request that comes alone and whole does not ask (`only_frame`), so it passes all that
came together. libuv reads each connection once in a turn, unless its buffer was filled.
But fetches of megabytes come alone, and take milliseconds each: a thousand consumers
that are behind made turns of seven seconds. So once those with large answers have
lasted for a turn, or others wait for the next one, only what is ``brief`` passes.

The price. Of a hundred who have much to say each has a hundredth of the time, and is
answered in four times as many calls of the kernel. The clock is read once more for each
request that came with others.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

TURN_NS: Final = 8_000_000
"""After so long nothing is started in a turn of the loop that came with others."""

QUEUE_NS: Final = 1_000_000
"""So long the queue has in a turn, whatever came before it."""

LARGE_BYTES: Final = 64 << 10
"""A smaller answer to a request that came alone is none that a turn is long for."""

CREDIT: Final = 16
SERVED: Final = 4


class Waiting(Protocol):
    """A connection with requests that may be started."""

    credit: int
    """So many may be started before others have theirs; it counts them down."""

    def resume(self) -> None:
        """Start some of them; if some are left, come again."""


class Turn:
    """Who starts requests in this turn of the loop, and who in the next."""

    __slots__ = (
        "_began_ns", "_brief", "_call_soon", "_called", "_ends_ns", "_first",
        "_monotonic_ns", "_queue", "passing",
    )  # fmt: skip

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        monotonic_ns: Callable[[], int],
        brief: frozenset[int] = frozenset(),
    ) -> None:
        self._call_soon, self._monotonic_ns = call_soon, monotonic_ns
        self._brief = brief
        self.passing: frozenset[int] | None = None
        """Of which APIs a request that comes alone asks nobody; None: of all."""
        self._first: OrderedDict[Waiting, None] = OrderedDict()
        """Those who have credit."""
        self._queue: OrderedDict[Waiting, None] = OrderedDict()
        """Those who have used some, be it that they have nothing to start just now."""
        self._called = False
        self._began_ns: int | None = None  # while nothing was started in this turn
        self._ends_ns = TURN_NS

    def come(self, connection: Waiting) -> None:
        """Resume a connection, in the next turn if all those before it have theirs."""
        place = self._first if connection.credit > 0 else self._queue
        place[connection] = None
        self._call_next()

    def went_on(self, connection: Waiting) -> None:
        """A connection started some: it has its credit back when others had theirs."""
        if not (self._queue or self._first):
            connection.credit = CREDIT
        elif connection.credit < CREDIT:
            self._queue[connection] = None
            self._call_next()

    def note_alone(self, answer_bytes: int) -> None:
        """A request that came alone has its answer, which is handed over now."""
        if answer_bytes >= LARGE_BYTES and self._lasted_ns() >= TURN_NS:
            self.passing = self._brief

    def is_over(self, connection: Waiting) -> bool:
        """Whether a connection leaves its next request to a later turn."""
        lasted_ns = self._lasted_ns()
        if connection.credit > 0:
            return lasted_ns >= self._ends_ns
        return bool(self._queue or self._first) or lasted_ns >= QUEUE_NS

    def _lasted_ns(self) -> int:
        """How long ago the first request of this turn was started."""
        now_ns = self._monotonic_ns()
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
        self._called, self._began_ns = False, None
        for _ in range(len(self._first)):
            self._first.popitem(last=False)[0].resume()
            if self._has_lasted(TURN_NS):
                break
        self._ends_ns = QUEUE_NS + (0 if self._began_ns is None else self._lasted_ns())
        for _ in range(len(self._queue)):
            self._serve(self._queue.popitem(last=False)[0])
            if self._has_lasted(self._ends_ns):
                break
        self._ends_ns = TURN_NS
        self.passing = self._brief if self._first else None
        if self._first or self._queue:
            self._call_next()

    def _serve(self, connection: Waiting) -> None:
        connection.credit = SERVED
        connection.resume()
        if connection not in self._queue:
            connection.credit = CREDIT

    def _has_lasted(self, ns: int) -> bool:
        return self._began_ns is not None and self._lasted_ns() >= ns
