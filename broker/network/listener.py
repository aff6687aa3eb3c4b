"""A listening socket, and how it ends.

uvloop sets TCP_NODELAY on what it accepts: an answer is written once and whole, and
nobody gains by waiting.

libuv accepts one connection in a turn of the loop for each handle that it listens on.
Turns last milliseconds when there is much to do, and thousands of clients come back at
once behind a start: so there are `ACCEPTED_A_TURN` handles of the same socket. The
price: a connection that comes alone wakes all of them, which takes microseconds.

Of what a peer does not read the kernel would take four megabytes for each connection:
a gigabyte for three hundred, which nobody counts. So it takes no more while
``UNSENT_BYTES`` are not under way (TCP_NOTSENT_LOWAT, which what is accepted inherits);
what is under way, and so the speed, has no such bound. See `sending` for whom not.

A stop drains: no new connections, no new requests; what is open gets its answer within
a time limit, then connections are closed. An answered produce is worth waiting for, a
long poll of a consumer is not: what still waits when the limit is reached is cut off.
"""

import asyncio
import os
import socket

import structlog

from broker.network.connection import Connection
from broker.network.hub import Hub

log = structlog.get_logger("lakelog.network")

BACKLOG = 1_024
ACCEPTED_A_TURN = 8
UNSENT_BYTES = 1 << 20
_LOOK_S = 0.01


class Listener:
    """Accepts the connections of one address."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._servers: list[asyncio.Server] = []

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; the address that was bound (port 0 chooses a free one).

        Raises:
            OSError: the address cannot be had.
        """
        loop = self._hub.loop
        first = await loop.create_server(
            self._connection, host, port, backlog=BACKLOG, reuse_address=True
        )
        self._servers.append(first)
        for listening in first.sockets:
            _bound_unsent(listening)
        for listening in list(first.sockets) * (ACCEPTED_A_TURN - 1):
            same = socket.socket(fileno=os.dup(listening.fileno()))
            again = await loop.create_server(
                self._connection, sock=same, backlog=BACKLOG
            )
            self._servers.append(again)
        bound = first.sockets[0].getsockname()
        return str(bound[0]), int(bound[1])

    def close(self) -> None:
        """Accept no more connections, and start no more requests."""
        self._hub.stopping = True
        for server in self._servers:
            server.close()
        for connection in list(self._hub.connections):
            connection.stop_reading()

    async def drain(self, drain_ms: int) -> None:
        """Answer what is open for up to ``drain_ms``, then close everything."""
        deadline = self._hub.loop.time() + drain_ms / 1000
        while self._hub.loop.time() < deadline:
            for connection in list(self._hub.connections):
                if not connection.busy:
                    connection.close()
            if not self._hub.connections:
                return
            await asyncio.sleep(_LOOK_S)
        if self._hub.connections:
            log.warning("cut off at the stop", connections=len(self._hub.connections))
        for connection in list(self._hub.connections):
            connection.abort()
        await asyncio.sleep(0)

    def _connection(self) -> Connection:
        return Connection(self._hub)


def _bound_unsent(listening: socket.socket) -> None:
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)  # of Linux and macOS
    if option is not None:
        listening.setsockopt(socket.IPPROTO_TCP, option, UNSENT_BYTES)
