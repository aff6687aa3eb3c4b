"""The metastore's socket: connections that ask one question after the other.

Whoever reaches it learns what the topics are called, where their tables lie and how far
they are, and nothing else: records are read from the files, by who may read these. The
protocol as Spark speaks it has no password, so it listens on this machine alone unless
somebody says that others may come.

A session keeps its connection for as long as it lives, and may ask nothing for hours;
its client connects again when it is ended. So nobody is ended for asking nothing, while
there is room. But who comes says within seconds what he wants, and where it is full the
one goes who was silent longest: of those who never asked and had a second for it; else
of those who asked for nothing for a minute; else of all, those first who never asked.
So the silent keep nobody out, and those who come at once end each other only where all
others are busy.
"""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Final

from admin_api.access.exposure import ExposureRefused, is_loopback, listen
from admin_api.metastore.calls import answer
from admin_api.metastore.content import Content
from admin_api.metastore.thrift import Call, Calls, NotThrift
from broker.clock import SystemClock

CONNECTIONS_MAX: Final = 256
CALL_S: Final = 30.0
"""So long a client may take for its first call, and for a call that it began."""
FIRST_CALL_S: Final = 1.0
"""So long who has just come is left to say something where others were silent long."""
IDLE_S: Final = 60.0
"""After this a session that asks for nothing gives way to who comes."""
UNREAD_S: Final = 60.0
"""So long a client may take to read an answer, of which the view of thousands of
tables is some megabytes."""
_READ_BYTES: Final = 65_536


@dataclass(slots=True, eq=False)
class _Connection:
    """Who is connected; ``asked`` calls so far, silent since ``silent_s`` or, None,
    being answered."""

    writer: asyncio.StreamWriter
    silent_s: float | None
    asked: int = 0


class Metastore:
    """Serves one data directory, on one loop."""

    def __init__(self, data_dir: Path) -> None:
        self._content = Content(data_dir, SystemClock())
        self._open: set[_Connection] = set()

    async def serve(self, bound: socket.socket, stopped: asyncio.Event) -> None:
        """Answer until ``stopped``; then connections end."""
        server = await asyncio.start_server(self._serve, sock=bound)
        try:
            await stopped.wait()
        finally:
            server.close()
            for connection in self._open:
                connection.writer.transport.abort()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if len(self._open) >= CONNECTIONS_MAX and not self._make_room():
            writer.transport.abort()
            return
        connection = _Connection(writer, asyncio.get_running_loop().time())
        self._open.add(connection)
        try:
            with suppress(NotThrift, OSError, asyncio.CancelledError):
                await self._answer_all(reader, connection)
        finally:
            self._open.discard(connection)
            writer.transport.abort()

    def _make_room(self) -> bool:
        """End who was silent longest; False if all are being answered."""
        now_s = asyncio.get_running_loop().time()

        def place(one: _Connection) -> tuple[int, float]:
            assert one.silent_s is not None
            patience_s = IDLE_S if one.asked else FIRST_CALL_S
            has_waited = now_s - one.silent_s >= patience_s
            return 2 * (not has_waited) + (one.asked > 0), one.silent_s

        silent = [one for one in self._open if one.silent_s is not None]
        if not silent:
            return False
        first = min(silent, key=place)
        self._open.discard(first)
        first.writer.transport.abort()
        return True

    async def _answer_all(
        self, reader: asyncio.StreamReader, connection: _Connection
    ) -> None:
        calls, loop = Calls(), asyncio.get_running_loop()
        began_s = loop.time()
        while True:
            call = calls.next() if calls.is_begun else None
            if call is None:
                is_waited_for = connection.asked > 0 and not calls.is_begun
                until_s = None if is_waited_for else began_s + CALL_S
                async with asyncio.timeout_at(until_s):
                    more = await reader.read(_READ_BYTES)
                if not more:
                    return
                began_s = loop.time() if is_waited_for else began_s
                calls.feed(more)
                continue
            if call.name == "shutdown":
                return
            connection.asked, connection.silent_s = connection.asked + 1, None
            await self._answer(connection.writer, call)
            connection.silent_s = began_s = loop.time()

    async def _answer(self, writer: asyncio.StreamWriter, call: Call) -> None:
        """Raises TimeoutError if it is not read."""
        if not call.wants_answer:
            return
        writer.write(await answer(self._content, call))
        async with asyncio.timeout(UNREAD_S):
            await writer.drain()


def bind(address: str, *, insecure: bool) -> socket.socket:
    """A socket at HOST:PORT. Raises OSError; ExposureRefused where others reach it,
    unless that is what is wanted."""
    host, _, port = address.rpartition(":")
    bound = listen(host.strip("[]"), int(port))
    if insecure or is_loopback(bound):
        bound.listen()  # who comes before the loop runs waits for it
        return bound
    bound.close()
    raise ExposureRefused(
        f"the metastore on {host} would tell the topics to whoever reaches it, since "
        "its protocol has no password: listen on this machine, or say --insecure"
    )


def address_of(bound: socket.socket) -> str:
    """HOST:PORT, as clients say it."""
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@contextmanager
def beside(data_dir: Path) -> Iterator[str]:
    """A metastore of this process's own, on a thread: where it listens."""
    bound = bind("127.0.0.1:0", insecure=False)
    loop, stopped = asyncio.new_event_loop(), asyncio.Event()
    serving = Metastore(data_dir).serve(bound, stopped)
    thread = Thread(
        target=lambda: loop.run_until_complete(serving),
        name="metastore",
        daemon=True,
    )
    thread.start()
    try:
        yield address_of(bound)
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join()
        loop.close()
