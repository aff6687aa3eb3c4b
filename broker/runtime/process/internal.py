"""The internal endpoint of a part: what only it knows, for the admin plane beside it.

The problem: connections, loggers and stacks are in the broker's memory, and whoever
asks for them must not hold up its loop. The idea: a thread of its own serves HTTP at a
place (`internal_places`); what belongs to the loop is fetched from there a few rows in
each turn, and written out by the thread. An answer is a line of JSON for each row, so
that neither side has it whole as text.

The price: on a Unix socket requests are served one after another; there are few. Where
strangers can connect each connection has a thread, `CONNECTIONS_MAX` at once, and who
has not proved to have the secret within `TIMEOUT_S` is cut off, and earlier where
another one comes and there is no room: strangers that hold connections starve nobody.
Who takes nothing of an answer for so long is left.
"""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import structlog

from broker.runtime.process.internal_places import Place
from broker.runtime.process.levels import NAMES, OF_BROKER, ROOT, Levels
from broker.status.stacks import stacks

TIMEOUT_S: Final = 5.0
PAUSE_S: Final = 1.0
"""Before a connection is taken again after none could be, for want of files, say."""
ROWS_A_TURN: Final = 100
CONNECTIONS_MAX: Final = 8

log = structlog.get_logger("lakelog.internal")

Row = Mapping[str, Any]
Rows = Callable[[], Iterator[Row]]


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
        self._socket: socket.socket | None = None
        self.address: Any = None
        """Where it listens, once it does."""
        self._closed = threading.Event()
        self._free = threading.Semaphore(CONNECTIONS_MAX)
        self._strangers: dict[socket.socket, bool] = {}

    def start(self) -> None:
        """Serve from now on. Raises OSError, SecretUnusable where that cannot be."""
        self._socket = bound = self._place.listen()
        self.address = bound.getsockname()
        thread = threading.Thread(
            target=self.serve_on, args=(bound,), name="internal", daemon=True
        )
        thread.start()

    def close(self) -> None:
        """Serve nothing more."""
        self._closed.set()
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread
            self._socket.close()
            self._place.leave()

    def serve_on(self, bound: socket.socket) -> None:
        """Serve until it is closed; what fails meanwhile is told once until it works
        again."""
        failed = False
        while not self._closed.is_set():
            try:
                asking, _ = bound.accept()
            except OSError as error:
                if not failed and not self._closed.is_set():
                    log.error("no internal question can be taken", error=str(error))
                failed = True
                self._closed.wait(PAUSE_S)
                continue
            failed = False
            if self._place.is_open:
                self._serve_beside(asking)
            else:
                self._serve(asking)

    def _serve_beside(self, asking: socket.socket) -> None:
        """On a thread of its own, while there are few; else in the place of the
        stranger who is there for longest, and closed where there is none."""
        if not self._free.acquire(blocking=False) and not self._make_room():
            asking.close()
            return
        self._strangers[asking] = True

        def serve() -> None:
            try:
                self._serve(asking)
            finally:
                self._strangers.pop(asking, None)
                self._free.release()

        try:
            threading.Thread(target=serve, name="internal-asker", daemon=True).start()
        except RuntimeError:  # no more threads
            self._strangers.pop(asking, None)
            asking.close()
            self._free.release()

    def _make_room(self) -> bool:
        for stranger in list(self._strangers):
            if self._strangers.pop(stranger, False):  # not known meanwhile
                _cut(stranger)
                return self._free.acquire(timeout=PAUSE_S)
        return False

    def _serve(self, asking: socket.socket) -> None:
        with asking:
            asking.settimeout(TIMEOUT_S)
            late = threading.Timer(TIMEOUT_S, _cut, (asking,))
            late.daemon = True

            def known() -> None:
                late.cancel()
                self._strangers.pop(asking, None)

            try:
                if self._place.is_open:
                    late.start()
                self._answer(asking, known)
            except OSError:
                return  # it went, or takes nothing
            except Exception:
                log.exception("an internal question failed")
            finally:
                late.cancel()

    def _answer(self, asking: socket.socket, known: Callable[[], None]) -> None:
        """Answer one request; ``known`` is called once it is known who asks."""
        from http.server import BaseHTTPRequestHandler

        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            server_version, sys_version = "lakelog", ""

            def do_GET(self) -> None:
                if self._may():
                    endpoint._get(self)

            def do_PUT(self) -> None:
                if self._may():
                    endpoint._put(self)

            def _may(self) -> bool:
                given = self.headers.get_all("Authorization", [])
                one = given[0] if len(given) == 1 else ""
                if not endpoint._place.may(one, self.command, self.path):
                    self.send_error(401)
                    return False
                known()
                return True

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Log nothing: the plane does."""

        Handler(asking, ("", 0), None)  # type: ignore[arg-type]

    def _get(self, asked: Any) -> None:
        question = self._questions.get(urlsplit(asked.path).path.strip("/"))
        if question is None:
            asked.send_error(404)
            return
        parts = self._parts(question)
        try:
            first = next(parts, [])
        except TimeoutError:
            asked.send_error(503, "the loop does not answer")
            return
        asked.send_response(200)
        asked.send_header("Content-Type", "application/x-ndjson")
        asked.end_headers()
        for part in (first, *([] if not first else parts)):
            for row in part:
                asked.wfile.write(json.dumps(row).encode() + b"\n")

    def _put(self, asked: Any) -> None:
        """``PUT /loggers/NAME?level=debug``."""
        parsed = urlsplit(asked.path)
        kind, _, name = parsed.path.strip("/").partition("/")
        level = parse_qs(parsed.query).get("level", [""])[0]
        if kind != "loggers" or name not in (ROOT, *self._own_loggers):
            asked.send_error(404)
        elif level not in NAMES:
            asked.send_error(400)
        else:
            self._levels.change(name, level)
            log.warning("a level was changed", logger=name, level=level)
            asked.send_response(204)
            asked.end_headers()

    def _parts(self, question: Question) -> Iterator[list[Row]]:
        """The rows, so many at a time. Raises TimeoutError if the loop hangs."""
        run = self._on_loop if question.is_of_loop else _here
        rows = run(question.rows)
        while part := run(lambda: list(islice(rows, ROWS_A_TURN))):
            yield part

    def _on_loop(self, wanted: Callable[[], Any]) -> Any:
        done: Future[Any] = Future()

        def run() -> None:
            try:
                done.set_result(wanted())
            except Exception as error:  # noqa: BLE001 - raised where it was asked
                done.set_exception(error)

        try:
            self._call_soon(run)
        except RuntimeError as error:  # the loop is closed
            raise TimeoutError from error
        return done.result(TIMEOUT_S)

    def _loggers(self) -> Iterator[Row]:
        for name in (ROOT, *self._own_loggers):
            yield {"name": name, "level": self._levels.name_of(name)}


def _here(wanted: Callable[[], Any]) -> Any:
    return wanted()


def _cut(asking: socket.socket) -> None:
    with contextlib.suppress(OSError):
        asking.shutdown(socket.SHUT_RDWR)
