"""The network between clients and the broker: it tells what passed, and may be late.

Clients know the broker by the relay's address. A request of a producer that speaks
version 2 of transactions may be kept until its client has given up, asked again on
another connection and gone on: then it arrives after all, with what stands behind it
on its connection. Kafka's version 1 has no defence against that (KIP-890), so that
nobody's requests of version 1 are kept.
"""

import asyncio
import random
import struct
import threading
from asyncio import StreamReader, StreamWriter
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.support.process import BrokerPart

PRODUCE, END_TXN, TXN_OFFSET_COMMIT = 0, 26, 28
SECOND: Final = {PRODUCE: 12, END_TXN: 5, TXN_OFFSET_COMMIT: 5}
"""API key -> its first version which belongs to version 2 of transactions."""
GIVEN_UP_MS = 2_000
"""A client that was not answered for so long asks again: its request.timeout.ms."""
LATE_S = (2.1, 5.0)
GONE = (OSError, asyncio.IncompleteReadError)
BLOCK = 1 << 16


def is_second(key: int, version: int) -> bool:
    """Whether a request is one of version 2 of transactions."""
    return key in SECOND and version >= SECOND[key]


class Relay:
    """Listens on a free port; ``broker`` is where it passes requests on to.

    ``late``: the share of the requests of version 2 that are kept for a while.
    """

    def __init__(self, late: float = 0.0) -> None:
        self.broker = ""
        self.address = ""
        self.passed: Counter[tuple[int, int]] = Counter()
        """(API key, version) -> how many requests came."""
        self.kept: Counter[int] = Counter()
        """API key -> how many of them came late."""
        self._late, self._chance = late, random.Random("late")
        self._listens = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()
        self._listens.wait()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    async def _run(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        self._listens.set()
        await self._over.wait()
        server.close()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        host, _, port = self.broker.rpartition(":")
        with suppress(*GONE):
            try:
                answers, requests = await asyncio.open_connection(host, int(port))
                back = asyncio.create_task(self._back(answers, writer))
                try:
                    await self._forth(reader, requests)
                finally:
                    back.cancel()
                    requests.close()
            finally:
                writer.close()

    async def _forth(self, reader: StreamReader, requests: StreamWriter) -> None:
        """Request by request, until the client has gone."""
        was_late = False
        try:
            while True:
                size = await reader.readexactly(4)
                frame = await reader.readexactly(*struct.unpack(">i", size))
                key, version = struct.unpack_from(">hh", frame)
                self.passed[key, version] += 1
                if is_second(key, version) and self._chance.random() < self._late:
                    was_late = True
                    self.kept[key] += 1
                    await asyncio.sleep(self._chance.uniform(*LATE_S))
                requests.write(size + frame)
                await requests.drain()
        except asyncio.IncompleteReadError:
            if was_late:  # the client has gone, what it asked is to be heard
                await asyncio.sleep(1.0)

    async def _back(self, answers: StreamReader, writer: StreamWriter) -> None:
        """Until the broker has gone, and with it the connection."""
        with suppress(*GONE):
            while block := await answers.read(BLOCK):
                writer.write(block)
                await writer.drain()
        writer.close()


class RelayedBroker(BrokerPart):
    """A broker that names a relay as its address."""

    def __init__(self, data_dir: Path, relay: Relay, *settings: str) -> None:
        super().__init__(data_dir, *settings)
        relay.broker = self.listener
        self.arguments += ["--advertised", relay.address]
