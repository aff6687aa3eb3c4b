"""Long work in pieces: at once if it is short, else with turns between."""

import asyncio
from collections.abc import Generator

import pytest

from broker.dispatch.context import Context
from broker.dispatch.turns import (
    COUNTED_A_TURN,
    Reading,
    at_once,
    counted_in_turns,
    in_turns,
    to_the_end,
)
from broker.protocol.errors import ProtocolError

CONTEXT = Context(version=1, client_id="c", key=3, peer_host="h", broker=None)  # type: ignore[arg-type]


def counted(turns: int, seen: list[int]) -> Generator[None, None, str]:
    for turn in range(turns):
        seen.append(turn)
        yield
    return "the end"


def test_what_never_gives_way_is_done_at_once() -> None:
    assert in_turns(counted(0, [])) == "the end"


def test_others_have_a_turn_wherever_it_gives_way() -> None:
    async def story() -> None:
        seen: list[int] = []
        result = in_turns(counted(3, seen))
        assert seen == [0]
        assert not isinstance(result, str)
        task = asyncio.ensure_future(result)
        others = 0
        while not task.done():
            await asyncio.sleep(0)
            others += 1
        assert others >= 3
        assert await task == "the end"
        assert seen == [0, 1, 2]

    asyncio.run(story())


def test_an_error_comes_out_of_either_way() -> None:
    def broken(turns: int) -> Generator[None, None, str]:
        yield from counted(turns, [])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        in_turns(broken(0))
    with pytest.raises(ZeroDivisionError):
        asyncio.run(to_the_end(broken(2)))


def test_a_handler_is_called_when_its_request_is_whole() -> None:
    reading = Reading(counted(2, []), lambda request, c: (request, c), CONTEXT)
    assert reading.step() is reading
    assert reading.step() is reading
    assert reading.step() == ("the end", CONTEXT)


def test_what_is_no_request_calls_no_handler() -> None:
    def cut() -> Generator[None, None, str]:
        yield
        raise ProtocolError("the frame ends too early")

    reading = Reading(cut(), lambda *_: pytest.fail("called"), CONTEXT)
    assert reading.step() is reading
    with pytest.raises(ProtocolError):
        reading.step()


def test_what_ends_before_it_gives_way_is_there_and_the_rest_goes_on() -> None:
    seen: list[int] = []
    steps = counted(2, seen)
    assert at_once(counted(0, seen)) == "the end"
    assert at_once(steps) is None
    assert seen == [0]
    assert list(steps) == [None]
    assert seen == [0, 1]


def test_a_handler_may_go_on_in_turns() -> None:
    seen: list[int] = []
    reading = Reading(counted(1, []), lambda *_: counted(2, seen), CONTEXT)
    assert [reading.step() is reading for _ in range(3)] == [True] * 3
    assert seen == [0, 1]
    assert reading.step() == "the end"
    once = Reading(counted(1, []), lambda *_: counted(0, seen), CONTEXT)
    assert once.step() is once
    assert once.step() == "the end"


def test_names_are_counted_in_turns() -> None:
    assert in_turns(counted_in_turns("abab")) == {"a": 2, "b": 2}
    steps = counted_in_turns([1] * (2 * COUNTED_A_TURN + 1))
    assert next(steps) is next(steps) is None
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == {1: 2 * COUNTED_A_TURN + 1}
