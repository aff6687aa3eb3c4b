"""A network in virtual time: slow, cut at times, and in no order between connections.

Within one connection bytes arrive in order, in pieces of any size, each piece with its
own delay; a broker reads all that has arrived at once, as from a socket. What a broker
writes stays in its own memory for a while, as it does when a peer reads slowly.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Iterable
from typing import Any

from broker.protocol.buffers import Buffer
from broker.protocol.codec import response_decoder
from broker.protocol.frames import decode_response_head
from tests.simulation.loop import SimLoop
from tests.simulation.world import World
from tests.support.wire import frame_of


class Disconnected(Exception):
    """The connection is gone; what was not answered may or may not have happened."""


class Network:
    """All connections between clients and whatever broker listens."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.broker: SimLoop | None = None
        self.links: list[Link] = []
        self.slow_us = 2_000
        self._ports = 0

    async def connect(self, who: str) -> "Link":
        """A connection to the broker; raises Disconnected if nobody listens."""
        await asyncio.sleep(self.delay_us() / 1e6)
        loop = self.broker
        if loop is None or loop.listening is None:
            raise Disconnected("refused")
        self._ports += 1
        link = Link(self, who, self._ports, loop, asyncio.get_running_loop())
        self.links.append(link)
        return link

    def delay_us(self) -> int:
        return self.world.chance.randrange(30, self.slow_us)

    def cut_all(self) -> None:
        for link in list(self.links):
            link.cut()


class Link:
    """One connection, seen from its client."""

    def __init__(
        self,
        network: Network,
        who: str,
        port: int,
        broker: SimLoop,
        clients: asyncio.AbstractEventLoop,
    ) -> None:
        self.network, self.who, self.port = network, who, port
        self.open = True
        self._clients = clients
        self._arrives_us = 0
        self._received = bytearray()
        self._waiting: deque[tuple[int, int, int, asyncio.Future[Any]]] = deque()
        self._next_id = 0
        assert broker.listening is not None
        self.server = ServerEnd(self, broker, broker.listening())

    def send(self, data: bytes, *, whole: bool = False) -> None:
        """Put bytes on their way; ``whole``: they arrive together."""
        chance = self.network.world.chance
        while data:
            size = len(data)
            if not whole and chance.random() < 0.3:
                size = chance.randrange(1, size + 1)
            self._send_piece(data[:size])
            data = data[size:]

    def _send_piece(self, piece: bytes) -> None:
        world = self.network.world
        due = max(world.now_us + self.network.delay_us(), self._arrives_us)
        self._arrives_us = due
        world.at(due - world.now_us, lambda: self.server.arrived(piece))

    def frame(self, request: Any, version: int) -> tuple[bytes, "asyncio.Future[Any]"]:
        """A request's bytes, and the future of its response."""
        self._next_id += 1
        future: asyncio.Future[Any] = self._clients.create_future()
        self._waiting.append((self._next_id, int(request.API_KEY), version, future))
        return frame_of(request, version, self._next_id, self.who), future

    def ask(self, request: Any, version: int) -> "asyncio.Future[Any]":
        """Send a request; the future raises Disconnected if no response comes."""
        if not self.open:
            raise Disconnected("closed")
        data, future = self.frame(request, version)
        self.send(data)
        return future

    def received(self, data: bytes) -> None:
        """Bytes arrived here. In the order in which they were written."""
        if not self.open:
            return
        self._received += data
        while len(self._received) >= 4:
            (length,) = struct.unpack_from(">i", self._received)
            if len(self._received) < 4 + length:
                return
            frame = bytes(self._received[4 : 4 + length])
            del self._received[: 4 + length]
            self._answered(memoryview(frame))

    def _answered(self, frame: memoryview) -> None:
        wanted, key, version, future = self._waiting.popleft()
        correlation_id, position = decode_response_head(frame, key, version)
        if correlation_id != wanted:
            raise AssertionError(
                f"{self.who} was answered {correlation_id}, it waits for {wanted}"
            )
        if not future.done():
            future.set_result(response_decoder(key, version)(frame, position))

    def ended(self) -> None:
        """The other side closed, or the line was cut."""
        if self.open:
            self.open = False
            self.network.links.remove(self)
            for *_, future in self._waiting:
                if not future.done():
                    future.set_exception(Disconnected("cut"))
                    future.exception()
            self._waiting.clear()

    def close(self) -> None:
        """The client goes."""
        self.cut()

    def cut(self) -> None:
        """Both sides learn that it is gone; what is on its way is lost."""
        self.ended()
        self.server.lost(ConnectionResetError("cut"))


