"""The internal endpoint of a part: what only it knows, for the admin plane beside it.

The problem: connections, loggers and stacks are in the broker's memory, and whoever
asks for them must not hold up its loop. The idea: a thread with a small loop of its own
serves HTTP at a place (`internal_places`); what belongs to the broker's loop is fetched
from there a few rows in each of its turns, for one asker after another, and written out
before the next ones are fetched. An answer is a line of JSON for each row, so that
neither side has it whole as text; one that cannot be finished is cut, and its end is
missing (`internal_http`).

The price: where strangers can connect `STRANGERS_MAX` of them are held, `TIMEOUT_S`
each, and less where others come: the one who is there for longest is cut off. Who has
shown that he may ask is cut off by nobody. Who takes nothing of an answer for as long
is left.
"""

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import h11
import structlog

from broker.runtime.process.internal_http import Asked, HttpConnection, Seal
from broker.runtime.process.internal_places import Place
from broker.runtime.process.levels import NAMES, OF_BROKER, ROOT, Levels
from broker.status.stacks import stacks

TIMEOUT_S: Final = 5.0
PAUSE_S: Final = 1.0
"""Before a connection is taken again after none could be, for want of files, say."""
ROWS_A_TURN: Final = 100
STRANGERS_MAX: Final = 256

log = structlog.get_logger("lakelog.internal")

Row = Mapping[str, Any]
Rows = Callable[[], Iterator[Row]]
Answer = tuple[int, AsyncIterator[bytes]]


@dataclass(frozen=True, slots=True)
class Question:
    """What can be asked: rows that are read on the loop, or here on the thread."""

    rows: Rows
    is_of_loop: bool = True


