"""The metastore's socket: connections that ask one question after the other.

Whoever reaches it learns what the topics are called, where their tables lie and how far
they are, and nothing else: records are read from the files, by who may read these. The
protocol as Spark speaks it has no password, so it listens on this machine alone unless
somebody says that others may come.
"""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Final

from admin_api.access.exposure import ExposureRefused, is_loopback
from admin_api.metastore.calls import answer
from admin_api.metastore.content import Content
from admin_api.metastore.thrift import NotThrift, decode_call
from admin_api.server import listen
from broker.clock import SystemClock

CONNECTIONS_MAX: Final = 256
_READ_BYTES: Final = 65_536


class Metastore:
    """Serves one data directory, on one loop."""

    def __init__(self, data_dir: Path) -> None:
        self._content = Content(data_dir, SystemClock())
        self._open: set[asyncio.StreamWriter] = set()

    async def serve(self, bound: socket.socket, stopped: asyncio.Event) -> None:
        """Answer until ``stopped``; then connections end."""
        server = await asyncio.start_server(self._serve, sock=bound)
        try:
            await stopped.wait()
        finally:
            server.close()
            for writer in self._open:
                writer.transport.abort()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if len(self._open) >= CONNECTIONS_MAX:
            writer.transport.abort()
            return
        self._open.add(writer)
        try:
            with suppress(NotThrift, ConnectionError, asyncio.CancelledError):
                await self._answer_all(reader, writer)
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _answer_all(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        received = bytearray()
        while True:
            call = decode_call(received)
            if call is None:
                more = await reader.read(_READ_BYTES)
                if not more:
                    return
                received += more
                continue
            del received[: call.size]
            if call.name == "shutdown":
                return
            if call.wants_answer:
                writer.write(await answer(self._content, call))
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
