"""How many bytes may be under way at once, over all connections.

One peer's memory is bounded by its frames; a thousand peers' memory is not. A budget
bounds the sum. Who finds it spent stops reading its socket (so the kernel, and then
the peer, wait) and asks to be woken when something is given back.

The smallest wait shortest: who asks for 64 MiB must not hold up who asks for one.

Even when a single request is larger than the budget it is admitted while nothing else
is: a limit that can never be met would be a connection that hangs for ever.
"""

import heapq
from collections.abc import Callable


class Budget:
    """Bytes that may be taken, and who waits for them. Not thread-safe."""

    __slots__ = ("_came", "_waiting", "bytes_max", "taken")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.taken = 0
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._came = 0

    @property
    def spent(self) -> bool:
        return self.taken >= self.bytes_max > 0

    @property
    def is_awaited(self) -> bool:
        return bool(self._waiting)

    def take(self, size: int) -> None:
        """Take bytes that are under way already, over the limit if need be."""
        self.taken += size

    def try_take(self, size: int) -> bool:
        """Take bytes if they fit, or if nobody else holds any."""
        if self.taken and self.taken + size > self.bytes_max:
            return False
        self.taken += size
        return True

    def give(self, size: int) -> None:
        """Give bytes back, and wake those who wait: the smallest first, then in order.

        Who is woken and does not find enough asks again.
        """
        self.taken -= size
        assert self.taken >= 0, "more given back than taken"
        for _ in range(len(self._waiting)):
            if self.spent:
                break
            heapq.heappop(self._waiting)[2]()

    def wait(self, wake: Callable[[], None], size: int = 0) -> None:
        """Call ``wake`` once, when bytes have been given back; ``size`` are wanted."""
        self._came += 1
        heapq.heappush(self._waiting, (size, self._came, wake))
