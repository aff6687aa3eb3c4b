"""Whose long work goes on in this turn of the loop.

The problem: what is too long for one turn is done in pieces of a millisecond or two,
and others have their turn between two of them. Of a thousand requests that are worked
at so, each would do a piece in each turn: turns of seconds, and none ends before all
do. The idea: all pieces go through one heap, of which a turn takes `PIECES_A_TURN`, of
the work that began first; so the first ones end, and the turn has its bound. Answers
that are being written have all of these but one, those first that began first. And of
work that began at once, and showed to be long, a turn has as many; then what goes on so
begins in its turn as well.

The price: a request whose pieces are short waits as long as for those that are not.
"""

import asyncio
import heapq
from collections.abc import Callable, Generator
from functools import partial
from itertools import count
from typing import Final, TypeVar
from weakref import WeakKeyDictionary, ref

R = TypeVar("R")
PIECES_A_TURN: Final = 3

Piece = tuple[int, int, Callable[[], None]]
"""By ticket, and in the order in which they came."""


class Pieces:
    """The pieces that wait for a turn of one loop."""

    __slots__ = (
        "_answers", "_begun", "_call_soon", "_called", "_number", "_order", "_work",
    )  # fmt: skip

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._work: list[Piece] = []
        self._answers: list[Piece] = []
        self._number, self._order = count(), count()
        self._called = False
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

    def add(
        self, ticket: int, piece: Callable[[], None], *, is_answer: bool = False
    ) -> None:
        """Do a piece in a turn to come."""
        heap = self._answers if is_answer else self._work
        heapq.heappush(heap, (ticket, next(self._order), piece))
        self._call_next()

    def _call_next(self) -> None:
        if not self._called:
            self._called = True
            self._call_soon(self._go_on)

    def _go_on(self) -> None:
        self._called = False
        of_work = min(len(self._work), PIECES_A_TURN)
        of_answers = min(len(self._answers), PIECES_A_TURN - min(of_work, 1))
        pieces = [heapq.heappop(self._answers)[2] for _ in range(of_answers)]
        of_work = min(of_work, PIECES_A_TURN - of_answers)
        pieces += [heapq.heappop(self._work)[2] for _ in range(of_work)]
        if self._work or self._answers:
            self._call_next()
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

    __slots__ = ("_is_answer", "_pieces", "_ticket")

    def __init__(self, *, is_answer: bool = False) -> None:
        """``is_answer``: what is done is that one is written."""
        self._pieces, self._is_answer = pieces(), is_answer
        self._ticket = self._pieces.ticket()

    def later(self, piece: Callable[[], None]) -> None:
        """Do the next piece when its turn has come; it must not raise."""
        self._pieces.add(self._ticket, piece, is_answer=self._is_answer)

    async def others_first(self) -> None:
        """Go on when the turn of the next piece has come."""
        turn = asyncio.get_running_loop().create_future()
        self.later(partial(_wake, turn))
        await turn

    async def completed(self, steps: Generator[None, None, R]) -> R:
        """Return what the steps return; others have a turn at each yield."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: R = end.value
                return result
            await self.others_first()


def _wake(turn: "asyncio.Future[None]") -> None:
    if not turn.done():
        turn.set_result(None)
