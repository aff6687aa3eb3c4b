"""From a thread to the loop: what was finished there is called a part in each turn.

The problem: the catalog's thread finishes five hundred changes with one commit, and
each has somebody who goes on. Called all at once they would hold the loop for tens of
milliseconds. The idea: they queue, one call wakes the loop, and the loop calls so many
of them that a turn stays short, then lets everybody else have theirs. Order is kept.
One that has much to do says so, and has a turn for itself if need be.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator

CALLED_A_TURN = 25
"""Each may cost a tenth of a millisecond: to make a topic known, say. One that costs
more counts as several."""


class Handover:
    """Calls on their way from threads to the loop."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[], object], int]] = deque()
        self._lock = threading.Lock()
        self._is_called = False  # one call of the loop is under way, never two

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits to be called."""
        return not self._waiting

    def put(
        self,
        loop: asyncio.AbstractEventLoop,
        call: Callable[[], object],
        counts_as: int = 1,
    ) -> None:
        """Let the loop call it in its turn. On any thread; ``call`` must not raise."""
        with self._lock:
            self._waiting.append((call, counts_as))
            was_called, self._is_called = self._is_called, True
        if not was_called:
            loop.call_soon_threadsafe(self._call_some, loop)

    def _call_some(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            for call in self._of_this_turn(len(self._waiting)):
                call()
        finally:
            with self._lock:
                self._is_called = goes_on = bool(self._waiting)
            if goes_on:
                loop.call_soon(self._call_some, loop)

    def _of_this_turn(self, waiting: int) -> Iterator[Callable[[], object]]:
        """Take those that are called now: one at least, none that came meanwhile."""
        left = CALLED_A_TURN
        for count in range(waiting):
            left -= self._waiting[0][1]
            if left < 0 and count:
                return
            yield self._waiting.popleft()[0]
