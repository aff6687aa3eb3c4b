"""Threads and what they wait on: the seam behind which a test can put its own.

The problem. What runs beside the event loop (the log's writer, its recycler, the
catalog's writer) meets the loop in an order that the machine chooses, so that a fault
which needs one order in a thousand cannot be had twice. The idea: who needs a thread,
or waits for another one, asks here for it. `SystemThreads` gives Python's own objects,
nothing around them; the simulation in ``tests/simulation`` gives ones that run one at a
time, in an order that follows from a number.

The price: one argument more, and nothing may wait in any other way. A lock that is held
for some lines and never while waiting or writing to a disk need not come from here.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Thread(Protocol):
    """A thread that runs one function."""

    def start(self) -> None: ...

    def join(self) -> None:
        """Return when the function has."""


class Queue(Protocol[T]):
    """What ``queue.SimpleQueue`` has: unbounded, first in first out."""

    def put(self, item: T, /) -> None: ...

    def get(self, *, timeout: float | None = None) -> T:
        """The next item; raises ``queue.Empty`` after ``timeout`` seconds."""

    def get_nowait(self) -> T:
        """The next item; raises ``queue.Empty`` if there is none."""

    def empty(self) -> bool: ...


class Condition(Protocol):
    """What ``threading.Condition`` has: a lock, and waiting for a change under it."""

    def __enter__(self) -> object: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

    def wait(self, timeout: float | None = None) -> bool: ...

    def notify(self) -> None: ...

    def notify_all(self) -> None: ...


class Threads(Protocol):
    """Makes threads, and what they wait on."""

    def thread(self, name: str, run: Callable[[], None]) -> Thread:
        """A thread, not started yet, that does not keep the process alive."""

    def queue(self) -> Queue[Any]: ...

    def condition(self) -> Condition: ...


class SystemThreads:
    """The operating system's threads."""

    def thread(self, name: str, run: Callable[[], None]) -> Thread:
        return threading.Thread(target=run, name=name, daemon=True)

    def queue(self) -> Queue[Any]:
        return SimpleQueue()

    def condition(self) -> Condition:
        return threading.Condition()


SYSTEM_THREADS = SystemThreads()
