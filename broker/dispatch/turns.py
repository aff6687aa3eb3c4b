"""Work that is too long for one turn of the loop.

The problem: a request may name ten thousand partitions, and each costs microseconds
to read, to look up and to answer. While one client's request is at work nobody else is
served. The idea: such work is a generator that yields now and then; small work ends
before it yields once and is done at once, as if it were a function; what does not end
goes on a piece at a time, and between two pieces everybody else has a turn.

The price: between two pieces the broker may change. What the answer says of each
partition was true when it was looked at, as it is in Kafka, which locks each of them
for itself.
"""

import asyncio
from collections import Counter
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Hashable,
    Iterable,
)
from types import GeneratorType
from typing import Any, Final, TypeVar

from broker.dispatch.context import Context

R = TypeVar("R")

Steps = Generator[None, None, R]
"""Yields where others may have their turn; returns what came of it."""

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


def in_turns(steps: Steps[R | Awaitable[R]]) -> R | Awaitable[R]:
    """Return what the steps return if they end before they yield, else a coroutine.

    What they return may come later itself.
    """
    try:
        next(steps)
    except StopIteration as end:
        result: R | Awaitable[R] = end.value
        return result
    return to_the_end(steps)


async def to_the_end(steps: Steps[R | Awaitable[R]]) -> R:
    """Return what the steps return; others have a turn wherever they yield."""
    while True:
        await asyncio.sleep(0)
        try:
            next(steps)
        except StopIteration as end:
            result: R | Awaitable[R] = end.value
            return await result if isinstance(result, Awaitable) else result


def counted_in_turns(names: Iterable[Hashable]) -> Steps[Counter[Hashable]]:
    """Return how often each of them comes; None is no name, but takes its time."""
    times: Counter[Hashable] = Counter()
    for count, name in enumerate(names, 1):
        if name is not None:
            times[name] += 1
        if count % COUNTED_A_TURN == 0:
            yield
    return times


async def side_by_side(parts: Iterable[Coroutine[Any, Any, R]]) -> list[R]:
    """Run the parts of a request together, a few more in each turn; their results."""
    tasks: list[asyncio.Task[R]] = []
    for part in parts:
        tasks.append(asyncio.ensure_future(part))
        if len(tasks) % PARTS_A_TURN == 0:
            await asyncio.sleep(0)
    return [await task for task in tasks]


class Reading:
    """A large request that is being read; its handler is called when it is whole, and
    may go on in turns itself."""

    __slots__ = ("_context", "_handler", "_steps")

    def __init__(
        self,
        steps: Steps[Any],
        handler: Callable[[Any, Context], Any],
        context: Context,
    ) -> None:
        self._steps = steps
        self._handler: Callable[[Any, Context], Any] | None = handler
        self._context = context

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

    def _read(self, read: Any) -> Any:
        """What the handler gave, or itself while that is a generator at work."""
        handler, self._handler = self._handler, None
        if handler is None:
            return read
        result = handler(read, self._context)
        if not isinstance(result, GeneratorType):
            return result
        self._steps = result
        return self.step()
