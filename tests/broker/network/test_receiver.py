"""Cutting frames: the same frames however the bytes come, and never a byte written over
while somebody looks at it."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.network.blocks import READ_BYTES, STEP_BYTES, Arena, BlockPool
from broker.network.receiver import REFUSALS_MAX, Receiver
from broker.protocol.errors import ProtocolError
from broker.runtime.budget import Budget

FRAME_BYTES_MAX = 64 << 20


class Peers:
    """Receivers that share an arena, as connections do."""

    def __init__(self, count: int, bytes_max: int = 1 << 30) -> None:
        self.budget = Budget(bytes_max)
        self.in_one_step = False
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
            alone = receiver.only_frame(count) if self.in_one_step else None
            if alone is not None:
                frames.append(alone)
                continue
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
    st.booleans(),
)
def test_frames_come_out_as_they_went_in(
    script: list[tuple[int, int]], most: int, kept: bool, in_one_step: bool
) -> None:
    peers = Peers(3)
    peers.in_one_step = in_one_step
    alive: list[tuple[memoryview, bytes]] = []
    left = {0: b"", 1: b"", 2: b""}
    for seed, (peer, size) in enumerate(script):
        whole = left[peer] + framed([body(size, seed)])
        # what is behind the cut comes with the next frame
        cut = len(whole) // 2 if seed % 3 else 0
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


@pytest.mark.parametrize("size", [8, 9, 63, 64, 65, 300, READ_BYTES - 4])
def test_a_frame_that_comes_alone_is_taken_in_one_step(size: int) -> None:
    peers = Peers(2)
    peers.in_one_step = True
    alive = []
    for seed in range(100):
        (frame,) = peers.feed(seed % 2, framed([body(size, seed)]))
        alive.append((frame, body(size, seed)))
    assert all(view == copy for view, copy in alive)
    assert all(one.rest() and not one.waits_for_more for one in peers.receivers)


def test_what_is_not_one_whole_frame_is_not_taken_in_one_step() -> None:
    whole = framed([body(100)])
    for data in (whole[:-1], whole + b"\0", whole * 2, b"\0\0\0\3abc", whole[:3]):
        peers = Peers(1)
        (receiver,) = peers.receivers
        receiver.buffer()[: len(data)] = data
        assert receiver.only_frame(len(data)) is None
        receiver.received(len(data))  # nothing was done
        assert receiver.share == (0, len(data))
    receiver = peers.receivers[0]  # and a beginning is there already
    receiver.buffer()[: len(whole)] = whole
    assert receiver.only_frame(len(whole)) is None


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
    assert peers.receivers[0]._leftover is None


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


def test_a_frame_is_not_received_over_even_if_its_connection_says_nothing_more() -> (
    None
):
    peers = Peers(2)
    first, second = peers.receivers
    sent = framed([body(100, 1)])
    first.buffer()[: len(sent)] = sent
    first.received(len(sent))
    frame = first.next_frame()  # and neither rest() nor close()
    assert peers.feed(1, framed([body(100, 2)])) == [body(100, 2)]
    assert frame == body(100, 1)
    first.close()
    second.close()


@pytest.mark.parametrize("length", [READ_BYTES + 1, 100_000, 300_000, 2_200_000])
@pytest.mark.parametrize("before", [b"", framed([body(2_300_000)])])
def test_a_claim_holds_at_most_twice_what_it_takes_of_the_budget(
    length: int, before: bytes
) -> None:
    """Also behind a frame that had a larger block."""
    peers = Peers(1)
    peers.feed(0, before + struct.pack(">i", length) + bytes(100))
    block = peers.receivers[0]._block
    assert block is not None
    assert peers.budget.taken >= length
    assert len(block) <= 2 * peers.budget.taken


@pytest.mark.parametrize("begun", [1, 3, 100])
def test_the_beginning_of_a_small_frame_holds_no_block(begun: int) -> None:
    peers = Peers(1)
    small = framed([body(500, 2)])
    data = framed([body(2_200_000, 1)]) + small[:begun]
    assert [len(frame) for frame in peers.feed(0, data)] == [2_200_000]
    assert peers.budget.taken == 0
    assert peers.receivers[0]._block is None
    assert [bytes(f) for f in peers.feed(0, small[begun:])] == [body(500, 2)]


def test_a_large_frame_is_not_passed_over_for_ever() -> None:
    peers = Peers(4, bytes_max=1_000_000)
    small, large = framed([body(300_000)]), framed([body(900_000)])
    waiting = peers.receivers[3]
    for peer in range(2):
        peers.feed(peer, small[:100])
    waiting.buffer()[:100] = large[:100]
    waiting.received(100)
    assert waiting.next_frame() is None
    came = 0
    while not waiting.rest():  # some of the three are always at it
        assert came < 1_000
        if peers.receivers[came % 3].share[0]:
            peers.feed(came % 3, small[100:])
        came += 1
        for receiver in peers.receivers[:3]:
            if not receiver.waits_for_more:
                receiver.buffer()[:100] = small[:100]
                receiver.received(100)
                assert receiver.next_frame() is None
            receiver.rest()
    assert len(peers.feed(3, large[100:])) == 1
    for receiver in peers.receivers[:3]:
        assert receiver.rest()


def test_who_was_passed_over_is_so_again_before_another_frame_is_first() -> None:
    peers = Peers(2, bytes_max=1_000_000)
    large = put_first(peers)
    peers.feed(0, framed([body(300_000)])[100:])
    assert large.rest()
    assert len(peers.feed(1, framed([body(900_000)])[100:])) == 1
    peers.feed(0, framed([body(300_000)])[:100])
    large.buffer()[:100] = framed([body(900_000)])[:100]
    large.received(100)
    assert large.next_frame() is None
    assert not large.rest()
    assert peers.budget.try_take(1)


def put_first(peers: Peers) -> Receiver:
    """One whose large frame was refused so often that nobody else may take bytes."""
    peers.feed(0, framed([body(300_000)])[:100])
    large = peers.receivers[1]
    large.buffer()[:100] = framed([body(900_000)])[:100]
    large.received(100)
    assert large.next_frame() is None
    for _ in range(REFUSALS_MAX):
        assert not large.rest()
    assert not peers.budget.try_take(1)
    return large


def test_a_lost_connection_holds_up_nobody() -> None:
    peers = Peers(2, bytes_max=1_000_000)
    put_first(peers).close()
    assert peers.budget.try_take(1)


def test_who_is_first_and_may_not_begin_holds_up_nobody() -> None:
    """A request before it is open, or its peer reads no answers. Later it is first."""
    peers = Peers(2, bytes_max=1_000_000)
    large = put_first(peers)
    assert large.rest(begin=False)
    assert peers.budget.try_take(1)
    assert not large.rest()
    assert not peers.budget.try_take(1)


def test_a_large_frame_says_its_key_before_it_takes_bytes_and_when_it_is_whole() -> (
    None
):
    peers, frame = Peers(1), framed([b"\0\x07" + body(100_000)])
    (receiver,) = peers.receivers
    for come, key in ((5, None), (6, 7), (100, 7)):
        buffer = receiver.buffer()
        begun = come - receiver.share[1]
        buffer[:begun] = frame[come - begun : come]
        receiver.received(begun)
        assert (receiver.coming_key(), receiver.next_key()) == (key, None)
        assert receiver.rest(begin=False)
    assert receiver.rest()
    assert receiver.coming_key() is None  # it comes now, and shows when it is whole


def test_a_length_that_no_request_has_takes_nothing_while_it_waits_for_its_turn() -> (
    None
):
    peers = Peers(2, bytes_max=1_000_000)
    stalled = peers.receivers[0]
    sent = struct.pack(">i", FRAME_BYTES_MAX + 1) + bytes(100)
    stalled.buffer()[: len(sent)] = sent
    stalled.received(len(sent))
    assert stalled.rest()  # a request before it is still open: it is not cut
    assert peers.budget.taken == 0
    assert stalled._block is None
    peers.feed(1, framed([body(300_000)]))
    with pytest.raises(ProtocolError):
        stalled.next_frame()
