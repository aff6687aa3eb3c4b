"""The bodies of requests: gathered up to a length, or read as they come.

An endpoint that asks FastAPI for a body gets it when all of it is there, and in memory
several times over; so there is a limit. What is read piece by piece has none. Bytes are
not all: a Python object is some fifty bytes, and three bytes of JSON make one. So what
is parsed has so many values and no more, counted before.
"""

import json
import re
from collections.abc import AsyncIterator
from itertools import accumulate
from typing import Final

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from admin_api.problems import Problem

BODY_BYTES_MAX: Final = 16 << 20
VALUES_MAX: Final = 1_000_000
"""Of one JSON text: they take 80 MB at most."""
_MARKS: Final = (b",", b":", b"[", b"{")
"""As many as there are values, but for the first."""
_TEXT_OR_MARK: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|([,:\[{])', re.DOTALL)
"""A text that does not end is one, too: else each quote in it began another search."""
_OF_BYTES: Final = ("utf-8", "utf-8-sig")
"""In which a quote is a byte, and that byte nothing else; parsers take others, too."""
_UNLIMITED: Final = "lakelog.receive"


def check_values(text: bytes | bytearray) -> None:
    """Raise HTTPException 413 for JSON of more values than may be parsed, 415 where
    they cannot be counted."""
    if sum(text.count(mark) for mark in _MARKS) <= VALUES_MAX:
        return  # even if those within texts were marks
    if json.detect_encoding(text) not in _OF_BYTES:
        raise HTTPException(415, "JSON that is so long is written in UTF-8.")
    marks = (1 for found in _TEXT_OR_MARK.finditer(text) if found.lastindex)
    if any(count > VALUES_MAX for count in accumulate(marks)):
        raise HTTPException(413, f"It has more than {VALUES_MAX} values.")


class BodyLimit:
    """Middleware: a body that is longer than allowed is a 413, before it is read; one
    of too many values, before it is parsed."""

    def __init__(self, app: ASGIApp, bytes_max: int = BODY_BYTES_MAX) -> None:
        self._app, self._bytes_max = app, bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application with a body that it cannot read beyond the limit."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        gathered = bytearray()

        async def limited() -> Message:
            self._check(_announced(scope))
            message = await receive()
            gathered.extend(message.get("body", b""))
            self._check(len(gathered))
            if not message.get("more_body"):
                check_values(gathered)
                gathered.clear()
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
