"""Answers that take memory of a budget until the peer has taken them.

What a fetch read from disk lies in memory until the kernel has it, and a peer that does
not read leaves it there. So such an answer comes with a reservation, which is released
when the transport has nothing left: the transport is asked to tell that, by a write
limit of 0 bytes while there are any reservations.

The sooner the kernel has it the better: so of a connection that has had such an answer
it takes as much as it likes (`listener.UNSENT_BYTES` is for all others). A consumer
that works at what it has read, and reads no more for seconds, is none that stopped.

While others wait for that memory, a peer must go on reading: one that took nothing for
``TAKE_MS``, or so little that it would not have all within ``WHOLE_MS``, is cut off.
Else a few consumers that stopped, or are slow, would stop all cold reads.
"""

import asyncio
import fcntl
import socket
import termios
from collections.abc import Callable
from struct import unpack
from typing import Any, Protocol

from broker.network.hub import LOOK_MS, Hub
from broker.protocol.buffers import Buffer

TAKE_MS, WHOLE_MS = 5_000, 30_000


class Reservation(Protocol):
    """Memory that an answer takes."""

    @property
    def is_awaited(self) -> bool: ...
    def release(self) -> None: ...


class Sending:
    """The reserved answers of one connection that are on their way out."""

    __slots__ = (
        "_due", "_due_since_ms", "_hub", "_is_bound", "_left", "_reserved", "_taken_ms",
        "_timer", "_too_slow",
    )  # fmt: skip

    def __init__(self, hub: Hub, too_slow: Callable[[], None]) -> None:
        self._hub = hub
        self._too_slow = too_slow
        self._reserved: list[Reservation] = []
        self._timer: Any = None
        self._is_bound = True
        self._left = self._taken_ms = 0
        self._due = self._due_since_ms = 0
        """What was left when others began to wait for it, and since when they do."""

    def add(self, reservation: Reservation) -> None:
        """The next write holds the answer that this was reserved for."""
        self._reserved.append(reservation)

    def write(self, transport: asyncio.Transport, parts: list[Buffer]) -> None:
        """Write; while answers are reserved, ask to be told when all of it is taken."""
        if self._reserved:
            transport.set_write_buffer_limits(high=0)
            self._unbind(transport)
        transport.writelines(parts)
        self.after_write(transport)

    def after_write(self, transport: asyncio.Transport) -> None:
        """Release the memory of answers that were taken; watch the others."""
        if not self._reserved:
            return
        self._left = transport.get_write_buffer_size()
        if not self._left:
            transport.set_write_buffer_limits(high=self._hub.limits.unsent_bytes_max)
            self.close()
        elif self._timer is None:
            self._taken_ms = self._due_since_ms = self._hub.clock.monotonic_ms()
            self._due = self._left
            self._watch(transport)

    def close(self) -> None:
        """Release everything: it has been taken, or the connection is lost."""
        reserved, self._reserved = self._reserved, []
        for reservation in reserved:
            reservation.release()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _unbind(self, transport: asyncio.Transport) -> None:
        """Let the kernel take as much as it likes, from now on."""
        if not self._is_bound:
            return
        self._is_bound = False
        option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
        peer = transport.get_extra_info("socket")
        if option is not None and peer is not None:
            peer.setsockopt(socket.IPPROTO_TCP, option, 0)

    def _watch(self, transport: asyncio.Transport) -> None:
        self._timer = self._hub.timers.after(LOOK_MS, lambda: self._look(transport))

    def _look(self, transport: asyncio.Transport) -> None:
        self._timer = None
        if not self._reserved:
            return
        now_ms, left = self._hub.clock.monotonic_ms(), transport.get_write_buffer_size()
        awaited = any(reservation.is_awaited for reservation in self._reserved)
        if not awaited or left > self._due:
            self._due, self._due_since_ms = left, now_ms
        if left < self._left or not awaited:
            self._left, self._taken_ms = left, now_ms
        if now_ms - self._taken_ms >= TAKE_MS or self._is_behind(left, now_ms):
            self._too_slow()
            return
        self._watch(transport)

    def _is_behind(self, left: int, now_ms: int) -> bool:
        """Whether at this pace others would wait longer than ``WHOLE_MS``."""
        held_ms, taken = now_ms - self._due_since_ms, self._due - left
        return held_ms >= TAKE_MS and taken * WHOLE_MS < self._due * held_ms


def unsent_bytes(transport: asyncio.Transport) -> int:
    """What was written and the peer has not taken, the kernel's part included.

    The transport hears of room only when a third of that part is free: of a peer that
    reads 20 kB/s, each half minute.
    """
    waiting = transport.get_write_buffer_size()
    socket = transport.get_extra_info("socket")
    if socket is None or transport.is_closing():
        return waiting
    (queued,) = unpack("i", fcntl.ioctl(socket, termios.TIOCOUTQ, bytes(4)))
    return waiting + int(queued)
