"""How many bytes may be under way at once, over all connections.

One peer's memory is bounded by its frames; a thousand peers' memory is not. A budget
bounds the sum. Who finds it spent stops reading its socket (so the kernel, and then
the peer, wait) and asks to be woken when something is given back.

The smallest wait shortest: who asks for 64 MiB must not hold up who asks for one. But
where there is always somebody who asks for one, who asks for 64 would wait for ever; so
one who was refused often may be put first, and until it was served nobody else is. Who
waits under a name of its own is put first when all others have lined up twice since.

Whoever is woken looks for what it may take, which is work. So nobody is for whom there
is no room: of a thousand who wait for a megabyte, each that comes back wakes one.

Even when a single request is larger than the budget it is admitted while nothing else
is: a limit that can never be met would be a connection that hangs for ever.
"""

import heapq
from collections.abc import Callable
from typing import Final, NamedTuple

_GONE_MAX: Final = 100
"""So many of those who wait no more may stand in line, and as many as wait."""

PASSED_OVER_MAX: Final = 200
"""So many may line up behind one, besides twice as many as wait, before it is first."""


class _Waiting(NamedTuple):
    wake: Callable[[], None]
    size: int
    who: object


class Budget:
    """Bytes that may be taken, and who waits for them. Not thread-safe."""

    __slots__ = (
        "_arrivals", "_first", "_first_arrival", "_order", "_waiting", "bytes_max",
        "taken",
    )  # fmt: skip

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.taken = 0
        self._waiting: dict[int, _Waiting] = {}
        """By arrival."""
        self._order: list[tuple[int, int]] = []
        """A heap of sizes and arrivals, also of some who wait no more."""
        self._arrivals = 0
        self._first: object = None
        self._first_arrival = 0
        """Where the first one waits, or last did; 0 if that is not known."""

    @property
    def spent(self) -> bool:
        return self.taken >= self.bytes_max > 0

    @property
    def is_awaited(self) -> bool:
        return bool(self._waiting)

    @property
    def room(self) -> int:
        """Bytes that may be taken without waiting; 0 if none."""
        return max(self.bytes_max - self.taken, 0)

    def take(self, size: int) -> None:
        """Take bytes that are under way already, over the limit if need be."""
        self.taken += size

    def try_take(self, size: int, who: object = None) -> bool:
        """Take bytes if they fit, or if nobody else holds any; and nobody is first."""
        if not self.may_take(size, who):
            return False
        self.taken += size
        self.step_back(who)
        return True

    def may_take(self, size: int, who: object = None, held: int = 0) -> bool:
        """Whether `try_take` would, of who holds some bytes already."""
        if self._first is not None and who is not self._first:
            return False
        return self._fits(size, held)

    def _fits(self, size: int, held: int = 0) -> bool:
        """Whether there is room, or nobody else holds any."""
        return self.taken <= held or self.taken + size <= self.bytes_max

    def put_first(self, who: object) -> None:
        """Until this one has taken bytes, or stepped back, nobody else may."""
        if self._first is None:
            self._first = who

    def step_back(self, who: object) -> None:
        """Give up the first place; those who wait are woken."""
        if who is not None and who is self._first:
            self._first, self._first_arrival = None, 0
            self._wake()

    def give(self, size: int) -> None:
        """Give bytes back, and wake those who wait: the smallest first, then in order.

        Who is woken and does not find enough asks again.
        """
        self.taken -= size
        assert self.taken >= 0, "more given back than taken"
        if self._waiting:
            self._wake()

    def _wake(self) -> None:
        for _ in range(len(self._waiting)):
            arrival = self._next()
            if arrival is None or self.spent:
                return
            if not self._fits(self._waiting[arrival].size):
                return
            self._waiting.pop(arrival).wake()

    def _next(self) -> int | None:
        """The arrival of who is to be woken next; None if nobody is: who is first and
        was woken may still look for what it takes."""
        while self._order and self._order[0][1] not in self._waiting:
            heapq.heappop(self._order)
        if not self._order:
            return None
        oldest = next(iter(self._waiting))
        who, passed_over = self._waiting[oldest].who, self._arrivals - oldest
        many = 2 * len(self._waiting) + PASSED_OVER_MAX
        if who is not None and self._first is None and passed_over > many:
            self._first, self._first_arrival = who, oldest
        if self._first_arrival:
            return self._first_arrival if self._first_arrival in self._waiting else None
        return self._order[0][1]

    def wait(self, wake: Callable[[], None], size: int = 0, who: object = None) -> int:
        """Call ``wake`` once, when ``size`` bytes may be taken, by ``who`` if it has to
        be first. Returns what `forget` takes."""
        self._arrivals += 1
        self._waiting[self._arrivals] = _Waiting(wake, size, who)
        heapq.heappush(self._order, (size, self._arrivals))
        if who is not None and who is self._first:
            self._first_arrival = self._arrivals
        return self._arrivals

    def forget(self, arrival: int) -> None:
        """Not to call it any more: who waited has given up. It may have been called."""
        self._waiting.pop(arrival, None)
        if len(self._order) > 2 * len(self._waiting) + _GONE_MAX:
            self._order = [one for one in self._order if one[1] in self._waiting]
            heapq.heapify(self._order)


class Reservation:
    """Bytes of a budget that one answer takes, until they are given back."""

    __slots__ = ("_budget", "_who", "bytes")

    def __init__(self, budget: Budget, size: int, who: object = None) -> None:
        """``size`` has been taken already, by ``who`` if it has to be first."""
        self._budget, self._who = budget, who
        self.bytes = size

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for bytes of the same budget."""
        return self._budget.is_awaited

    def resize(self, size: int) -> None:
        """Take or give the difference, over the limit if it is under way already."""
        more, self.bytes = size - self.bytes, size
        if more >= 0:
            self._budget.take(more)
        else:
            self._budget.give(-more)

    def try_grow(self, size: int) -> bool:
        """Take so many more if they fit, or if nobody else holds any; and nobody else
        is first."""
        budget = self._budget
        if size and not budget.may_take(size, self._who, self.bytes):
            return False
        self.resize(self.bytes + size)
        return True

    def release(self) -> None:
        """Give everything back; nothing happens the second time."""
        size, self.bytes = self.bytes, 0
        if size:
            self._budget.give(size)
