"""A connection that ends while its client sends, on the plane's loop: bare, in TLS."""

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from admin_api import lingering
from admin_api.handshakes import Loop
from admin_api.lingering import Lingering
from tests.support.patience import IDLE_S, STUCK_S

PEM = Path(__file__).parent / "access" / "localhost.pem"


class Answering(asyncio.Protocol):
    """Answers the first word at once, and ends."""

    def __init__(self, is_sending, reads):
        self._is_sending, self._reads, self.dropped = is_sending, reads, 0
        self.lost = asyncio.Event()

    def connection_made(self, transport):
        self.ending = Lingering(transport, lambda: self._is_sending)

    def data_received(self, data):
        if self.ending.is_lingering:
            self.dropped += len(data)
            return
        if not self._reads:
            self.ending.pause_reading()
        self.ending.write(b"the end")
        self.ending.close()
        assert self.ending.is_closing()
        self.ending.close()

    def connection_lost(self, exc):
        self.ending.forget()
        self.lost.set()


def contexts(is_tls):
    """Of the server and of the client."""
    if not is_tls:
        return None, None
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(PEM)
    asking = ssl.create_default_context(cafile=PEM)
    asking.check_hostname = False
    return served, asking


def told(story, is_tls, *, is_sending=True, reads=True):
    """Run a story with the answering end and a client that said the first word."""

    async def whole():
        served, asking = contexts(is_tls)
        answering = Answering(is_sending, reads)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: answering, "127.0.0.1", 0, ssl=served)
        address = server.sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(*address, ssl=asking)
        writer.write(b"a word")
        await story(answering, reader, writer)
        writer.close()
        server.close()

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(asyncio.wait_for(whole(), STUCK_S))


@pytest.mark.parametrize("is_tls", [False, True])
def test_what_still_comes_is_dropped_and_the_client_hears_the_end(is_tls, monkeypatch):
    monkeypatch.setattr(lingering, "LINGER_S", STUCK_S)

    async def story(answering, reader, writer):
        while not answering.dropped:
            writer.write(b"more")
            await writer.drain()
            await asyncio.sleep(0.01)
        assert await reader.readexactly(7) == b"the end"
        if not is_tls:  # there are no halves
            assert await asyncio.wait_for(reader.read(), IDLE_S) == b""
        writer.close()
        await answering.lost.wait()

    told(story, is_tls)


@pytest.mark.parametrize("is_tls", [False, True])
def test_who_sends_on_is_left_after_a_while(is_tls, monkeypatch):
    monkeypatch.setattr(lingering, "LINGER_S", 0.2)

    async def story(answering, _, writer):
        with suppress(ConnectionError):
            while not answering.lost.is_set():
                writer.write(b"more")
                await writer.drain()
                await asyncio.sleep(0.01)
        await answering.lost.wait()

    told(story, is_tls)


def test_who_was_not_read_any_more_is_read_again(monkeypatch):
    """As while its records waited for their turn."""
    monkeypatch.setattr(lingering, "LINGER_S", STUCK_S)

    async def story(answering, reader, writer):
        assert await reader.readexactly(7) == b"the end"
        writer.write(b"more")
        while not answering.dropped:
            await asyncio.sleep(0.01)
        writer.close()
        await answering.lost.wait()

    told(story, is_tls=False, reads=False)


def test_who_has_sent_all_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(lingering, "LINGER_S", STUCK_S)

    async def story(answering, reader, _):
        assert await reader.read() == b"the end"
        await answering.lost.wait()
        assert not answering.ending.is_lingering

    told(story, is_tls=False, is_sending=False)
