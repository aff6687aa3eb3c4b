"""Long work goes on in pieces: what began first before others, a few in a turn."""

import asyncio
import gc
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from weakref import ref

from broker.dispatch.turns import Steps, in_turns
from broker.runtime.process.long_work import PIECES_A_TURN, LongWork, Pieces


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


def test_of_many_requests_the_first_ones_end_first() -> None:
    soon: deque[Callable[[], None]] = deque()
    pieces = Pieces(soon.append)
    requests = [Request(pieces, 4) for _ in range(30)]
    for turn in range(1, 41):
        turn_of(soon)
        assert sum(request.done for request in requests) == turn * PIECES_A_TURN
        ended = [request.done == request.length for request in requests]
        assert ended == sorted(ended, reverse=True)
    assert not soon, "the loop may sleep"


def test_answers_have_all_pieces_of_a_turn_but_one_those_first_that_began_first():
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
    for _ in range(4):
        turn_of(soon)
    assert done == ["answer 1", "answer 2", "work 1"] * 4


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


def test_a_loop_that_is_gone_is_not_kept() -> None:
    async def story() -> "ref[asyncio.AbstractEventLoop]":
        await LongWork().others_first()
        return ref(asyncio.get_running_loop())

    gone = asyncio.run(story())
    gc.collect()
    assert gone() is None