class InternalEndpoint:
    """Serves ``questions`` by their names at a place."""

    def __init__(
        self,
        place: Place,
        questions: Mapping[str, Question],
        levels: Levels,
        call_soon: Callable[[Callable[[], None]], object],
        *,
        loggers: tuple[str, ...] = OF_BROKER,
    ) -> None:
        """``call_soon`` runs a function on the loop, asked from any thread; ``loggers``
        are the process's own."""
        self._place, self._own_loggers = place, loggers
        self._levels, self._call_soon = levels, call_soon
        self._questions = {
            **questions,
            "loggers": Question(self._loggers, is_of_loop=False),
            "stacks": Question(stacks, is_of_loop=False),
        }
        self.address: Any = None
        """Where it listens, once it does."""
        self._thread: threading.Thread | None = None
        self._serving: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None
        self._serving = None
        self._closed = threading.Event()
        self.connected: dict[asyncio.Task[None], socket.socket] = {}
        """Who is served now."""
        self._strangers: dict[asyncio.Task[None], None] = {}
        self._turn = asyncio.Lock()

    def start(self) -> None:
        """Serve from now on. Raises OSError, SecretUnusable where that cannot be."""
        bound = self._place.listen()
        self.address = bound.getsockname()
        self._thread = threading.Thread(
            target=self._run, args=(bound,), name="internal", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Serve nothing more."""
        self._closed.set()
        if self._thread is None:
            return
        if self._serving is not None:
            loop, task = self._serving
            with contextlib.suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(task.cancel)
        self._place.leave()
        self._thread.join(PAUSE_S)

    def _run(self, bound: socket.socket) -> None:
        with (
            bound,
            contextlib.suppress(asyncio.CancelledError),
            asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner,
        ):
            bound.setblocking(False)
            runner.run(self._serve_until_cancelled(bound))

    async def _serve_until_cancelled(self, bound: socket.socket) -> None:
        """For `close`. To shut the socket down would not do: of a Unix one the system
        says then, without an end, that there is something to be accepted, and gives
        nothing."""
        task = asyncio.current_task()
        assert task is not None
        self._serving = asyncio.get_running_loop(), task
        await self.serve_on(bound)

    async def serve_on(self, bound: socket.socket) -> None:
        """Serve until it is closed; what fails meanwhile is told once until it works
        again."""
        failed = False
        while not self._closed.is_set():
            try:
                asking = await _accepted(bound)
            except OSError as error:
                if self._closed.is_set():
                    return
                if not failed:
                    log.error("no internal question can be taken", error=str(error))
                failed = True
                await asyncio.sleep(PAUSE_S)
                continue
            failed = False
            self._take(asking)
            await asyncio.sleep(0)  # who is here has a turn for each who comes

    def _take(self, asking: socket.socket) -> None:
        """Serve a connection; of too many strangers the oldest one goes."""
        if len(self._strangers) >= STRANGERS_MAX:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.cancel()
        task = asyncio.get_running_loop().create_task(self._serve(asking))
        self.connected[task], self._strangers[task] = asking, None
        task.add_done_callback(self._left)

    def _left(self, task: asyncio.Task[None]) -> None:
        self._strangers.pop(task, None)
        self.connected.pop(task).close()

    async def _serve(self, asking: socket.socket) -> None:
        connection, task = HttpConnection(asking, TIMEOUT_S), asyncio.current_task()
        assert task is not None
        try:
            async with asyncio.timeout(TIMEOUT_S):
                admitted = await self._place.admit(connection)
            if admitted is not None:
                self._strangers.pop(task, None)
                await self._answer(connection, *admitted)
        except (OSError, h11.ProtocolError):
            return  # it went, or sends no HTTP, or takes nothing
        except Exception:
            log.exception("an internal question failed")

    async def _answer(
        self, connection: HttpConnection, asked: Asked, seal: Seal
    ) -> None:
        parsed = urlsplit(asked.path)
        name = parsed.path.strip("/")
        if asked.method == "PUT":
            status, parts = self._put(name, parsed.query), _nothing()
        else:
            status, parts = await self._get(name)
        await connection.answer(status, parts, seal)

    async def _get(self, name: str) -> Answer:
        question = self._questions.get(name)
        if question is None:
            return 404, _nothing()
        parts = self._parts(question)
        try:
            return 200, _after(await anext(parts, b""), parts)
        except TimeoutError:
            return 503, _nothing()

    def _put(self, name: str, query: str) -> int:
        """``PUT /loggers/NAME?level=debug``."""
        kind, _, logger = name.partition("/")
        level = parse_qs(query).get("level", [""])[0]
        if kind != "loggers" or logger not in (ROOT, *self._own_loggers):
            return 404
        if level not in NAMES:
            return 400
        self._levels.change(logger, level)
        log.warning("a level was changed", logger=logger, level=level)
        return 200

    async def _parts(self, question: Question) -> AsyncIterator[bytes]:
        """The rows, so many at a time. Raises TimeoutError if the loop hangs."""
        run = self._on_loop if question.is_of_loop else _here
        rows = await run(question.rows)
        while part := await run(lambda: list(islice(rows, ROWS_A_TURN))):
            yield b"".join(json.dumps(row).encode() + b"\n" for row in part)

    async def _on_loop(self, wanted: Callable[[], Any]) -> Any:
        """What ``wanted`` returns there; one asker has a turn, and then another."""
        done: Future[Any] = Future()

        def run() -> None:
            if not done.set_running_or_notify_cancel():
                return  # nobody waits for it any more
            try:
                done.set_result(wanted())
            except Exception as error:  # noqa: BLE001 - raised where it was asked
                done.set_exception(error)

        async with asyncio.timeout(TIMEOUT_S), self._turn:
            try:
                self._call_soon(run)
            except RuntimeError as error:  # the loop is closed
                raise TimeoutError from error
            return await asyncio.wrap_future(done)

    def _loggers(self) -> Iterator[Row]:
        for name in (ROOT, *self._own_loggers):
            yield {"name": name, "level": self._levels.name_of(name)}


async def _accepted(bound: socket.socket) -> socket.socket:
    """The next connection; who is cancelled while he waits for it loses none."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            return bound.accept()[0]
        except BlockingIOError:
            comes = asyncio.Event()
            loop.add_reader(bound, comes.set)
            try:
                await comes.wait()
            finally:
                loop.remove_reader(bound)


async def _here(wanted: Callable[[], Any]) -> Any:
    return wanted()


async def _nothing() -> AsyncIterator[bytes]:
    for part in list[bytes]():
        yield part


async def _after(first: bytes, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for part in parts:
        yield part
