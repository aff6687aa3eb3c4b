"""Work that is too long for one turn of the loop.

The problem: a request may name ten thousand partitions, and each costs microseconds
to read, to look up and to answer. While one client's request is at work nobody else is
served. The idea: such work is a generator that yields now and then; small work ends
before it yields once and is done at once, as if it were a function (or, where enough
began in that turn, in its order in the turns that follow, unless it changes something
and has few elements); what does not end goes on a piece at a time, and between two
pieces everybody else has a turn.

The price: between two pieces the broker may change. What the answer says of each
partition was true when it was looked at, as it is in Kafka, which locks each of them
for itself.
"""

import asyncio
from collections import Counter, deque
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Hashable,
    Iterable,
    Iterator,
    Sequence,
    Sized,
)
from types import CoroutineType, GeneratorType
from typing import Any, Final, Protocol, TypeVar

from broker.dispatch.context import Context
from broker.runtime.process.long_work import pieces, work_of_request

R = TypeVar("R")
K = TypeVar("K", bound=Hashable)

Steps = Generator[None, None, R]
"""Yields where others may have their turn; returns what came of it."""


class OfPartitions(Protocol):
    """A topic that a request names, with some of its partitions."""

    @property
    def partitions(self) -> Sized: ...


ITEMS_A_TURN: Final = 500
"""So many partitions, topics or groups are looked at in a turn: a millisecond or two,
where each takes some microseconds. Who does more for each takes fewer."""

COUNTED_A_TURN: Final = 5_000
"""So many names are counted in a turn: half a millisecond."""

PARTS_A_TURN: Final = 20
"""So many coroutines of one request begin in a turn."""

LARGE_BYTES: Final = 8 << 10
"""Requests above this are read in turns; smaller ones have few elements."""


def at_once(steps: Steps[R]) -> R | None:
    """Return what the steps return if they end before they yield; None: they go on."""
    try:
        next(steps)
    except StopIteration as end:
        result: R = end.value
        return result
    return None


def in_turns(
    steps: Steps[R | Awaitable[R]], *, at_once: bool = False
) -> R | Awaitable[R]:
    """Return what the steps return if they end before they yield, else `Underway`.

    ``at_once``: they are so few that they begin now, whatever else does: what came
    whole then has its effect, whoever hangs up. They take nobody's place: there may be
    as many in each turn, and who waits to begin would never do so. What they return may
    come later itself, and so may the first piece of those that are not. An effect is
    that of the last piece, or each piece has its own: what is left when somebody hangs
    up was not asked for. What comes later goes on then, unless it is `WhileHeard`.
    """
    waiting = pieces()
    if not at_once:
        if waiting.is_full:
            return Underway(steps, is_begun=False)
        waiting.note_short()
    try:
        next(steps)
    except StopIteration as end:
        result: R | Awaitable[R] = end.value
        return result
    if not at_once:
        waiting.note_begun()
    return Underway(steps, is_begun=True)


class WhileHeard(asyncio.Task[R]):
    """What goes on only while somebody waits for it: it looks, or what it has begun
    ends by itself."""

    def abandon(self) -> bool:
        """Nobody hears of it: end it. False: it weighs until it is done."""
        self.cancel()
        return False


def are_few(*elements: Sized) -> bool:
    """Whether they are together no more than begin in a turn."""
    return sum(map(len, elements)) <= PARTS_A_TURN


def topics_are_few(topics: Sequence[OfPartitions]) -> bool:
    """Whether they are, and their partitions."""
    return are_few(topics) and are_few(*(topic.partitions for topic in topics))


def while_heard(
    result: Coroutine[Any, Any, R], parts: int
) -> Coroutine[Any, Any, R] | WhileHeard[R]:
    """What is done in so many parts: if they are more than begin in a turn, it ends
    with its connection, but for those that have begun, which must end by themselves.

    Few take their effect even if nobody waits for the answer, as in Kafka.
    """
    return result if parts <= PARTS_A_TURN else WhileHeard(result)


