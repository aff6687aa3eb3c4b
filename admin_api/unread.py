"""Connections whose clients neither read nor write are ended, as are mute ones.

The problem: what was answered stays in memory until its client reads it, with all that
waits to be sent behind it, and closing a connection waits for the client as well. The
idea: the transport says when something waits for the client and when nothing does any
more; in between so much has to move in each half a minute, whatever is answered, or the
connection is reset. What the client sends counts as well: it may write all before it
reads. The price: who reads more slowly than that over a bad line begins again.

Who connects and does not say what he wants is ended, too: half a minute is enough for
the head of a request. Who is gone without a word (no power, no way) is asked for by the
kernel, for a stream of records may be silent as long as it likes. While something is on
its way to him the kernel does not ask, but sends it again for a quarter of an hour: so
it is looked at when he was heard of last. (TCP_USER_TIMEOUT would end him as well who
is there and reads nothing while he sends.)

Who was answered may ask again for a while; his clients would send into a connection
that is being closed if that were a few seconds. While very many are connected it is.

Who closes only his sending half has said all and waits for his answers: he gets them,
and then it is over. Nothing tells him from one who closed both until something is sent
to him; so what has no end by itself ends there (`ENDLESS`). TLS has no halves here.
"""

import asyncio
import socket
import struct
import sys
from contextlib import suppress
from typing import Any, Final, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from admin_api.framing import Framed
from admin_api.lingering import Lingering

UNREAD_S: Final = 30.0
MOVED_BYTES_MIN: Final = 1 << 20
"""In ``UNREAD_S`` so much is read or sent by a client for which anything waits."""
_ALIVE: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""After so many silent seconds a client's machine is asked whether it is there, so
often, and so many times; not each system has a name for each."""
UNHEARD_MS: Final = 60_000
"""So long nothing that was sent is acknowledged by a client that is gone."""
KEPT_MAX: Final = 500
"""Where more are connected, who asks nothing is not waited for longer than"""
BRIEF_S: Final = 5
_TCP_INFO: Final = (
    getattr(socket, "TCP_INFO", None) if sys.platform == "linux" else None
)
_UNACKED_AT, _HEARD_AT, _INFO_BYTES = 24, 56, 60
"""Where ``struct tcp_info`` of Linux has the segments that are not acknowledged, and
the milliseconds since anything was."""
ENDLESS: Final = "lakelog.endless"
"""In the state of a request: its answer ends when its client says no more."""
_BUSY: Final = object()
_AT_ONCE: Final = struct.pack("ii", 1, 0)


class Connection(H11Protocol):
    """HTTP with a client that has to take what it asked for."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.conn: Framed = Framed()
        self._has_said_all = False
        self._check: asyncio.TimerHandle | None = None
        self._head_check: asyncio.TimerHandle | None = None
        self._last: object = None
        self._received = 0
        self._unread = 0

    def connection_made(  # type: ignore[override]
        self, transport: asyncio.Transport
    ) -> None:
        """Begin; a transport that holds a single byte says so.

        One of TLS says so from its limit on, others beyond it: with 0 bytes it would
        hold nothing and wait for ever.
        """
        self._ending = Lingering(transport, self._is_sent_to)
        served = cast("asyncio.Transport", self._ending)
        super().connection_made(served)  # first: a handshake's last bytes may wait
        _ask_whether_alive(transport.get_extra_info("socket"))
        self._is_tls = transport.get_extra_info("sslcontext") is not None
        transport.set_write_buffer_limits(1 if self._is_tls else 0)
        self._check_head_later()

    def data_received(self, data: bytes) -> None:
        """Take in what the client sent; nobody waits for what comes behind the end."""
        self._received += len(data)
        if self._ending.is_lingering:
            return
        super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        """Answer what could not be read, which was logged, and end the connection;
        whoever answers it already has nobody to answer from now on."""
        self.transport.write(self.conn.refusal())
        self.transport.close()
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self.flow.resume_writing()

    def eof_received(self) -> bool:  # type: ignore[override]
        """The client sends no more; whether it still waits for answers."""
        self._has_said_all = not self._is_tls and self._is_to_be_answered()
        return self._has_said_all

    def pause_writing(self) -> None:
        """Something waits for the client from now on."""
        super().pause_writing()
        self._check_later()

    def on_response_complete(self) -> None:
        """Wait for the next question, if there is room for who asks none."""
        is_brief = len(self.connections) > KEPT_MAX
        self.timeout_keep_alive = (
            BRIEF_S if is_brief else self.config.timeout_keep_alive
        )
        super().on_response_complete()  # begins with the next one, if it came already
        if self._has_said_all and not self._is_to_be_answered():
            self.transport.close()

    def resume_writing(self) -> None:
        """Nothing waits for it any more."""
        self._check_no_more()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._ending.forget()
        self._check_no_more()
        if self._head_check is not None:
            self._head_check.cancel()
        super().connection_lost(exc)

    def _is_to_be_answered(self) -> bool:
        """Whether a whole request has no whole answer yet, which has an end."""
        if self.cycle is None or self.cycle.response_complete:
            return False
        is_endless = self.cycle.scope["state"].get(ENDLESS, False)
        return not (self.cycle.more_body or is_endless)

    def _is_sent_to(self) -> bool:
        """Whether the client still sends a body, or what was not understood."""
        return self.conn.their_state in (h11.SEND_BODY, h11.ERROR)

    def _check_head_later(self) -> None:
        self._head_check = self.loop.call_later(UNREAD_S, self._check_head)

    def _check_head(self) -> None:
        """End it if it had nothing to do in all the time since the last check, or if
        nobody is there."""
        idle_after = _BUSY if self._is_busy() else self.cycle
        is_mute = idle_after is self._last and idle_after is not _BUSY
        if is_mute or is_unheard(self.transport.get_extra_info("socket")):
            self._head_check = None
            self._reset()
        else:
            self._last = idle_after
            self._check_head_later()

    def _is_busy(self) -> bool:
        """Whether a request is under way, or its answer, whose pace is looked at; or
        the next one is waited for, which has an end of its own."""
        is_answered = self.cycle is None or self.cycle.response_complete
        is_kept = self.timeout_keep_alive_task is not None
        return not is_answered or is_kept or self._check is not None

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


def is_unheard(connected: socket.socket | None) -> bool:
    """Whether something was sent, and the other end has not said a word since."""
    if connected is None or _TCP_INFO is None:
        return False
    try:
        info = connected.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _INFO_BYTES)
    except OSError:  # it has ended already
        return False
    [unacked] = struct.unpack_from("I", info, _UNACKED_AT)
    [heard_ms] = struct.unpack_from("I", info, _HEARD_AT)
    return bool(unacked) and heard_ms >= UNHEARD_MS


def _ask_whether_alive(connected: socket.socket | None) -> None:
    """Let the kernel end a connection whose other end does not answer it any more."""
    if connected is None:
        return
    with suppress(OSError):  # it may have ended already
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, number in _ALIVE.items():
            option = getattr(socket, name, None)
            if option is not None:
                connected.setsockopt(socket.IPPROTO_TCP, option, number)
