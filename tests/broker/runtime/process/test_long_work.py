"""Long work goes on in pieces: what began first before others, a few in a turn."""

import asyncio
import gc
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.dispatch.turns import Steps, in_turns
from broker.runtime.process.long_work import (
    BEGIN_A_TURN,
    PIECES_A_TURN,
    LongWork,
    Pieces,
    work_of_request,
)


class Request:
    """Work of so many pieces, each of which notes its turn."""

    def __init__(self, pieces: Pieces, length: int) -> None:
        self.pieces, self.length, self.done = pieces, length, 0
        self.ticket = pieces.ticket()
        pieces.add(self.ticket, self.piece)

    def piece(self) -> None:
        self.done += 1
        if self.done < self.length:
            self.pieces.add(self.ticket, self.piece)


def turn_of(soon: deque[Callable[[], None]]) -> None:
    for _ in range(len(soon)):
        soon.popleft()()


def test_of_many_requests_the_first_ones_end_first_and_all_go_on() -> None:
    soon: deque[Callable[[], None]] = deque()
    pieces = Pieces(soon.append)
    requests = [Request(pieces, 40) for _ in range(30)]
    ends: list[int] = []
    for turn in range(1, 421):
        turn_of(soon)
        if sum(request.done < request.length for request in requests) >= PIECES_A_TURN:
            assert sum(request.done for request in requests) == turn * PIECES_A_TURN
        ends += [
            number
            for number, request in enumerate(requests)
            if request.done == request.length and number not in ends
        ]
        if turn == 30:
            assert all(request.done for request in requests), "each had its turn"
            assert requests[0].done > 20
    assert ends == list(range(30))
    assert not soon, "the loop may sleep"


def test_who_has_few_pieces_waits_for_as_many_turns_as_others_wait() -> None:
    soon: deque[Callable[[], None]] = deque()
    pieces = Pieces(soon.append)
    for _ in range(20):
        Request(pieces, 10_000)
    small = Request(pieces, 3)
    for _ in range(3 * 21):
        turn_of(soon)
    assert small.done == 3


def test_what_waits_to_begin_does_so_in_its_order_before_what_has_begun_ends() -> None:
    soon: deque[Callable[[], None]] = deque()
    pieces = Pieces(soon.append)
    for _ in range(1_000):
        Request(pieces, 1_000)
    begun: list[int] = []

    def begin(number: int) -> None:
        pieces.note_short()
        begun.append(number)
        if number % 2:
            pieces.note_begun()

    for number in range(60):
        pieces.begin(partial(begin, number))
    turn_of(soon)
    assert begun == list(range(2 * PIECES_A_TURN)), "three of these are long"
    for _ in range(10):
        turn_of(soon)
    assert begun == list(range(60))


def test_a_turn_begins_no_more_than_so_many_short_ones() -> None:
    soon: deque[Callable[[], None]] = deque()
    pieces = Pieces(soon.append)
    begun: list[int] = []

    def begin(number: int) -> None:
        pieces.note_short()
        begun.append(number)

    for number in range(2 * BEGIN_A_TURN):
        pieces.begin(partial(begin, number))
    turn_of(soon)
    assert begun == list(range(BEGIN_A_TURN))
    assert pieces.is_full, "who comes now is behind them"
    turn_of(soon)
    assert begun == list(range(2 * BEGIN_A_TURN))
    turn_of(soon)
    assert not pieces.is_full
    assert not pieces
    assert not soon


@pytest.mark.parametrize("by", ["steps", "others_first"])
def test_the_first_of_many_ends_after_its_pieces_however_it_gives_way(by: str) -> None:
    length, ends = 200, []

    def steps() -> Steps[None]:
        for _ in range(length):
            yield

    async def request(work: LongWork) -> None:
        if by == "steps":
            await work.completed(steps())
        else:
            for _ in range(length):
                await work.others_first()

    async def main() -> None:
        requests = [asyncio.ensure_future(request(LongWork())) for _ in range(30)]
        turn = 0
        while not all(one.done() for one in requests):
            await asyncio.sleep(0)
            turn += 1
            ends.extend(turn for one in requests if one.done() and not ends)

    asyncio.run(main())
    assert ends[0] <= length + 10


def test_answers_leave_one_piece_of_a_turn_and_short_ones_pass_long_ones() -> None:
    soon: deque[Callable[[], None]] = deque()
    pieces = Pieces(soon.append)
    done: list[str] = []

    def go_on(name: str, ticket: int, *, is_answer: bool) -> None:
        done.append(name)
        again = partial(go_on, name, ticket, is_answer=is_answer)
        pieces.add(ticket, again, is_answer=is_answer)

    for name in ("work 1", "work 2", "answer 1", "answer 2", "answer 3"):
        go_on(name, pieces.ticket(), is_answer=name.startswith("answer"))
    done.clear()
    for _ in range(60):
        turn_of(soon)
    assert done.count("work 1") == done.count("work 2") == 30
    assert done.count("answer 1") == 60, "one piece a turn is all that it has"
    assert done.count("answer 2") + done.count("answer 3") == 60
    assert done.count("answer 3") >= 20


