"""The bodies of requests: gathered up to a length, or read as they come.

An endpoint that asks FastAPI for a body gets it when all of it is there, and in memory
several times over; so there is a limit. What is read piece by piece has none.
"""

from collections.abc import AsyncIterator
from typing import Final

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from admin_api.problems import Problem

BODY_BYTES_MAX: Final = 16 << 20
_UNLIMITED: Final = "lakelog.receive"


class BodyLimit:
    """Middleware: a body that is longer than allowed is a 413, before it is read."""

    def __init__(self, app: ASGIApp, bytes_max: int = BODY_BYTES_MAX) -> None:
        self._app, self._bytes_max = app, bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application with a body that it cannot read beyond the limit."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        gathered = 0

        async def limited() -> Message:
            nonlocal gathered
            self._check(_announced(scope))
            message = await receive()
            gathered += len(message.get("body", b""))
            self._check(gathered)
            return message

        await self._app({**scope, _UNLIMITED: receive}, limited, send)

    def _check(self, size: int) -> None:
        if size > self._bytes_max:
            raise HTTPException(
                413, f"The body is longer than {self._bytes_max} bytes."
            )


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


class StreamedBody:
    """A body without a limit, as it comes."""

    def __init__(self, request: Request) -> None:
        self._receive: Receive = request.scope[_UNLIMITED]
        self._more = True
        self._refusal: Problem | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The pieces. Raises ClientDisconnect, or Problem once it is refused."""
        while self._more:
            piece = await self._next()
            if self._refusal is not None:
                raise self._refusal
            yield piece

    def refuse(self, problem: Problem) -> None:
        """Let nothing of it be read from now on."""
        self._refusal = problem

    async def discard(self) -> None:
        """Read what is left, for a client that reads nothing before it wrote all."""
        while self._more:
            await self._next()

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._more = False
            raise ClientDisconnect
        self._more = message.get("more_body", False)
        body: bytes = message.get("body", b"")
        return body
