"""HTTP on one connection of the internal endpoint, by h11 over a socket.

What a stranger sends is bounded: a head of `HEAD_BYTES_MAX`, and no body. An answer is
written while its rows are read, in chunks, so that its end can be told from a cut, and
a seal at its end may prove all of it.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import h11

from broker.status.proof import SEAL

HEAD_BYTES_MAX: Final = 16 << 10
READ_BYTES: Final = 4 << 10

Seal = Callable[[int, str], str]
"""The seal for a status and the SHA-256 of the bytes; "" where there is none."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody asks for, and how he shows that he may."""

    method: str
    path: str
    authorization: str
    """"" if there is none, or more than one."""


class HttpConnection:
    """One connection; each of its methods raises OSError, and h11.ProtocolError for
    what is no HTTP."""

    def __init__(self, asking: socket.socket, timeout_s: float) -> None:
        """``timeout_s``: for so long it is waited for who takes nothing."""
        asking.setblocking(False)
        self._socket, self._timeout_s = asking, timeout_s
        self._http = h11.Connection(
            h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX
        )

    async def request(self) -> Asked:
        """The next request."""
        request = await self._next()
        if not isinstance(request, h11.Request):
            raise ConnectionAbortedError("it went")
        if not isinstance(await self._next(), h11.EndOfMessage):
            raise ConnectionAbortedError("a question has no body")
        named = [value for name, value in request.headers if name == b"authorization"]
        return Asked(
            request.method.decode("latin-1"),
            request.target.decode("latin-1"),
            named[0].decode("latin-1") if len(named) == 1 else "",
        )

    async def challenge(self, header: str) -> None:
        """Answer 401 with a WWW-Authenticate header; another request may follow."""
        headers = [("WWW-Authenticate", header), ("Content-Length", "0")]
        await self._send(h11.Response(status_code=401, headers=headers))
        await self._send(h11.EndOfMessage())
        self._http.start_next_cycle()

    async def refuse(self) -> None:
        """Answer 401, for good."""
        headers = [("Content-Length", "0"), ("Connection", "close")]
        await self._send(h11.Response(status_code=401, headers=headers))

    async def answer(
        self, status: int, parts: AsyncIterator[bytes], seal: Seal
    ) -> None:
        """Answer with all ``parts``, each written before the next one is asked for."""
        headers = [("Content-Type", "application/x-ndjson"), ("Connection", "close")]
        headers.append(("Transfer-Encoding", "chunked"))
        digest = sha256()
        await self._send(h11.Response(status_code=status, headers=headers))
        async for part in parts:
            digest.update(part)
            await self._send(h11.Data(data=part))
        sealed = seal(status, digest.hexdigest())
        trailers = [(SEAL, sealed)] if sealed else []
        await self._send(h11.EndOfMessage(headers=trailers))

    async def _next(self) -> Any:
        loop = asyncio.get_running_loop()
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await loop.sock_recv(self._socket, READ_BYTES))
        return event

    async def _send(self, event: Any) -> None:
        data = self._http.send(event)
        async with asyncio.timeout(self._timeout_s):
            await asyncio.get_running_loop().sock_sendall(self._socket, data or b"")