class NaivePieces:
    """What is done in a turn, looked for among all that wait."""

    def __init__(self) -> None:
        self.waiting: list[tuple[bool, int, int]] = []
        self.added = 0

    def add(self, ticket: int, *, is_answer: bool) -> None:
        self.waiting.append((not is_answer, ticket, self.added))
        self.added += 1

    def turn(self) -> list[tuple[bool, int, int]]:
        done = []
        for is_work in (False, True):
            mine = [piece for piece in self.waiting if piece[0] == is_work]
            if mine:
                done.append(min(mine, key=lambda piece: piece[2]))
                self.waiting.remove(done[-1])
        while self.waiting and len(done) < PIECES_A_TURN:
            done.append(min(self.waiting))
            self.waiting.remove(done[-1])
        return done


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=6), max_size=30
    )
)
def test_pieces_are_those_that_a_naive_model_takes(
    turns: list[list[tuple[int, bool]]],
) -> None:
    """Of each ticket one piece waits at a time, as of a request."""
    soon: deque[Callable[[], None]] = deque()
    pieces, naive = Pieces(soon.append), NaivePieces()
    done: list[tuple[bool, int]] = []
    for added in [*turns, *[[] for _ in range(100)]]:
        waiting = {(is_work, ticket) for is_work, ticket, _ in naive.waiting}
        for ticket, is_answer in added:
            if (not is_answer, ticket) not in waiting:
                waiting.add((not is_answer, ticket))
                naive.add(ticket, is_answer=is_answer)
                note = partial(done.append, (not is_answer, ticket))
                pieces.add(ticket, note, is_answer=is_answer)
        done.clear()
        turn_of(soon)
        assert done == [piece[:2] for piece in naive.turn()]
    assert not naive.waiting
    assert not soon


def test_of_requests_that_show_to_be_long_a_few_begin_in_a_turn() -> None:
    began: list[int] = []

    def handler(number: int) -> Steps[int]:
        began.append(number)
        yield
        return number

    async def story() -> list[int]:
        answers = [in_turns(handler(number)) for number in range(20)]
        assert began == list(range(PIECES_A_TURN))
        return [await one for one in answers if isinstance(one, Awaitable)]

    assert asyncio.run(story()) == began == list(range(20))


def test_one_request_alone_has_a_piece_in_each_turn() -> None:
    soon: deque[Callable[[], None]] = deque()
    request = Request(Pieces(soon.append), 5)
    for turn in range(1, 6):
        turn_of(soon)
        assert request.done == turn


def test_tasks_wait_for_each_other_and_one_that_is_cancelled_for_nobody() -> None:
    order: list[tuple[int, int]] = []

    async def work(number: int) -> None:
        mine = LongWork()
        for piece in range(3):
            await mine.others_first()
            order.append((number, piece))

    async def story() -> None:
        tasks = [asyncio.ensure_future(work(number)) for number in range(12)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        later = LongWork()
        later.later(partial(order.append, (99, 0)))
        await LongWork().others_first()

    asyncio.run(story())
    assert len(order) == 11 * 3 + 1
    ends = [number for number, piece in order if piece == 2]
    assert ends == sorted(ends)
    assert order[-1] == (99, 0)


def test_what_is_part_of_a_request_has_its_place_also_in_a_task_of_its_own() -> None:
    async def part() -> LongWork:
        await asyncio.sleep(0)
        return work_of_request()

    async def story() -> None:
        request = LongWork()
        with request.of_request():
            assert work_of_request() is request
            task = asyncio.ensure_future(part())
        assert await task is request
        assert work_of_request() is not request
        assert await asyncio.ensure_future(part()) is not request

        found: list[LongWork] = []
        with request.of_request():
            LongWork().later(lambda: found.append(work_of_request()))
        await LongWork().others_first()
        assert found[0] is not request, "what others asked to be done is not part of it"

    asyncio.run(story())


def test_steps_end_with_what_they_return_or_raise_and_not_behind_who_gave_up() -> None:
    closed: list[int] = []

    def steps(length: int) -> Steps[int]:
        try:
            for _ in range(length):
                yield
            if not length:
                raise ValueError("nothing to do")
            return length
        finally:
            closed.append(length)

    async def story() -> None:
        assert await LongWork().completed(steps(5)) == 5
        with pytest.raises(ValueError, match="nothing"):
            await LongWork().completed(steps(0))
        endless = asyncio.ensure_future(LongWork().completed(steps(1 << 40)))
        await asyncio.sleep(0)
        endless.cancel()
        await LongWork().others_first()

    asyncio.run(story())
    assert closed == [5, 0, 1 << 40]


def test_who_goes_on_alone_for_long_leaves_nothing_behind() -> None:
    soon: deque[Callable[[], None]] = deque()
    pieces = Pieces(soon.append)
    for _ in range(200):
        Request(pieces, 6)
        while soon:
            turn_of(soon)
    assert len(pieces._work._by_ticket) < 80


def test_a_piece_that_raises_takes_no_other_with_it() -> None:
    soon: deque[Callable[[], None]] = deque()
    pieces = Pieces(soon.append)
    done: list[int] = []

    def fail() -> None:
        raise ValueError("a mistake")

    for number, piece in enumerate((partial(done.append, 0), fail)):
        pieces.add(number, piece)
    for number in (2, 3):
        pieces.add(number, partial(done.append, number))
    with pytest.raises(ValueError, match="a mistake"):
        turn_of(soon)
    while soon:
        turn_of(soon)
    assert sorted(done) == [0, 2, 3]


def test_steps_that_are_cancelled_from_within_end_so() -> None:
    def steps() -> Steps[int]:
        yield
        raise asyncio.CancelledError

    async def story() -> None:
        with pytest.raises(asyncio.CancelledError):
            await LongWork().completed(steps())

    asyncio.run(story())


def test_a_loop_that_is_gone_is_not_kept() -> None:
    async def story() -> "ref[asyncio.AbstractEventLoop]":
        await LongWork().others_first()
        return ref(asyncio.get_running_loop())

    gone = asyncio.run(story())
    gc.collect()
    assert gone() is None
