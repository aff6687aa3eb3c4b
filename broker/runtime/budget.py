"""How many bytes may be under way at once, over all connections.

One peer's memory is bounded by its frames; a thousand peers' memory is not. A budget
bounds the sum. Who finds it spent stops reading its socket (so the kernel, and then
the peer, wait) and asks to be woken when something is given back.

The smallest wait shortest: who asks for 64 MiB must not hold up who asks for one. But
where there is always somebody who asks for one, who asks for 64 would wait for ever; so
one who was refused often may be put first, and until it was served nobody else is.

Even when a single request is larger than the budget it is admitted while nothing else
is: a limit that can never be met would be a connection that hangs for ever.
"""

import heapq
from collections.abc import Callable
from typing import Final

_GONE_MAX: Final = 100
"""So many of those who wait no more may stand in line, and as many as wait."""


class Budget:
    """Bytes that may be taken, and who waits for them. Not thread-safe."""

    __slots__ = ("_arrivals", "_first", "_order", "_waiting", "bytes_max", "taken")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.taken = 0
        self._waiting: dict[int, Callable[[], None]] = {}
        """By arrival."""
        self._order: list[tuple[int, int]] = []
        """A heap of sizes and arrivals, also of some who wait no more."""
        self._arrivals = 0
        self._first: object = None

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
        if self._first is not None and who is not self._first:
            return False
        if self.taken and self.taken + size > self.bytes_max:
            return False
        self.taken += size
        self.step_back(who)
        return True

    def put_first(self, who: object) -> None:
        """Until this one has taken bytes, or stepped back, nobody else may."""
        if self._first is None:
            self._first = who

    def step_back(self, who: object) -> None:
        """Give up the first place; those who wait are woken."""
        if who is not None and who is self._first:
            self._first = None
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
            if self.spent:
                break
            self._wake_next()

    def _wake_next(self) -> None:
        while self._order:
            wake = self._waiting.pop(heapq.heappop(self._order)[1], None)
            if wake is not None:
                wake()
                return

    def wait(self, wake: Callable[[], None], size: int = 0) -> int:
        """Call ``wake`` once, when bytes have been given back; ``size`` are wanted.
        Returns what `forget` takes."""
        self._arrivals += 1
        self._waiting[self._arrivals] = wake
        heapq.heappush(self._order, (size, self._arrivals))
        return self._arrivals

    def forget(self, arrival: int) -> None:
        """Not to call it any more: who waited has given up. It may have been called."""
        self._waiting.pop(arrival, None)
        if len(self._order) > 2 * len(self._waiting) + _GONE_MAX:
            self._order = [one for one in self._order if one[1] in self._waiting]
            heapq.heapify(self._order)


class Reservation:
    """Bytes of a budget that one answer takes, until they are given back."""

    __slots__ = ("_budget", "bytes")

    def __init__(self, budget: Budget, size: int) -> None:
        """``size`` has been taken already."""
        self._budget = budget
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
        """Take so many more if they fit, or if nobody else holds any."""
        budget = self._budget
        if (
            size
            and budget.taken > self.bytes
            and budget.taken + size > budget.bytes_max
        ):
            return False
        self.resize(self.bytes + size)
        return True

    def release(self) -> None:
        """Give everything back; nothing happens the second time."""
        size, self.bytes = self.bytes, 0
        if size:
            self._budget.give(size)