class ServerEnd(asyncio.Transport):
    """The broker's side: the transport that its protocol is given."""

    def __init__(self, link: Link, loop: SimLoop, protocol: Any) -> None:
        super().__init__()
        self._link, self._loop, self._protocol = link, loop, protocol
        self._inbox = bytearray()
        self._outbox: deque[memoryview] = deque()
        self._unsent = 0
        self._high = 64 << 10
        self._reading = True
        self._read_soon = False
        self._sending = False
        self._protocol_paused = False
        self._closing = False
        self._lost = False
        self._leaves_us = 0
        loop.call_soon(protocol.connection_made, self)

    # what arrives

    def arrived(self, piece: bytes) -> None:
        if not self._closing:
            self._inbox += piece
            self._readable()

    def _readable(self) -> None:
        if self._inbox and self._reading and not self._read_soon:
            self._read_soon = True
            self._loop.call_soon(self._read)

    def _read(self) -> None:
        self._read_soon = False
        if not self._inbox or not self._reading or self._closing:
            return
        buffer = self._protocol.get_buffer(-1)
        size = min(len(buffer), len(self._inbox))
        buffer[:size] = self._inbox[:size]
        buffer.release()
        del self._inbox[:size]
        self._protocol.buffer_updated(size)
        self._readable()

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._readable()

    def is_reading(self) -> bool:
        return self._reading

    # what leaves

    def write(self, data: Buffer) -> None:
        self.writelines([data])

    def writelines(self, parts: Iterable[Buffer]) -> None:
        if self._closing:
            return
        for part in parts:
            if len(part):
                self._outbox.append(memoryview(part).cast("B"))
                self._unsent += len(part)
        if self._unsent > self._high and not self._protocol_paused:
            self._protocol_paused = True
            self._protocol.pause_writing()
        self._send_soon()

    def _send_soon(self) -> None:
        if not self._sending and self._outbox:
            self._sending = True
            world = self._link.network.world
            world.at(world.chance.randrange(0, 400), self._send)

    def _send(self) -> None:
        self._sending = False
        if self._lost or self._loop.life.ended:
            return
        chance = self._link.network.world.chance
        count = min(chance.randrange(1, 8), len(self._outbox))
        data = b"".join(self._outbox.popleft() for _ in range(count))
        self._unsent -= len(data)
        self._to_client(data)
        if self._protocol_paused and self._unsent <= self._high // 4:
            self._protocol_paused = False
            self._protocol.resume_writing()
        self._send_soon()
        if self._closing and not self._outbox:
            self._finish()

    def _to_client(self, data: bytes | None) -> None:
        network = self._link.network
        due = max(network.world.now_us + network.delay_us(), self._leaves_us)
        self._leaves_us = due
        link = self._link
        deliver = link.ended if data is None else lambda: link.received(data)
        network.world.at(due - network.world.now_us, deliver)

    # its end

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            if not self._outbox:
                self._finish()

    def abort(self) -> None:
        self._closing = True
        self._outbox.clear()
        self._finish()

    def lost(self, error: Exception | None) -> None:
        """The line is cut, or the peer has gone."""
        self._closing = True
        self._outbox.clear()
        self._finish(error)

    def _finish(self, error: Exception | None = None) -> None:
        if not self._lost:
            self._lost = True
            self._to_client(None)
            self._loop.call_soon(self._protocol.connection_lost, error)

    def is_closing(self) -> bool:
        return self._closing

    def get_write_buffer_size(self) -> int:
        return self._unsent

    def set_write_buffer_limits(
        self, high: int | None = None, low: int | None = None
    ) -> None:
        self._high = (64 << 10) if high is None else high

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.1", self._link.port) if name == "peername" else default
