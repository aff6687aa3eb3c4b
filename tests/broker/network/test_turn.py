"""Who starts requests in a turn of the loop, on a clock that is moved by hand."""

from collections import Counter, deque
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from broker.network.turn import READING_NS, SLICE, TURN_NS, Turn


class Loop:
    """What is called in the next turn; time passes as requests are started."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.soon: deque[Callable[[], None]] = deque()
        self.turn = Turn(self.soon.append, lambda: self.now_ns)

    def next_turn(self) -> None:
        for _ in range(len(self.soon)):
            self.soon.popleft()()


class Peer:
    """A connection with so many requests, each of which takes its time."""

    def __init__(self, loop: Loop, requests: int, each_ns: int) -> None:
        self.loop, self.left, self.each_ns = loop, requests, each_ns
        self.started: Counter[int] = Counter()
        self.resumed = 0

    def resume(self) -> None:
        self.resumed += 1
        started = 0
        while self.left and not self.loop.turn.is_over(started):
            self.loop.now_ns += self.each_ns
            self.left -= 1
            started += 1
        if self.left:
            self.loop.turn.come(self)


def test_a_peer_alone_has_the_whole_turn_and_no_more() -> None:
    loop = Loop()
    peer = Peer(loop, 1_000, TURN_NS // 100)
    peer.resume()
    assert peer.left == 900
    loop.next_turn()
    assert peer.left == 800


def test_peers_who_wait_have_slices_one_after_the_other() -> None:
    loop = Loop()
    peers = [Peer(loop, 4 * SLICE, TURN_NS // (5 * SLICE)) for _ in range(10)]
    for peer in peers:
        loop.turn.come(peer)
    loop.next_turn()
    assert [peer.left // SLICE for peer in peers] == [3] * 5 + [4] * 5
    loop.next_turn()
    assert [peer.left // SLICE for peer in peers] == [3] * 10


def test_who_reads_between_two_turns_of_the_queue_has_a_slice_and_no_more() -> None:
    loop = Loop()
    waiting = Peer(loop, 2, TURN_NS)
    loop.turn.come(waiting)
    loop.next_turn()
    reads = Peer(loop, 3 * SLICE, TURN_NS // SLICE)
    reads.resume()
    assert (waiting.left, reads.left) == (1, 2 * SLICE)
    loop.next_turn()
    assert (waiting.left, reads.left) == (0, 2 * SLICE)
    loop.next_turn()
    assert reads.left == SLICE


def test_a_thousand_who_read_in_one_turn_join_the_queue_when_it_is_long() -> None:
    loop = Loop()
    peers = [Peer(loop, SLICE, READING_NS // (100 * SLICE)) for _ in range(1_000)]
    for peer in peers:
        peer.resume()
    assert sum(peer.left == 0 for peer in peers) == 100
    while loop.soon:
        loop.next_turn()
    assert not any(peer.left for peer in peers)


def test_one_request_that_takes_longer_than_a_turn_is_started_alone() -> None:
    loop = Loop()
    peers = [Peer(loop, 1, 10 * TURN_NS) for _ in range(3)]
    for peer in peers:
        loop.turn.come(peer)
    for turn in range(1, 4):
        loop.next_turn()
        assert sum(peer.left == 0 for peer in peers) == turn


def test_who_only_looks_again_takes_nothing_of_a_turn() -> None:
    loop = Loop()
    peers = [Peer(loop, 0, 1) for _ in range(100)]
    for peer in peers:
        loop.turn.come(peer)
    loop.next_turn()
    assert all(peer.resumed == 1 for peer in peers)
    assert not loop.soon, "the loop may sleep"


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, TURN_NS)), max_size=12))
def test_all_is_started_and_no_turn_is_longer_than_its_time_and_a_request(
    given_peers: list[tuple[int, int]],
) -> None:
    loop = Loop()
    peers = [Peer(loop, requests, each_ns) for requests, each_ns in given_peers]
    for peer in peers:
        loop.turn.come(peer)
    while loop.soon:
        began_ns = loop.now_ns
        loop.next_turn()
        assert loop.now_ns - began_ns < TURN_NS + max(peer.each_ns for peer in peers)
    assert not any(peer.left for peer in peers)
