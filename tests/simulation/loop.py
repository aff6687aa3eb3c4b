"""An event loop in virtual time: as much of asyncio's as a broker uses.

Callbacks run first in, first out, as asyncio promises; a turn runs what was ready when
it began. What runs "on a thread" is a thread of the world's, so that the order in which
such work ends is the seed's choice.
"""

import asyncio
import contextlib
import contextvars
import heapq
import itertools
import socket
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from tests.simulation.world import Life, SimThread, Turning, World

_HANDLE = socket.socket().detach()
"""What every listening socket may be duplicated from; nobody comes there."""

Accept = Callable[[Callable[[], asyncio.BaseProtocol], "SimLoop"], None]


class SimLoop(asyncio.AbstractEventLoop, Turning):
    """The loop of one life; ``fault`` is told of errors that nobody took."""

    def __init__(
        self, world: World, life: Life, name: str, fault: Callable[[str], None]
    ) -> None:
        self.world, self.life, self.name = world, life, name
        self.listening: Callable[[], asyncio.BaseProtocol] | None = None
        self._fault = fault
        self._soon: deque[asyncio.Handle] = deque()
        self._later: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._serial = itertools.count()
        self._tasks: list[asyncio.Task[Any]] = []
        world.loops.append(self)

    # what the world asks

    def can_turn(self) -> bool:
        return bool(self._soon) or self._is_due()

    def next_us(self) -> int | None:
        while self._later and self._later[0][2].cancelled():
            heapq.heappop(self._later)
        return round(self._later[0][0] * 1_000_000) if self._later else None

    def turn(self) -> None:
        while self._is_due():
            self._soon.append(heapq.heappop(self._later)[2])
        asyncio.events._set_running_loop(self)
        try:
            for _ in range(len(self._soon)):
                handle = self._soon.popleft()
                if not handle.cancelled():
                    handle._run()  # type: ignore[attr-defined]
        finally:
            asyncio.events._set_running_loop(None)

    def _is_due(self) -> bool:
        due = self.next_us()
        return due is not None and due <= self.world.now_us

    def discard(self) -> None:
        """Turn no more: the process is gone, and all that it was about to do."""
        self.life.ended = True
        if self in self.world.loops:
            self.world.loops.remove(self)
        self.listening = None
        self._soon.clear()
        self._later.clear()
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with contextlib.suppress(RuntimeError, ValueError):
                    task.get_coro().close()
        self._tasks.clear()

    # what asyncio asks

    def time(self) -> float:
        return self.world.now_us / 1_000_000

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self.life.ended

    def is_closed(self) -> bool:
        return self.life.ended

    def call_soon(
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self.life.ended:
            self._soon.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if not self.life.ended:
            heapq.heappush(self._later, (when, next(self._serial), handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when its time comes."""

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> "asyncio.Task[Any]":
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        if len(self._tasks) > 256:
            self._tasks = [task for task in self._tasks if not task.done()]
        return task

    def run_in_executor(
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        future = self.create_future()

        def finish(result: Any, error: Exception | None) -> None:
            if future.cancelled():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        def work() -> None:
            try:
                result = func(*args)
            except Exception as error:
                self.call_soon_threadsafe(finish, None, error)
            else:
                self.call_soon_threadsafe(finish, result, None)

        SimThread(self.world, self.life, "executor", work).start()
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.life.ended:
            error = context.get("exception")
            self._fault(f"{self.name}: {context.get('message')}: {error!r}")

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        sock: socket.socket | None = None,
        **_: Any,
    ) -> "SimServer":
        if sock is not None:  # a further handle of the same: one is enough here
            sock.close()
        self.listening = protocol_factory
        return SimServer(self)


class SimServer:
    """What a listener asks of a server."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.sockets = (self,)

    def fileno(self) -> int:
        return _HANDLE

    def setsockopt(self, *_: int) -> None:
        """It has no kernel that would buffer anything."""

    def getsockname(self) -> tuple[str, int]:
        return "sim", 9092

    def close(self) -> None:
        self._loop.listening = None
