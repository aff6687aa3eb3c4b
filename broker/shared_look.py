"""A look at what may hang, such as another disk: on one thread, whoever asks.

The problem: who looks at a disk that does not answer keeps a thread until it does, and
tools ask again and again; after some of them nobody else had a thread of the pool that
reads the log. The idea: who asks while a look is under way waits for the same one. It
goes on if all of them give up. The price: what they hear is as old as that look.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedLook(Generic[T]):
    """One look at a time."""

    def __init__(self) -> None:
        self._under_way: asyncio.Future[T] | None = None

    async def result(self, look: Callable[[], T]) -> T:
        """What ``look`` returns, or the one that is under way; blocks a thread."""
        under_way = self._under_way
        if under_way is None or under_way.done():
            loop = asyncio.get_running_loop()
            under_way = self._under_way = loop.run_in_executor(None, look)
        return await asyncio.shield(under_way)
