"""Whose long work goes on in this turn of the loop.

The problem: what is too long for one turn is done in pieces of a millisecond or two,
and others have their turn between two of them. Of a thousand requests that are worked
at so, each would do a piece in each turn: turns of seconds, and none ends before all
do. The idea: all pieces go through one heap, of which a turn takes `PIECES_A_TURN`, of
the work that began first; so the first ones end, and the turn has its bound. Answers
that are being written go before all else. And of work that began at once, and showed to
be long, a turn has as many; then whatever may be long begins in its turn.

The price: a request whose pieces are short waits as long as for those that are not.
"""

import asyncio
import heapq
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Final
from weakref import WeakKeyDictionary, ref

PIECES_A_TURN: Final = 3


class Pieces:
    """The pieces that wait for a turn of one loop."""

    __slots__ = ("_begun", "_call_soon", "_heap", "_number", "_order")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._number, self._order = count(), count()
        self._begun = 0  # in this turn, and not done

    @property
    def is_full(self) -> bool:
        """Whether enough long work began in this turn."""
        return self._begun >= PIECES_A_TURN

    def note_begun(self) -> None:
        """Work began in this turn that is long."""
        if not self._begun:
            self._call_soon(self._forget_begun)
        self._begun += 1

    def _forget_begun(self) -> None:
        self._begun = 0

    def ticket(self) -> int:
        """The place of work that begins now behind all that began before."""
        return next(self._number)

    def add(self, ticket: int, piece: Callable[[], None]) -> None:
        """Do a piece in a turn to come."""
        if not self._heap:
            self._call_soon(self._go_on)
        heapq.heappush(self._heap, (ticket, next(self._order), piece))

    def _go_on(self) -> None:
        found = min(PIECES_A_TURN, len(self._heap))
        pieces = [heapq.heappop(self._heap)[2] for _ in range(found)]
        if self._heap:
            self._call_soon(self._go_on)
        for piece in pieces:
            piece()


_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, Pieces] = WeakKeyDictionary()


def pieces() -> Pieces:
    """Those of the loop that runs."""
    loop = asyncio.get_running_loop()
    found = _of_loops.get(loop)
    if found is None:
        found = _of_loops[loop] = Pieces(partial(_call_soon, ref(loop)))
    return found


def _call_soon(
    of: "ref[asyncio.AbstractEventLoop]", callback: Callable[[], None]
) -> None:
    """A loop that is gone is not kept by its pieces."""
    loop = of()
    assert loop is not None
    loop.call_soon(callback)


class LongWork:
    """One request's, or one task's; for the loop's own thread."""

    __slots__ = ("_pieces", "_ticket")

    def __init__(self, *, is_last: bool = False) -> None:
        """``is_last``: an answer is written."""
        self._pieces = pieces()
        self._ticket = -1 if is_last else self._pieces.ticket()

    def later(self, piece: Callable[[], None]) -> None:
        """Do the next piece when its turn has come; it must not raise."""
        self._pieces.add(self._ticket, piece)

    async def others_first(self) -> None:
        """Go on when the turn of the next piece has come."""
        turn = asyncio.get_running_loop().create_future()
        self.later(partial(_wake, turn))
        await turn


def _wake(turn: "asyncio.Future[None]") -> None:
    if not turn.done():
        turn.set_result(None)
