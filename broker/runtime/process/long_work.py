"""Whose long work goes on in this turn of the loop.

The problem: what is too long for one turn is done in pieces of a millisecond or two,
and others have their turn between two of them. Of a thousand requests that are worked
at so, each would do a piece in each turn: turns of seconds, and none ends before all
do. And if only the first one goes on, who has three pieces waits for the thousands of
all who came before.

The idea: a turn takes `PIECES_A_TURN`, in two orders. One piece is of the work that
waited longest since its last one, and one of such an answer: all go on, a little. The
rest is of what began first, answers before all: so the first ones end. Of work that
began at once, and showed to be long, a turn has as many; then what goes on so begins in
its turn as well. A request has one place in all that is done for it but its answer
(`work_of_request`): else all would be read before the first is answered, and what they
became all be in memory. Nobody knows what is short before it began, so what comes when
a turn has no room for more begins in its order in the turns that follow: sixteen in
each, or three that do not end at once. What is known to be short, since it has few
elements, begins when it comes and takes no room: else nothing that waits would begin
while each turn brings enough of these.

The price: of many, one whose pieces are few has at least a third of the turns' pieces,
shared with all that wait, and no more.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from functools import partial
from itertools import chain, count
from typing import Final, TypeVar
from weakref import WeakKeyDictionary, ref

R = TypeVar("R")
PIECES_A_TURN: Final = 3
BEGIN_A_TURN: Final = 16
"""So much begins in a turn, at most, however short: most takes microseconds, and none
more than a piece does."""

LOOKED_AT_A_TURN: Final = 1_000
"""Of what waits to begin, with what was abandoned meanwhile."""

FREED_A_TURN: Final = 32
"""Of so much that was given up one is freed in a turn, however many hang up."""

_GONE_MAX: Final = 64
"""So many tickets without a piece are kept, besides as many as have one."""

Piece = Callable[[], None]


class _Waiting:
    """Pieces by ticket, in two orders: of their tickets, and as they came."""

    __slots__ = ("_by_ticket", "_pieces")

    def __init__(self) -> None:
        self._pieces: dict[int, deque[Piece]] = {}
        """As they came; of one ticket in its own order."""
        self._by_ticket: list[int] = []
        """A heap; some have no piece just now: it is made anew when those are many."""

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def __iter__(self) -> Iterator[Piece]:
        for pieces in self._pieces.values():
            yield from pieces

    def add(self, ticket: int, piece: Piece) -> None:
        pieces = self._pieces.get(ticket)
        if pieces is None:
            pieces = self._pieces[ticket] = deque()
            heapq.heappush(self._by_ticket, ticket)
            if len(self._by_ticket) > 2 * len(self._pieces) + _GONE_MAX:
                self._by_ticket = sorted(self._pieces)
        pieces.append(piece)

    def take_first(self) -> Piece:
        """That of the lowest ticket."""
        while self._by_ticket[0] not in self._pieces:
            heapq.heappop(self._by_ticket)
        return self._take(self._by_ticket[0])

    def take_longest(self) -> Piece:
        """That of the ticket that waited longest for it."""
        return self._take(next(iter(self._pieces)))

    def _take(self, ticket: int) -> Piece:
        pieces = self._pieces.pop(ticket)
        piece = pieces.popleft()
        if pieces:
            self._pieces[ticket] = pieces
        return piece


class Pieces:
    """The pieces that wait for a turn of one loop."""

    __slots__ = (
        "_answers", "_begun", "_call_soon", "_called", "_given_up", "_new", "_number",
        "_short", "_work",
    )  # fmt: skip

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._work, self._answers = _Waiting(), _Waiting()
        self._new: deque[Piece] = deque()
        self._given_up: deque[Piece] = deque()
        self._number = count()
        self._called = False
        self._begun = self._short = 0  # in this turn: and not done; at all

    def __iter__(self) -> Iterator[Piece]:
        yield from self._new
        yield from self._answers
        yield from self._work
        yield from self._given_up

    def __bool__(self) -> bool:
        return bool(self._new or self._answers or self._work or self._given_up)

    @property
    def is_full(self) -> bool:
        """Whether who comes now has to wait: enough began in this turn, or others wait
        to begin."""
        return self._has_enough or bool(self._new)

    @property
    def _has_enough(self) -> bool:
        return self._begun >= PIECES_A_TURN or self._short >= BEGIN_A_TURN

    def note_short(self) -> None:
        """Something begins in this turn."""
        self._forget_next()
        self._short += 1

    def note_begun(self) -> None:
        """What began in this turn is long."""
        self._forget_next()
        self._begun += 1

    def _forget_next(self) -> None:
        if not (self._begun or self._short):
            self._call_soon(self._forget_begun)

    def _forget_begun(self) -> None:
        self._begun = self._short = 0

    def ticket(self) -> int:
        """The place of work that begins now behind all that began before."""
        return next(self._number)

    def add(self, ticket: int, piece: Piece, *, is_answer: bool = False) -> None:
        """Do a piece in a turn to come."""
        (self._answers if is_answer else self._work).add(ticket, piece)
        self._call_next()

    def begin(self, piece: Piece) -> None:
        """Do the first piece of what may be short or long, behind those that wait to
        begin; it notes what it is."""
        self._new.append(piece)
        self._call_next()

    def give_up(self, close: Piece) -> None:
        """Free what is half done, some in a turn: many may hang up in the same."""
        self._given_up.append(close)
        self._call_next()

    def _call_next(self) -> None:
        if not self._called:
            self._called = True
            self._call_soon(self._go_on)

    def _go_on(self) -> None:
        rest = chain(self._beginning(), self._taken(), self._freeing())
        try:
            for piece in rest:
                piece()
        finally:  # one that raises, which is our mistake, takes no other with it
            for piece in rest:
                self._call_soon(piece)
            # Behind the tasks that were woken, which may have a next piece by then.
            self._called = False
            if self:
                self._call_next()

    def _freeing(self) -> Iterator[Piece]:
        given_up = self._given_up
        for _ in range(-(-len(given_up) // FREED_A_TURN)):
            yield given_up.popleft()

    def _beginning(self) -> Iterator[Piece]:
        """Of those that wait to begin the first, until enough of them are long."""
        for _ in range(min(len(self._new), LOOKED_AT_A_TURN)):
            if self._has_enough:
                break
            yield self._new.popleft()

    def _taken(self) -> list[Piece]:
        """The pieces of this turn."""
        work, answers = self._work, self._answers
        pieces = [waiting.take_longest() for waiting in (answers, work) if waiting]
        while len(pieces) < PIECES_A_TURN and (answers or work):
            pieces.append((answers or work).take_first())
        return pieces


_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, Pieces] = WeakKeyDictionary()
_of_request: ContextVar["LongWork | None"] = ContextVar("of_request", default=None)


def pieces() -> Pieces:
    """Those of the loop that runs."""
    loop = asyncio.get_running_loop()
    found = _of_loops.get(loop)
    if found is None:
        found = _of_loops[loop] = Pieces(partial(_call_soon, ref(loop), Context()))
    return found


def _call_soon(
    of: "ref[asyncio.AbstractEventLoop]",
    nobodys: Context,
    callback: Callable[[], None],
) -> None:
    """A loop that is gone is not kept by its pieces. What is called is part of no
    request, though one asked for the call."""
    loop = of()
    assert loop is not None
    loop.call_soon(callback, context=nobodys)


def work_of_request() -> "LongWork":
    """That of the request that this task, or this call, is part of; if there is none,
    new work, which begins now."""
    return _of_request.get() or LongWork()


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

    @contextmanager
    def of_request(self) -> Iterator[None]:
        """What is called meanwhile, and the tasks that it starts, are part of the
        request whose work this is."""
        token = _of_request.set(self)
        try:
            yield
        finally:
            _of_request.reset(token)

    def begin(
        self, steps: Generator[None, None, R], result: "asyncio.Future[R]"
    ) -> None:
        """Have ``result`` what the steps return, of which none is done before others
        that wait have begun; then others have a turn at each yield. Once it is
        cancelled, no more of them are done: who cancels it closes them."""
        self._pieces.begin(partial(self._begin, steps, result))

    def go_on(
        self, steps: Generator[None, None, R], result: "asyncio.Future[R]"
    ) -> None:
        """The same of steps that have begun."""
        self.later(partial(self._step, steps, result))

    def _begin(
        self, steps: Generator[None, None, R], result: "asyncio.Future[R]"
    ) -> None:
        if not result.done():  # somebody waits for it
            self._pieces.note_short()
        self._step(steps, result)
        if not result.done():
            self._pieces.note_begun()

    async def completed(self, steps: Generator[None, None, R]) -> R:
        """Return what the steps return; others have a turn at each yield."""
        result: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        try:
            self._step(steps, result)
            return await result
        finally:  # cancelled: they may wait for their turn for long
            steps.close()

    def _step(
        self, steps: Generator[None, None, R], result: "asyncio.Future[R]"
    ) -> None:
        """Do a piece of it, within the turn of pieces: a task would go on after it."""
        if result.done():  # nobody waits for it any more
            return
        try:
            with self.of_request():
                next(steps)
        except StopIteration as end:
            result.set_result(end.value)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001
            result.set_exception(error)  # it is raised where it is awaited
        else:
            self.later(partial(self._step, steps, result))


def _wake(turn: "asyncio.Future[None]") -> None:
    if not turn.done():
        turn.set_result(None)
