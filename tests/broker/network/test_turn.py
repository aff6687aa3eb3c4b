"""Who starts requests in a turn of the loop, on a clock that is moved by hand."""

from asyncio import create_task, gather
from collections import deque
from collections.abc import Callable
from time import sleep

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.network.turn import CREDIT, LARGE_BYTES, QUEUE_NS, SERVED, TURN_NS, Turn
from broker.protocol.api_keys import ApiKey
from broker.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tests.support.beats import PING
from tests.support.serving import on_loop, serving
from tests.support.wire import Wire

BRIEF = frozenset({7})


class Loop:
    """What is called in the next turn; time passes as requests are started."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.soon: deque[Callable[[], None]] = deque()
        self.turn = Turn(self.soon.append, lambda: self.now_ns, BRIEF)

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


def alone(loop: Loop, each_ns: int) -> Peer | None:
    """A peer whose one bulky request came alone; None: it was started."""
    turn = loop.turn
    if turn.passing is None:
        turn.note_alone(LARGE_BYTES)
        loop.now_ns += each_ns
        return None
    peer = Peer(loop, 1, each_ns)
    peer.advance()
    return peer


def test_long_requests_that_come_alone_have_a_turn_together_and_no_more() -> None:
    loop, each_ns = Loop(), TURN_NS // 4
    first = [alone(loop, each_ns) for _ in range(100)]
    waiting = [peer for peer in first if peer is not None]
    assert len(waiting) == 95
    assert loop.turn.passing == BRIEF
    for turn in range(1, 24):
        loop.next_turn()
        late = alone(loop, each_ns)
        assert late is not None
        assert late.left == 1, "it passes nobody"
        waiting.append(late)
        assert sum(peer.left == 0 for peer in waiting) == 4 * turn
    while any(peer.left for peer in waiting):
        loop.next_turn()
    loop.next_turn()
    assert loop.turn.passing is None
    assert alone(loop, each_ns) is None


def test_small_answers_to_what_comes_alone_make_no_turn_long() -> None:
    loop = Loop()
    for _ in range(1_000):
        loop.turn.note_alone(LARGE_BYTES - 1)
        loop.now_ns += TURN_NS
    assert loop.turn.passing is None
    assert not loop.soon, "nothing is called for them"


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


@pytest.mark.parametrize("is_bulky", [True, False])
def test_who_asks_for_little_passes_those_who_ask_for_much_at_once(
    is_bulky: bool,
) -> None:
    """And those are all answered. Where nobody says that it is much, none passes."""
    started, count = 0, 50

    @serves(ApiKey.FETCH, versions=(4, 4), is_bulky=is_bulky)
    def bulky(_: FetchRequest, __: Context) -> FetchResponse:
        nonlocal started
        started += 1
        sleep(TURN_NS / 2e9)
        partition = PartitionData(records=bytes(LARGE_BYTES))
        return FetchResponse(
            responses=[FetchableTopicResponse("t", bytes(16), [partition])]
        )

    async def story() -> None:
        async with serving([bulky]) as server:
            wires = [await Wire.open(server.address) for _ in range(count + 1)]
            for wire in wires:
                await wire.ask(PING, 3)
            *many, last = wires
            answers = [create_task(wire.ask(FetchRequest(), 4)) for wire in many]
            await last.ask(PING, 3)
            assert (started < count) == is_bulky
            await gather(*answers)
            assert started == count
            for wire in wires:
                wire.close()

    on_loop(story)
