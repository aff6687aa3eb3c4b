"""An answer with records, which keeps its reader's place until it is sent.

The problem: an answer is up to 16 MiB of records, and a server keeps what its client
does not read. The idea: it is handed on a part at a time, each when the client took the
one before, and until then its reader is nobody else's. The price: who reads slowly
keeps others from reading, and is left when his time is over.
"""

import asyncio
from contextlib import suppress
from typing import Final

from fastapi import Response
from starlette.types import Receive, Scope, Send

from admin_api.reading.readers import Reader

PART_BYTES: Final = 64 << 10
UNREAD_S: Final = 30.0
PACE_BYTES_S: Final = 256 << 10
"""A client may take ``UNREAD_S`` for an answer, and a second more for so much of it."""


class Page(Response):
    """JSON that closes the reader it came from, however it ends."""

    def __init__(self, content: bytes, reader: Reader | None) -> None:
        super().__init__(content, media_type="application/json")
        self._reader = reader

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(UNREAD_S + len(self.body) / PACE_BYTES_S):
                    await self._send(send)
        finally:
            if self._reader is not None:
                self._reader.close()

    async def _send(self, send: Send) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        part = {"type": "http.response.body", "more_body": True}
        for first in range(0, len(self.body), PART_BYTES):
            await send(part | {"body": bytes(self.body[first : first + PART_BYTES])})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
