"""Who starts requests in a turn of the loop, on a clock that is moved by hand."""

from collections import deque
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from broker.network.turn import CREDIT, QUEUE_NS, SERVED, TURN_NS, Turn


class Loop:
    """What is called in the next turn; time passes as requests are started."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.soon: deque[Callable[[], None]] = deque()
        self.turn = Turn(self.soon.append, lambda: self.now_ns)

    def next_turn(self, *readers: "Peer") -> None:
        """A turn, in which these have been read."""
        for _ in range(len(self.soon)):
            self.soon.popleft()()
        for reader in readers:
            reader.advance()


class Peer:
    """A connection with so many requests, each of which takes its time."""

    def __init__(self, loop: Loop, requests: int, each_ns: int) -> None:
        self.loop, self.left, self.each_ns = loop, requests, each_ns
        self.credit, self.resumed, self.waits = CREDIT, 0, False

    def resume(self) -> None:
        self.resumed += 1
        if self.waits:
            self.advance()

    def advance(self) -> None:
        turn, left = self.loop.turn, self.left
        while self.left and not turn.is_over(self):
            self.loop.now_ns += self.each_ns
            self.credit -= 1
            self.left -= 1
        if self.left < left:
            turn.went_on(self)
        self.waits = self.left > 0
        if self.waits:
            turn.come(self)


def test_a_peer_alone_has_the_whole_turn_and_no_more() -> None:
    loop = Loop()
    peer = Peer(loop, 1_000, QUEUE_NS // 100)
    peer.advance()
    assert peer.left == 900
    loop.next_turn()
    assert peer.left == 800


def test_peers_who_wait_are_served_some_requests_one_after_the_other() -> None:
    loop = Loop()
    peers = [Peer(loop, 100, QUEUE_NS // (5 * SERVED)) for _ in range(7)]
    loop.next_turn(*peers)
    while any(peer.credit > 0 for peer in peers):
        loop.next_turn()
    before = [peer.left for peer in peers]
    for _ in range(7):
        loop.next_turn()
    assert [b - p.left for b, p in zip(before, peers, strict=True)] == [5 * SERVED] * 7


def test_who_comes_again_at_once_does_not_pass_those_who_wait() -> None:
    """They are answered in the turn, and send as many more before the next."""
    loop = Loop()
    quick = [Peer(loop, CREDIT, 30_000) for _ in range(100)]
    late = Peer(loop, CREDIT, 30_000)
    turns = 0
    while late.left:
        loop.next_turn(*(peer for peer in quick if not peer.waits), late)
        for peer in quick:
            if not peer.left:
                peer.left = CREDIT
        turns += 1
    assert turns < 10


def test_nobody_is_served_a_round_more_than_anybody_else() -> None:
    loop = Loop()
    peers = [Peer(loop, 0, 30_000) for _ in range(300)]
    rounds = [0] * len(peers)
    while max(rounds) < 20:
        for number, peer in enumerate(peers):
            if not peer.left:
                peer.left = CREDIT
                rounds[number] += 1
        loop.next_turn(*(peer for peer in peers if not peer.waits))
    assert min(rounds) >= 20 / 3


def test_who_has_credit_left_goes_on_before_the_queue() -> None:
    loop = Loop()
    many = [Peer(loop, 10_000, 30_000) for _ in range(100)]
    for _ in range(20):
        loop.next_turn(*(peer for peer in many if not peer.waits))
    pair = Peer(loop, 1, 30_000)
    pair.advance()
    assert pair.left == 0
    pair.left, pair.waits = 1, True  # behind the first, which is answered now
    loop.turn.come(pair)
    loop.next_turn()
    assert pair.left == 0


def test_a_thousand_who_are_read_in_one_turn_go_on_in_the_next_ones() -> None:
    loop = Loop()
    peers = [Peer(loop, CREDIT, TURN_NS // (100 * CREDIT)) for _ in range(1_000)]
    loop.next_turn(*peers)
    assert sum(peer.left == 0 for peer in peers) == 100
    for turn in range(2, 11):
        loop.next_turn()
        assert sum(peer.left == 0 for peer in peers) == 100 * turn


def test_one_request_that_takes_longer_than_a_turn_is_started_alone() -> None:
    loop = Loop()
    peers = [Peer(loop, 1, 10 * TURN_NS) for _ in range(3)]
    loop.next_turn(*peers)
    for turn in range(1, 4):
        assert sum(peer.left == 0 for peer in peers) == turn
        loop.next_turn()


def test_who_only_looks_again_takes_nothing_of_a_turn() -> None:
    loop = Loop()
    peers = [Peer(loop, 0, 1) for _ in range(100)]
    for peer in peers * 2:  # two of its answers are there
        loop.turn.come(peer)
    loop.next_turn()
    assert all(peer.resumed == 1 for peer in peers)
    assert not loop.soon, "the loop may sleep"


def test_credit_comes_back_when_nobody_waits() -> None:
    loop = Loop()
    first, second = Peer(loop, CREDIT, 1), Peer(loop, CREDIT + 1, 1)
    loop.next_turn(second, first)
    while loop.soon:
        loop.next_turn()
    assert (first.left, second.left) == (0, 0)
    assert first.credit == second.credit == CREDIT


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, TURN_NS)), max_size=12))
def test_all_is_started_and_no_turn_is_longer_than_its_time_and_a_request(
    given_peers: list[tuple[int, int]],
) -> None:
    loop = Loop()
    peers = [Peer(loop, requests, each_ns) for requests, each_ns in given_peers]
    readers = peers
    while readers or loop.soon:
        began_ns = loop.now_ns
        loop.next_turn(*readers)
        readers = []
        longest_ns = 2 * max((peer.each_ns for peer in peers), default=0)
        assert loop.now_ns - began_ns < TURN_NS + QUEUE_NS + longest_ns
    assert not any(peer.left for peer in peers)
