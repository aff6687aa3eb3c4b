"""Reserved answers: released when taken, and a peer that takes none is cut off."""

import asyncio
import socket
from types import SimpleNamespace
from typing import Any, cast

from broker.network.hub import Hub
from broker.network.sending import TAKE_MS, WHOLE_MS, Sending
from broker.protocol.buffers import Buffer
from broker.runtime.budget import Budget, Reservation
from tests.support.clock import ManualClock
from tests.support.timers import ManualTimers


class Transport:
    """Keeps what it is told; what it has left is set by hand."""

    def __init__(self, socket: socket.socket | None) -> None:
        self.socket, self.left = socket, 0
        self.limits: list[int] = []
        self.written: list[Buffer] = []

    def get_extra_info(self, name: str) -> socket.socket | None:
        return self.socket if name == "socket" else None

    def set_write_buffer_limits(self, high: int) -> None:
        self.limits.append(high)

    def get_write_buffer_size(self) -> int:
        return self.left

    def writelines(self, parts: list[Buffer]) -> None:
        self.written.extend(parts)


class Peer:
    """A connection's sending half, with one answer of 100 bytes handed over."""

    def __init__(self, left: int, real: socket.socket | None = None) -> None:
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.budget = Budget(150)
        self.cut_off = 0
        limits = SimpleNamespace(unsent_bytes_max=8_000)
        hub: Any = SimpleNamespace(clock=self.clock, timers=self.timers, limits=limits)
        self.sending = Sending(cast("Hub", hub), self._too_slow)
        self.fake = Transport(real)
        self.transport = cast("asyncio.Transport", self.fake)
        assert self.budget.try_take(100)
        self.sending.add(Reservation(self.budget, 100))
        self.fake.left = left
        self.sending.write(self.transport, [b"answer"])

    def _too_slow(self) -> None:
        self.cut_off += 1


def test_what_the_kernel_took_at_once_is_released_at_once() -> None:
    peer = Peer(left=0)
    assert peer.budget.taken == 0
    assert peer.fake.limits == [0, 8_000]
    assert peer.fake.written == [b"answer"]
    assert len(peer.timers) == 0


def test_the_kernel_takes_as_much_as_it_likes_of_what_is_reserved() -> None:
    """It is counted until then; of other answers it takes no more than it is told."""
    how = socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT
    with socket.socket() as real:
        real.setsockopt(*how, 5_000)
        hub: Any = SimpleNamespace()
        other: Any = Transport(real)
        Sending(hub, lambda: None).write(other, [b"answer"])
        assert real.getsockopt(*how) == 5_000
        Peer(0, real)
        assert real.getsockopt(*how) == 0


def test_the_rest_is_released_when_the_transport_has_nothing_left() -> None:
    peer = Peer(left=60)
    peer.sending.after_write(peer.transport)
    assert peer.budget.taken == 100
    peer.fake.left = 0
    peer.sending.after_write(peer.transport)
    assert peer.budget.taken == 0
    assert len(peer.timers) == 0


def test_a_lost_connection_releases_everything_once() -> None:
    peer = Peer(left=60)
    peer.sending.close()
    peer.sending.close()
    assert peer.budget.taken == 0
    assert len(peer.timers) == 0


def test_a_peer_may_take_its_time_while_nobody_waits() -> None:
    peer = Peer(left=60)
    peer.timers.advance(10 * TAKE_MS)
    assert peer.cut_off == 0


def test_who_takes_nothing_while_others_wait_is_cut_off() -> None:
    peer = Peer(left=60)
    peer.budget.wait(lambda: None, 100)
    peer.timers.advance(TAKE_MS - 1_000)
    assert peer.cut_off == 0
    peer.fake.left = 40  # it reads
    peer.timers.advance(TAKE_MS - 1_000)
    assert peer.cut_off == 0
    peer.timers.advance(2_000)
    assert peer.cut_off == 1


def test_who_takes_a_little_now_and_then_while_others_wait_is_cut_off() -> None:
    peer = Peer(left=60)
    peer.timers.advance(10 * TAKE_MS)
    peer.budget.wait(lambda: None, 100)
    for left in range(59, 50, -1):
        peer.fake.left = left
        peer.timers.advance(TAKE_MS // 5)
    assert peer.cut_off == 1


def test_who_takes_all_in_time_while_others_wait_is_not_cut_off() -> None:
    peer = Peer(left=60)
    peer.budget.wait(lambda: None, 100)
    for left in range(58, 0, -2):
        peer.fake.left = left
        peer.timers.advance(WHOLE_MS // 30)
    assert peer.cut_off == 0


def test_without_reservations_nothing_is_asked_of_the_transport() -> None:
    peer = Peer(left=0)
    peer.fake.limits.clear()
    peer.sending.write(peer.transport, [b"answer"])
    assert peer.fake.limits == []
