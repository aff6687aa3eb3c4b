"""A response that comes later, told to whoever waits without a turn of the loop.

The problem: a future of asyncio is made for many waiters. For one, once per request,
its creation, its turn of the loop and its context cost a tenth of a small produce. The
idea: a response that is complete calls who waits for it, then and there. The price:
that one runs inside the step of whoever completes, so it must be short; a connection
gathers what to write, or writes it if nothing more can join it.
"""

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Pending(Generic[T]):
    """A future for one waiter, on the loop's thread; it can be awaited, too."""

    __slots__ = ("_complete", "_error", "_response", "_waiter")

    def __init__(self) -> None:
        self._complete = False
        self._error: Exception | None = None
        self._response: Any = None
        self._waiter: Callable[[Pending[T]], None] | None = None

    def done(self) -> bool:
        return self._complete

    def result(self) -> T:
        """The response, or its exception raised; only when it is there."""
        assert self._complete, "there is no response yet"
        if self._error is not None:
            raise self._error
        response: T = self._response
        return response

    def set_result(self, response: T) -> None:
        assert not self._complete, "a response comes once"
        self._response = response
        self._complete = True
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter(self)

    def set_exception(self, error: Exception) -> None:
        self._error = error
        self._end()

    def add_done_callback(self, waiter: Callable[["Pending[T]"], None]) -> None:
        """Tell ``waiter`` when it is complete; at once if it is."""
        assert self._waiter is None, "one waits, not two"
        if self._complete:
            waiter(self)
        else:
            self._waiter = waiter

    def __await__(self) -> Generator[Any, None, T]:
        if not self._complete:
            turn = asyncio.Event()
            self.add_done_callback(lambda _: turn.set())
            yield from turn.wait().__await__()
        return self.result()

    def _end(self) -> None:
        assert not self._complete, "a response comes once"
        self._complete = True
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter(self)


class PendingBytes(Pending[Any]):
    """A response that comes as the bytes of a whole answer, unless it is unusual."""

    __slots__ = ("answer",)

    def __init__(self) -> None:
        self._complete = False
        self._error = self._waiter = self._response = None
        self.answer: bytes | None = None
        """The answer, its length in front, if it came so; the result, too."""

    def set_answer(self, answer: bytes) -> None:
        """As ``set_result``."""
        assert not self._complete, "a response comes once"
        self.answer = self._response = answer
        self._complete = True
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter(self)
