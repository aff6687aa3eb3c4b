"""The bodies of requests: gathered up to a length, or read as they come.

An endpoint that asks FastAPI for a body gets it when all of it is there, and in memory
several times over; so there is a limit. What is read piece by piece has none. Bytes are
not all: a Python object is some fifty bytes, and three bytes of JSON make one. So what
is parsed has so many values and no more, counted before, a piece in each turn of the
loop.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Final

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from admin_api.problems import Problem

BODY_BYTES_MAX: Final = 16 << 20
ALL_BYTES_MAX: Final = 256 << 20
"""Of the bodies of all requests together that are gathered or being answered."""
SHORT_BYTES: Final = 64 << 10
"""A body so short, as most are, is not refused for those of others."""
SLOW_S: Final = 30.0
PACE_BYTES_S: Final = 256 << 10
"""A body may take ``SLOW_S``, and a second more for so much of it."""
VALUES_MAX: Final = 1_000_000
"""Of one JSON text: they take 80 MB at most."""
_MARKS: Final = b",:[{"
"""As many as there are values, but for the first."""
_REST_OF_TEXT: Final = rb'[^"\\]*+(?:\\.[^"\\]*+)*+(?P<end>")?'
"""A text that does not end is one, too: else each quote in it began another search."""
_REST: Final = re.compile(_REST_OF_TEXT, re.DOTALL)
_TEXT_OR_MARK: Final = re.compile(
    rb'(?P<text>")' + _REST_OF_TEXT + rb"|[,:\[{]", re.DOTALL
)
_COUNTED_A_TURN: Final = 16 << 10
_LOOKED_THROUGH_A_TURN: Final = 1 << 20
"""Bytes: some milliseconds, where each is a mark, and a millisecond."""
_OF_BYTES: Final = ("utf-8", "utf-8-sig")
"""In which a quote is a byte, and that byte nothing else; parsers take others, too."""
_UNLIMITED: Final = "lakelog.receive"


async def check_values(text: bytes | bytearray) -> None:
    """Raise HTTPException 413 for JSON of more values than may be parsed, 415 where
    they cannot be counted."""
    for _ in _checked(text):
        await asyncio.sleep(0)


def _checked(text: bytes | bytearray) -> Iterator[None]:
    """Check it; yields where others may have their turn."""
    if len(text) <= VALUES_MAX:
        return  # even if each byte were a mark
    marks = 0
    for first in range(0, len(text), _LOOKED_THROUGH_A_TURN):
        piece = text[first : first + _LOOKED_THROUGH_A_TURN]
        marks += len(piece) - len(piece.translate(None, _MARKS))
        yield
    if marks <= VALUES_MAX:
        return  # even if those within texts were marks
    if json.detect_encoding(text) not in _OF_BYTES:
        raise HTTPException(415, "JSON that is so long is written in UTF-8.")
    values = 0
    for found in _marks(text):
        values += found
        if values > VALUES_MAX:
            raise HTTPException(413, f"It has more than {VALUES_MAX} values.")
        yield


def _marks(text: bytes | bytearray) -> Iterator[int]:
    """How many marks there are outside of texts, piece by piece."""
    first, in_text = 0, False
    while first < len(text):
        end, marks = first + _COUNTED_A_TURN, 0
        if in_text:
            found = _REST.match(text, first, end)
            assert found is not None  # it may be empty
            in_text = found["end"] is None
            if in_text and found.end() == first:
                return  # a backslash is the last byte
            first = found.end()
        else:
            for found in _TEXT_OR_MARK.finditer(text, first, end):
                in_text = found["text"] is not None and found["end"] is None
                marks += found["text"] is None
            first = found.end() if in_text and found is not None else end
        yield marks


class BodyLimit:
    """Middleware: a body that is longer than allowed is a 413, before it is read; one
    of too many values, before it is parsed. One that does not come in time is a 408,
    and a longer one, while all are too much together, a 429."""

    def __init__(
        self,
        app: ASGIApp,
        bytes_max: int = BODY_BYTES_MAX,
        all_bytes_max: int = ALL_BYTES_MAX,
        slow_s: float = SLOW_S,
    ) -> None:
        self._app, self._bytes_max = app, bytes_max
        self._all_bytes_max, self._slow_s = all_bytes_max, slow_s
        self.held = 0
        """Bytes of all bodies whose requests are under way."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application with a body that it cannot read beyond the limit."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Gathered(receive, self._slow_s)

        async def limited() -> Message:
            self._check(_announced(scope))
            message = await body.next()
            self.held += len(message.get("body", b""))
            self._check(body.size)
            await body.check()
            return message

        try:
            await self._app({**scope, _UNLIMITED: receive}, limited, send)
        finally:
            self.held -= body.size

    def _check(self, size: int) -> None:
        if size > self._bytes_max:
            raise HTTPException(
                413, f"The body is longer than {self._bytes_max} bytes."
            )
        if self.held > self._all_bytes_max and size > SHORT_BYTES:
            raise HTTPException(429, "Too many bodies are being read; try again later.")


class _Gathered:
    """A body so far, until it is whole and was looked at."""

    def __init__(self, receive: Receive, slow_s: float) -> None:
        self._receive, self._slow_s = receive, slow_s
        self._began_s: float | None = None
        self._bytes = bytearray()
        self._is_whole = False
        self.size = 0

    async def next(self) -> Message:
        """What comes next. Raises HTTPException 408 for a body that comes too slowly;
        behind it there is nothing to wait for but the client's going."""
        if self._is_whole:
            return await self._receive()
        now_s = asyncio.get_running_loop().time()
        self._began_s = self._began_s or now_s
        may_take_s = self._slow_s + self.size / PACE_BYTES_S
        try:
            async with asyncio.timeout(self._began_s + may_take_s - now_s):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(408, "The body did not come in time.") from None
        piece = message.get("body", b"")
        self._bytes += piece
        self.size += len(piece)
        self._is_whole = not message.get("more_body")
        return message

    async def check(self) -> None:
        """Raise HTTPException 413 or 415 for a whole one of too many values."""
        if self._is_whole and self._bytes:
            await check_values(self._bytes)
            self._bytes.clear()


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
        self._waiting: asyncio.Timeout | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The pieces. Raises ClientDisconnect, or Problem once it is refused."""
        while self._more:
            self.check()
            piece = await self._next_if_taken()
            self.check()
            yield piece

    def refuse(self, problem: Problem) -> None:
        """Let nothing of it be read from now on; who waits for a piece hears it now."""
        if self._refusal is None:
            self._refusal = problem
            if self._waiting is not None:
                self._waiting.reschedule(asyncio.get_running_loop().time())

    def check(self) -> None:
        """Raise Problem if it is refused."""
        if self._refusal is not None:
            raise self._refusal

    async def discard(self) -> None:
        """Read what is left, for a client that reads nothing before it wrote all."""
        while self._more:
            await self._next()

    async def _next_if_taken(self) -> bytes:
        try:
            async with asyncio.timeout(None) as self._waiting:
                return await self._next()
        except TimeoutError:
            self.check()
            raise
        finally:
            self._waiting = None

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._more = False
            raise ClientDisconnect
        self._more = message.get("more_body", False)
        body: bytes = message.get("body", b"")
        return body