class Underway(asyncio.Future[R]):
    """What steps come to that go on in turns, or have not begun; or what that comes to,
    if it comes later itself."""

    def __init__(self, steps: Steps[R | Awaitable[R]], *, is_begun: bool) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self._end: asyncio.Future[R | Awaitable[R]] = self.get_loop().create_future()
        self._end.add_done_callback(self._ended)
        self._steps = steps
        self._is_given_up = False
        work = work_of_request()
        (work.go_on if is_begun else work.begin)(steps, self._end)

    def abandon(self) -> bool:
        """Nobody hears of it: end it, unless the steps have ended and what they came
        to goes on. False: it weighs until it is done."""
        if self._end.done():
            came = _result_of(self._end)
            if isinstance(came, WhileHeard):
                came.abandon()
        else:
            self._is_given_up = True
            self._end.cancel()  # no more of them is done
            pieces().give_up(self._free)
        return False

    def _free(self) -> None:
        self._steps.close()
        super().cancel()

    def cancel(self, msg: Any = None) -> bool:
        if self._end.cancel(msg):
            pieces().give_up(self._steps.close)
        return super().cancel(msg)

    def _ended(self, end: "asyncio.Future[R | Awaitable[R]]") -> None:
        if self._is_given_up:
            return
        came = _result_of(end)
        if not isinstance(came, Awaitable):
            self._take(end)
        elif not self.done():
            asyncio.ensure_future(came).add_done_callback(self._take)
        elif asyncio.iscoroutine(came):  # cancelled between
            came.close()

    def _take(self, of: "asyncio.Future[Any]") -> None:
        if of.cancelled() or self.done():
            self.cancel()
        elif (error := of.exception()) is not None:
            self.set_exception(error)
        else:
            self.set_result(of.result())


def _result_of(end: "asyncio.Future[R]") -> R | None:
    return None if end.cancelled() or end.exception() else end.result()


async def to_the_end(steps: Steps[R | Awaitable[R]]) -> R:
    """Return what the steps return; others have a turn first, and at each yield."""
    work = work_of_request()
    await work.others_first()
    result = await work.completed(steps)
    return await result if isinstance(result, Awaitable) else result


async def completed(steps: Steps[R]) -> R:
    """Return what the steps return; others have a turn at each yield."""
    return await work_of_request().completed(steps)


def counted_in_turns(names: Iterable[K | None]) -> Steps[Counter[K]]:
    """Return how often each of them comes; None is no name, but takes its time."""
    times: Counter[K] = Counter()
    for count, name in enumerate(names, 1):
        if name is not None:
            times[name] += 1
        if count % COUNTED_A_TURN == 0:
            yield
    return times


def grouped_in_turns(
    items: Iterable[R], key: Callable[[R], K]
) -> Steps[dict[K, tuple[R, int]]]:
    """Return by key the first item that has it, and how many have it."""
    groups: dict[K, tuple[R, int]] = {}
    for count, item in enumerate(items, 1):
        name = key(item)
        first, times = groups.get(name, (item, 0))
        groups[name] = first, times + 1
        if count % COUNTED_A_TURN == 0:
            yield
    return groups


def drained(groups: dict[K, R]) -> Iterator[R]:
    """Take one after the other out, so that they need not be forgotten in one turn."""
    for key in tuple(groups):
        yield groups.pop(key)


def emptied_in_turns(items: set[K]) -> Steps[None]:
    """Forget most of a large set, of which all would be forgotten in one turn."""
    while len(items) > COUNTED_A_TURN:
        for _ in range(COUNTED_A_TURN):
            items.pop()
        yield


def listed_in_turns(items: Iterable[R]) -> Steps[list[R]]:
    """Return the list of them, of which each takes microseconds to make."""
    made: list[R] = []
    for count, item in enumerate(items, 1):
        made.append(item)
        if count % ITEMS_A_TURN == 0:
            yield
    return made


