"""Cutting frames: the same frames however the bytes come, and never a byte written over
while somebody looks at it."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.network.blocks import READ_BYTES, STEP_BYTES, Arena, BlockPool
from broker.network.budget import Budget
from broker.network.receiver import Receiver
from broker.protocol.errors import ProtocolError

FRAME_BYTES_MAX = 64 << 20


class Peers:
    """Receivers that share an arena, as connections do."""

    def __init__(self, count: int, bytes_max: int = 1 << 30) -> None:
        self.budget = Budget(bytes_max)
        pool = BlockPool(16 << 20)
        arena = Arena(pool)
        self.receivers = [
            Receiver(arena, pool, self.budget, FRAME_BYTES_MAX) for _ in range(count)
        ]

    def feed(self, peer: int, data: bytes, most: int = 1 << 30) -> list[memoryview]:
        """Receive all of ``data``, at most so many bytes at a time."""
        receiver, position = self.receivers[peer], 0
        frames = []
        while position < len(data):
            buffer = receiver.buffer()
            count = min(len(buffer), len(data) - position, most)
            assert count > 0
            buffer[:count] = data[position : position + count]
            del buffer
            position += count
            receiver.received(count)
            while (frame := receiver.next_frame()) is not None:
                frames.append(frame)
            assert receiver.rest()
        return frames


def framed(bodies: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def body(size: int, seed: int = 0) -> bytes:
    return bytes([(seed * 31 + 7) & 255]) * size


SIZES = st.one_of(
    st.integers(8, 300),
    st.integers(60_000, 70_000),
    st.sampled_from([READ_BYTES - 4, READ_BYTES, 1_000_000, 1 << 20, 5_000_000]),
)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), SIZES), min_size=1, max_size=12),
    st.sampled_from([1_000, 40_000, 300_000, 1 << 30]),
    st.booleans(),
)
def test_frames_come_out_as_they_went_in(
    script: list[tuple[int, int]], most: int, kept: bool
) -> None:
    peers = Peers(3)
    alive: list[tuple[memoryview, bytes]] = []
    left = {0: b"", 1: b"", 2: b""}
    for seed, (peer, size) in enumerate(script):
        whole = left[peer] + framed([body(size, seed)])
        cut = len(whole) // 2  # the second half comes with the next frame
        left[peer] = whole[cut:]
        peers.feed(peer, whole[:cut], most)
        frames = peers.feed(peer, left[peer], most)
        left[peer] = b""
        assert [bytes(frame) for frame in frames] == [body(size, seed)]
        if kept:
            alive += [(frame, bytes(frame)) for frame in frames]
        frames.clear()
        assert all(view == copy for view, copy in alive)
    assert peers.budget.taken == 0


def test_many_small_frames_come_in_one_read() -> None:
    bodies = [body(8 + i % 100, i) for i in range(2_000)]
    frames = Peers(1).feed(0, framed(bodies))
    assert [bytes(frame) for frame in frames] == bodies


def test_interleaved_peers_do_not_disturb_each_other() -> None:
    peers = Peers(2)
    data = [framed([body(5_000, peer)]) for peer in range(2)]
    frames: list[list[memoryview]] = [[], []]
    for start in range(0, len(data[0]), 100):
        for peer in range(2):
            frames[peer] += peers.feed(peer, data[peer][start : start + 100])
    assert [bytes(f[0]) for f in frames] == [body(5_000, 0), body(5_000, 1)]


@pytest.mark.parametrize("length", [-1, 0, 7, -(2**31), FRAME_BYTES_MAX + 1, 2**31 - 1])
def test_a_length_that_no_request_has_is_told_at_once(length: int) -> None:
    with pytest.raises(ProtocolError):
        Peers(1).feed(0, struct.pack(">i", length))


def test_what_else_came_to_the_port_is_named() -> None:
    with pytest.raises(ProtocolError, match="HTTP"):
        Peers(1).feed(0, b"GET / HTTP/1.1")
    with pytest.raises(ProtocolError, match="TLS"):
        Peers(1).feed(0, b"\x16\x03\x01\x02\x00\x01")


def test_a_claim_costs_no_more_than_a_step() -> None:
    peers = Peers(1)
    peers.feed(0, struct.pack(">i", FRAME_BYTES_MAX) + bytes(100))
    block = peers.receivers[0]._block
    assert block is not None
    assert len(block) <= STEP_BYTES


def test_an_idle_peer_holds_nothing() -> None:
    peers = Peers(1)
    peers.feed(0, framed([body(2_000_000)]))
    assert peers.receivers[0]._block is None
    assert peers.receivers[0]._put_by is None


def test_a_large_frame_waits_for_its_bytes() -> None:
    peers = Peers(2, bytes_max=1_500_000)
    large = framed([body(1_000_000)])
    peers.feed(0, large[:100])
    waiting = peers.receivers[1]
    waiting.buffer()[:100] = large[:100]
    waiting.received(100)
    assert waiting.next_frame() is None
    assert not waiting.rest()
    woken: list[int] = []
    peers.budget.wait(lambda: woken.append(1))
    assert len(peers.feed(0, large[100:])) == 1
    assert woken == [1]
    assert waiting.rest()
    assert len(peers.feed(1, large[100:])) == 1
    assert peers.budget.taken == 0


def test_frames_that_were_not_taken_are_kept() -> None:
    peers = Peers(2)
    receiver = peers.receivers[0]
    data = framed([body(100, i) for i in range(5)])
    receiver.buffer()[: len(data)] = data
    receiver.received(len(data))
    first = receiver.next_frame()
    assert receiver.rest()
    peers.feed(1, framed([body(500, 9)]))
    assert first == body(100, 0)
    rest = [receiver.next_frame() for _ in range(5)]
    assert rest == [body(100, 1), body(100, 2), body(100, 3), body(100, 4), None]
    assert receiver.rest()


def test_what_a_lost_connection_held_is_given_back() -> None:
    peers = Peers(1)
    peers.feed(0, framed([body(1_000_000)])[:500_000])
    assert peers.budget.taken > 0
    peers.receivers[0].close()
    assert peers.budget.taken == 0
