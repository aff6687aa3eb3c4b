"""The loop of the plane: uvloop's, in which a handshake of TLS has its deadline.

Until a handshake is done nobody knows of the connection but the loop, which waits a
minute for it, and uvicorn hands no other time on. Who connects and says nothing holds a
socket for so long.
"""

from asyncio import AbstractServer
from typing import Any, Final

import uvloop

HANDSHAKE_S: Final = 10.0


class Loop(uvloop.Loop):
    """Makes servers whose clients do not take longer than ``HANDSHAKE_S`` for it."""

    async def create_server(  # type: ignore[override]
        self, *args: Any, ssl: Any = None, **named: Any
    ) -> AbstractServer:
        """A server; its arguments are asyncio's."""
        if ssl is not None:
            named.setdefault("ssl_handshake_timeout", HANDSHAKE_S)
        return await super().create_server(*args, ssl=ssl, **named)
