"""HTTP to a part: a connection, and answers that are whole or none.

An answer says itself where it ends, or is not believed to be all of it. While it comes
it is kept, and who listens in a part's place may send each asker as much as can be: so
few answers are long at a time, and the others wait for them.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

import h11

ANSWER_BYTES_MAX: Final = 16 << 20
SHORT_BYTES: Final = 256 << 10
"""So much of each answer is read at once; of the others, what is more."""
LONG_MAX: Final = 2
"""So many answers of one part are longer than that at a time."""
PIECES_MAX: Final = 500
PIECE_BYTES: Final = 256
"""An answer may have one piece more for so many bytes. Parts write 100 rows in each;
who listens in a part's place could send a byte in each, and parsing 64 KiB of those
takes 100 ms, in which the plane answers nobody."""
_READ_BYTES: Final = 64 << 10
_FRAMED: Final = {b"transfer-encoding", b"content-length"}

Headers = dict[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered; names of headers are small letters."""

    status: int
    headers: Headers
    body: bytearray
    trailers: Headers


class Room:
    """For the long answers of one part."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(LONG_MAX)

    async def take(self) -> None:
        """Wait for a place; whoever has one leaves it within the time of a question."""
        await self._free.acquire()

    def leave(self) -> None:
        """Let the next one in."""
        self._free.release()


class PartConnection:
    """A connection to a part."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        room: Room,
    ) -> None:
        self._reader, self._writer = reader, writer
        self._room, self._is_long = room, False
        self._http = h11.Connection(h11.CLIENT)
        self._pieces = self._bytes = 0

    async def ask(self, method: str, path: str, authorization: str = "") -> Answer:
        """The answer to a request.

        Raises:
            OSError: there is none; ConnectionResetError: not even its beginning.
            h11.ProtocolError: it is not whole, or no HTTP, or too long.
        """
        if self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
        headers = [("Host", "part")]
        if authorization:
            headers.append(("Authorization", authorization))
        self._writer.write(
            self._http.send(h11.Request(method=method, target=path, headers=headers))
            + self._http.send(h11.EndOfMessage())
        )
        await self._writer.drain()
        return await self._answer()

    def close(self) -> None:
        """Leave, whatever is on its way."""
        self._writer.transport.abort()
        if self._is_long:
            self._is_long = False
            self._room.leave()

    async def _answer(self) -> Answer:
        response = await self._next()
        while isinstance(response, h11.InformationalResponse):
            response = await self._next()
        headers = dict(response.headers)
        if not headers.keys() & _FRAMED:
            raise h11.RemoteProtocolError("an answer without an end")
        body = bytearray()
        while isinstance(event := await self._next(), h11.Data):
            body += event.data
            self._bytes += len(event.data)
            if len(body) > ANSWER_BYTES_MAX:
                raise h11.RemoteProtocolError(f"more than {ANSWER_BYTES_MAX} bytes")
            if len(body) > SHORT_BYTES and not self._is_long:
                await self._room.take()
                self._is_long = True
        trailers = dict(event.headers)
        return Answer(response.status_code, headers, body, trailers)

    async def _next(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            data = await self._reader.read(_READ_BYTES)
            if not data and self._http.their_state is h11.SEND_RESPONSE:
                raise ConnectionResetError("closed without an answer")
            self._http.receive_data(data)
        self._pieces += 1
        if self._pieces > PIECES_MAX + self._bytes // PIECE_BYTES:
            raise h11.RemoteProtocolError("too many pieces")
        return event
