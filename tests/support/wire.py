"""A client of bytes: frames written and read on a real socket, without a library."""

import asyncio
import struct
from typing import Any

from broker.protocol.codec import request_encoder, response_decoder
from broker.protocol.frames import decode_response_head, encode_request_head
from tests.support.patience import IDLE_S


def frame_of(
    request: Any,
    version: int,
    correlation_id: int = 1,
    client_id: str | None = "tests",
) -> bytes:
    """A request as it goes over the wire, its length in front."""
    key = int(request.API_KEY)
    head = encode_request_head(key, version, correlation_id, client_id)
    body = b"".join(map(bytes, request_encoder(key, version)(request)))
    return struct.pack(">i", len(head) + len(body)) + head + body


_opened: list["Wire"] = []


async def hang_up() -> None:
    """Close the connections that a story on the running loop has opened."""
    loop = asyncio.get_running_loop()
    while _opened:
        wire = _opened.pop()
        if wire.loop is loop:
            wire.writer.transport.abort()
    for _ in range(3):  # turns of the loop, until the sockets are closed
        await asyncio.sleep(0)


def forget_opened() -> None:
    """Let go of all connections: those of loops that are closed cannot be."""
    _opened.clear()


class Wire:
    """One connection. ``ask`` sends a request and reads one response."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.reader, self.writer = reader, writer
        self.loop = asyncio.get_running_loop()

    @classmethod
    async def open(cls, address: tuple[str, int]) -> "Wire":
        _opened.append(cls(*await asyncio.open_connection(*address)))
        return _opened[-1]

    def send(self, *frames: bytes) -> None:
        self.writer.write(b"".join(frames))

    async def receive(self) -> memoryview:
        """The next frame, without its length."""
        (length,) = struct.unpack(">i", await self.reader.readexactly(4))
        return memoryview(await self.reader.readexactly(length))

    async def response(self, key: int, version: int) -> tuple[int, Any]:
        """The next frame as (correlation id, response)."""
        frame = await self.receive()
        correlation_id, position = decode_response_head(frame, key, version)
        return correlation_id, response_decoder(key, version)(frame, position)

    async def ask(self, request: Any, version: int) -> Any:
        self.send(frame_of(request, version))
        return (await self.response(int(request.API_KEY), version))[1]

    async def closed(self) -> bool:
        """Whether the other side closes, without another byte."""
        try:
            return await asyncio.wait_for(self.reader.read(1), IDLE_S) == b""
        except ConnectionResetError:
            return True

    async def correlation_ids(self, count: int) -> list[int]:
        frames = [await self.receive() for _ in range(count)]
        return [struct.unpack_from(">i", frame)[0] for frame in frames]

    def close(self) -> None:
        self.writer.close()
