"""Threads for who reads tables, whose disk may hang: nobody else waits for it.

The problem: tables may lie on a disk of their own (``lake.warehouse``). Who reads one
while that disk does not answer keeps a thread until it does, and after six of them
nobody had one of the pool that all share, not for tokens, `/readyz` or topics. The
idea: tables are read on threads of their own, which end with the process, whatever they
wait for. The price: while all of them hang, who asks for a table waits, and is refused.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from admin_api.problems import Problem

THREADS_MAX: Final = 6
WAIT_S: Final = 10.0
"""So long must none of them have ended anything before who waits is refused."""

T = TypeVar("T")


class LakeThreads:
    """Threads that begin when they are needed, and stay."""

    def __init__(self, threads_max: int = THREADS_MAX, wait_s: float = WAIT_S) -> None:
        self._most, self._wait_s = threads_max, wait_s
        self._lock = threading.Lock()
        self._asked: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._threads = self._open = self._ended = 0

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """What ``work`` returns. Raises Problem 50302 if it could not be begun."""
        asked: Future[T] = Future()
        self._ask(asked, partial(copy_context().run, work, *args))
        found = asyncio.wrap_future(asked)
        try:
            while not found.done():
                ended = self._ended
                await asyncio.wait({found}, timeout=self._wait_s)
                if self._ended == ended and asked.cancel():
                    raise Problem(
                        50302,
                        "No table can be read now: those who read them wait for the "
                        f"disk, and none has ended for {self._wait_s:g} s.",
                    )
        except asyncio.CancelledError:
            asked.cancel()
            raise
        return found.result()

    def _ask(self, asked: "Future[Any]", work: Callable[[], Any]) -> None:
        with self._lock:
            self._open += 1
            is_short = self._threads < min(self._open, self._most)
            self._threads += is_short
        self._asked.put((asked, work))
        if is_short:
            threading.Thread(target=self._serve, daemon=True, name="lake").start()

    def _serve(self) -> None:
        while True:
            asked, work = self._asked.get()
            if asked.set_running_or_notify_cancel():
                try:
                    asked.set_result(work())
                except BaseException as error:  # noqa: BLE001 - told to who asked
                    asked.set_exception(error)
            with self._lock:
                self._open -= 1
                self._ended += 1
            del asked, work
