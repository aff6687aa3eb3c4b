"""Connections whose clients neither read nor write are ended.

The problem: what was answered stays in memory until its client reads it, with all that
waits to be sent behind it, and closing a connection waits for the client as well. The
idea: the transport says when something waits for the client and when nothing does any
more; in between so much has to move in each half a minute, whatever is answered, or the
connection is reset. What the client sends counts as well: it may write all before it
reads. The price: who reads more slowly than that over a bad line begins again.
"""

import asyncio
import socket
import struct
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

UNREAD_S: Final = 30.0
MOVED_BYTES_MIN: Final = 1 << 20
"""In ``UNREAD_S`` so much is read or sent by a client for which anything waits."""
_AT_ONCE: Final = struct.pack("ii", 1, 0)


class Connection(H11Protocol):
    """HTTP with a client that has to take what it asked for."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._check: asyncio.TimerHandle | None = None
        self._received = 0
        self._unread = 0

    def connection_made(  # type: ignore[override]
        self, transport: asyncio.Transport
    ) -> None:
        """Begin; a transport that holds a single byte says so.

        One of TLS says so from its limit on, others beyond it: with 0 bytes it would
        hold nothing and wait for ever.
        """
        super().connection_made(transport)  # first: a handshake's last bytes may wait
        is_tls = transport.get_extra_info("sslcontext") is not None
        transport.set_write_buffer_limits(1 if is_tls else 0)

    def data_received(self, data: bytes) -> None:
        """Take in what the client sent."""
        self._received += len(data)
        super().data_received(data)

    def pause_writing(self) -> None:
        """Something waits for the client from now on."""
        super().pause_writing()
        self._check_later()

    def resume_writing(self) -> None:
        """Nothing waits for it any more."""
        self._check_no_more()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._check_no_more()
        super().connection_lost(exc)

    def _check_later(self) -> None:
        self._received, self._unread = 0, self.transport.get_write_buffer_size()
        self._check = self.loop.call_later(UNREAD_S, self._check_moved)

    def _check_no_more(self) -> None:
        if self._check is not None:
            self._check.cancel()
            self._check = None

    def _check_moved(self) -> None:
        taken = self._unread - self.transport.get_write_buffer_size()
        if taken + self._received < MOVED_BYTES_MIN:
            self._check = None
            self._reset()
        else:
            self._check_later()

    def _reset(self) -> None:
        """End it at once; what the kernel holds for the client is forgotten, too."""
        connected = self.transport.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self.transport.abort()
