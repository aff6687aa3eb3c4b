"""The broker's seam of threads (``broker/threads.py``), in virtual time."""

from collections import deque
from collections.abc import Callable
from queue import Empty
from types import TracebackType
from typing import Any

from tests.simulation.world import Life, SimThread, World


class SimThreads:
    """Threads of one life of a broker; one of all threads runs at a time."""

    def __init__(self, world: World, life: Life) -> None:
        self._world, self._life = world, life

    def thread(self, name: str, run: Callable[[], None]) -> SimThread:
        return SimThread(self._world, self._life, name, run)

    def queue(self) -> "SimQueue":
        return SimQueue(self._world)

    def condition(self) -> "SimCondition":
        return SimCondition(self._world)


class SimQueue:
    """``queue.SimpleQueue``."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._items: deque[Any] = deque()

    def put(self, item: Any) -> None:
        self._items.append(item)

    def get(self, *, timeout: float | None = None) -> Any:
        timeout_us = None if timeout is None else int(timeout * 1_000_000)
        while not self._items:
            if not self._world.block(lambda: bool(self._items), timeout_us):
                raise Empty
        return self._items.popleft()

    def get_nowait(self) -> Any:
        if not self._items:
            raise Empty
        return self._items.popleft()

    def empty(self) -> bool:
        return not self._items


class SimCondition:
    """``threading.Condition``. Nobody else runs while it is held, but for ``wait``."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._changes = 0

    def __enter__(self) -> "SimCondition":
        if self._world.current is not None:
            self._world.current.holding += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._world.current is not None:
            self._world.current.holding -= 1

    def wait(self, timeout: float | None = None) -> bool:
        seen, thread = self._changes, self._world.current
        timeout_us = None if timeout is None else int(timeout * 1_000_000)
        if thread is not None:
            held, thread.holding = thread.holding, 0
        try:
            return self._world.block(lambda: self._changes > seen, timeout_us)
        finally:
            if thread is not None:
                thread.holding = held

    def notify(self) -> None:
        self._changes += 1

    def notify_all(self) -> None:
        self._changes += 1