async def side_by_side(parts: Iterable[Coroutine[Any, Any, R]]) -> list[R]:
    """Run the parts of a request together, a few more in each turn; their results.

    Cancelled, it begins no more of them, and ends when those that have begun did.
    """
    tasks: deque[asyncio.Task[R]] = deque()
    try:
        return await _side_by_side(parts, tasks)
    except asyncio.CancelledError:
        if tasks:
            await asyncio.wait(tasks)
        raise


async def _side_by_side(
    parts: Iterable[Coroutine[Any, Any, R]], tasks: deque[asyncio.Task[R]]
) -> list[R]:
    results: list[R] = []
    long_work = work_of_request()
    for count, part in enumerate(parts, 1):
        tasks.append(asyncio.ensure_future(part))
        if count % PARTS_A_TURN == 0:
            await long_work.others_first()
            while tasks and tasks[0].done():  # it takes more than what it gave
                results.append(tasks.popleft().result())
    while tasks:  # each is forgotten, which takes its time as well
        results.append(await asyncio.shield(tasks[0]))
        tasks.popleft()
        if len(results) % COUNTED_A_TURN == 0:
            await long_work.others_first()
    return results


class Remains:
    """What the long lists of a message hold: to forget it all takes too long.

    So it is held here until nobody else has it, and then forgotten in turns.
    """

    __slots__ = ("_parts",)

    def __init__(self, message: Any) -> None:
        self._parts = deque(
            items[first : first + COUNTED_A_TURN]
            for items in _long_lists(message)
            for first in range(0, len(items), COUNTED_A_TURN)
        )

    def __bool__(self) -> bool:
        return bool(self._parts)

    def forget(self) -> None:
        """Forget it in the turns that follow."""
        if self._parts:
            asyncio.get_running_loop().call_soon(self._forget_some)

    async def outlive(self, result: Coroutine[Any, Any, R]) -> R:
        """Hold it until the result is there; returns that."""
        try:
            return await result
        finally:
            self.forget()

    def _forget_some(self) -> None:
        self._parts.pop()
        self.forget()


def _long_lists(message: Any) -> Iterator[list[Any]]:
    """The lists of a message, or of what its few elements hold, that are long."""
    for items in _lists(message):
        if len(items) > COUNTED_A_TURN:
            yield items
        elif len(items) <= PARTS_A_TURN:
            inner = (one for item in items for one in _lists(item))
            yield from (one for one in inner if len(one) > COUNTED_A_TURN)


def _lists(message: Any) -> Iterator[list[Any]]:
    for name in getattr(message, "__slots__", ()):
        items = getattr(message, name)
        if isinstance(items, list):
            yield items


class Reading:
    """A large request that is being read; its handler is called when it is whole, and
    may go on in turns itself."""

    __slots__ = ("_context", "_handler", "_remains", "_steps")

    def __init__(
        self,
        steps: Steps[Any],
        handler: Callable[[Any, Context], Any],
        context: Context,
    ) -> None:
        self._steps = steps
        self._handler: Callable[[Any, Context], Any] | None = handler
        self._context = context
        self._remains = Remains(None)

    def step(self) -> Any:
        """Do a piece; itself if there is more to do, else what the handler gave.

        Raises:
            ProtocolError: the frame is no such request.
        """
        try:
            next(self._steps)
        except StopIteration as end:
            return self._read(end.value)
        return self

    def close(self) -> None:
        """Do no more of it, and forget what was read."""
        self._steps.close()
        self._remains.forget()

    def _read(self, read: Any) -> Any:
        """What the handler gave, or itself while that is a generator at work."""
        handler, self._handler = self._handler, None
        if handler is None:
            return self._done(read)
        self._remains = Remains(read)
        result = handler(read, self._context)
        if not isinstance(result, GeneratorType):
            return self._done(result)
        self._steps = result
        return self.step()

    def _done(self, result: Any) -> Any:
        """The handler's result; then nobody has the request any more."""
        remains = self._remains
        if remains and isinstance(result, CoroutineType):
            return remains.outlive(result)
        if remains and isinstance(result, Underway | WhileHeard):
            result.add_done_callback(lambda _: remains.forget())
            return result
        remains.forget()
        return result
