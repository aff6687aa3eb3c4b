"""A handshake that does not come to its end is ended."""

import asyncio
import ssl
from pathlib import Path

from admin_api import handshakes
from admin_api.handshakes import Loop

PEM = Path(__file__).parent / "access" / "localhost.pem"


def test_who_is_mute_in_a_handshake_is_cut_off(monkeypatch):
    monkeypatch.setattr(handshakes, "HANDSHAKE_S", 0.2)
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(PEM)

    async def story():
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0, ssl=served)
        address = server.sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(*address)
        assert await reader.read() == b""
        writer.close()
        server.close()

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(story())


def test_without_tls_there_is_none():
    async def story():
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        server.close()

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(story())
