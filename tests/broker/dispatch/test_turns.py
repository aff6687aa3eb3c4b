"""Long work in pieces: at once if it is short, else with turns between."""

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TypeVar

import pytest

from broker.dispatch.context import Context
from broker.dispatch.turns import (
    COUNTED_A_TURN,
    ITEMS_A_TURN,
    PARTS_A_TURN,
    Reading,
    Remains,
    Steps,
    Underway,
    WhileHeard,
    at_once,
    completed,
    counted_in_turns,
    drained,
    emptied_in_turns,
    grouped_in_turns,
    in_turns,
    listed_in_turns,
    side_by_side,
    to_the_end,
    topics_are_few,
)
from broker.protocol.errors import ProtocolError
from broker.runtime.process.long_work import (
    BEGIN_A_TURN,
    FREED_A_TURN,
    PIECES_A_TURN,
    LongWork,
    pieces,
    work_of_request,
)
from tests.support.half_done import half_done

R = TypeVar("R")

CONTEXT = Context(version=1, client_id="c", key=3, peer_host="h", broker=None)  # type: ignore[arg-type]


def counted(turns: int, seen: list[int]) -> Generator[None, None, str]:
    for turn in range(turns):
        seen.append(turn)
        yield
    return "the end"


def begun(steps: Steps[R]) -> R | Awaitable[R]:
    """What comes of it on a loop."""

    async def story() -> tuple[R | Awaitable[R]]:
        return (in_turns(steps),)

    return asyncio.run(story())[0]


def test_what_never_gives_way_is_done_at_once() -> None:
    assert begun(counted(0, [])) == "the end"


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
        begun(broken(0))
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


def test_small_work_waits_for_those_before_it_and_not_for_long_work() -> None:
    async def story() -> None:
        for _ in range(20):
            endless = LongWork().completed(counted(10_000, []))
            tasks.append(asyncio.ensure_future(endless))
        for _ in range(PIECES_A_TURN):
            pieces().note_begun()
        small = in_turns(counted(0, []))
        assert isinstance(small, Awaitable)
        tasks.append(asyncio.ensure_future(small))
        for _ in range(4):
            await asyncio.sleep(0)
        assert tasks[-1].result() == "the end"
        for task in tasks:
            task.cancel()

    tasks: list[asyncio.Task[str]] = []
    asyncio.run(story())


def test_an_error_of_what_waited_to_begin_comes_out() -> None:
    def broken() -> Generator[None, None, str]:
        raise ZeroDivisionError
        yield

    async def story() -> None:
        for _ in range(PIECES_A_TURN):
            pieces().note_begun()
        waits = in_turns(broken())
        assert isinstance(waits, Awaitable)
        with pytest.raises(ZeroDivisionError):
            await waits

    asyncio.run(story())


def test_who_hangs_up_before_the_steps_have_ended_asked_for_nothing() -> None:
    async def story(*, begun: bool) -> None:
        seen: list[int] = []
        if not begun:
            for _ in range(PIECES_A_TURN):
                pieces().note_begun()
        underway = in_turns(counted(3, seen))
        assert isinstance(underway, Underway)
        assert seen == [0] * begun
        underway.abandon()
        for _ in range(9):
            await asyncio.sleep(0)
        assert underway.cancelled()
        assert seen == [0] * begun
        assert not pieces()

    asyncio.run(story(begun=True))
    asyncio.run(story(begun=False))


def test_what_took_effect_is_not_undone_by_who_hangs_up() -> None:
    async def story() -> None:
        durable = asyncio.get_running_loop().create_future()

        def effective() -> Generator[None, None, Awaitable[str]]:
            yield
            return durable

        underway = in_turns(effective())
        assert isinstance(underway, Underway)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        underway.abandon()
        durable.set_result("done")
        assert await underway == "done"

    asyncio.run(story())


def test_what_many_left_half_done_is_freed_some_in_a_turn_and_weighs_until_then() -> (
    None
):
    freed: list[int] = []

    async def story() -> None:
        many = 2 * FREED_A_TURN
        underway = [in_turns(half_done(number, freed)) for number in range(many)]
        while pieces().is_full:  # the last of them have not begun
            await asyncio.sleep(0)
        for one in underway:
            assert isinstance(one, Underway)
            one.abandon()
        assert freed == []
        for turn in range(1, many):
            await asyncio.sleep(0)
            assert len(freed) <= 2 * turn
            assert sum(one.done() for one in underway) <= len(freed)
        await asyncio.sleep(0)
        assert freed == list(range(many))
        assert all(one.cancelled() for one in underway)
        assert not pieces()

    asyncio.run(story())


def test_what_is_small_begins_whatever_else_does() -> None:
    async def story() -> None:
        for _ in range(PIECES_A_TURN):
            pieces().note_begun()
        assert isinstance(in_turns(counted(0, [])), Underway)
        assert in_turns(counted(0, []), at_once=True) == "the end"

    asyncio.run(story())


def test_what_waits_to_begin_does_so_however_many_small_ones_each_turn_brings() -> None:
    async def story() -> None:
        endless = asyncio.ensure_future(LongWork().completed(counted(10_000, [])))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for _ in range(PIECES_A_TURN):
            pieces().note_begun()
        waits = [in_turns(counted(0, [])) for _ in range(2 * BEGIN_A_TURN)]
        for _ in range(9):
            for _ in range(BEGIN_A_TURN):
                assert in_turns(counted(0, []), at_once=True) == "the end"
            await asyncio.sleep(0)
        assert all(isinstance(one, Underway) and one.done() for one in waits)
        endless.cancel()

    asyncio.run(story())


def test_parts_that_have_begun_end_before_what_is_cancelled_does() -> None:
    began, ended = [], []

    async def story() -> None:
        goes_on = asyncio.Event()

        async def part(number: int) -> None:
            began.append(number)
            await goes_on.wait()
            ended.append(number)

        whole = WhileHeard(side_by_side(part(n) for n in range(9 * PARTS_A_TURN)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert whole.abandon() is False  # it weighs on
        for _ in range(9):
            await asyncio.sleep(0)
        assert 0 < len(began) < 9 * PARTS_A_TURN
        assert not whole.done()
        goes_on.set()
        await asyncio.wait([whole])
        assert whole.cancelled()
        assert ended == began

    asyncio.run(story())


def test_a_result_that_comes_of_what_was_cancelled_meanwhile_is_let_go() -> None:
    async def later() -> str:
        return "nobody waits"

    async def story() -> None:
        end: asyncio.Future[Awaitable[str]] | None = None

        def steps() -> Generator[None, None, Awaitable[str]]:
            yield
            return later()

        underway = in_turns(steps())
        assert isinstance(underway, Underway)
        end = underway._end
        while not end.done():
            await asyncio.sleep(0)
        underway.cancel()  # its result is there, and nobody has heard of it yet
        await asyncio.sleep(0)
        assert underway.cancelled()

    asyncio.run(story())  # a coroutine that nobody awaits is an error of this test


def test_what_only_looks_ends_with_who_hangs_up_after_the_steps() -> None:
    looked: list[str] = []

    async def looking() -> str:
        try:
            await completed(counted(99, []))
        finally:
            looked.append("ended")
        return "seen"

    def steps() -> Generator[None, None, Awaitable[str]]:
        yield
        return WhileHeard(looking())

    async def story() -> None:
        underway = in_turns(steps())
        assert isinstance(underway, Underway)
        for _ in range(5):
            await asyncio.sleep(0)
        assert looked == []
        underway.abandon()
        await asyncio.sleep(0)
        assert looked == ["ended"]
        await asyncio.sleep(0)
        assert underway.cancelled()
        underway.abandon()

    asyncio.run(story())


def test_what_goes_on_in_turns_is_part_of_its_request() -> None:
    async def story() -> None:
        of_request = LongWork()
        found: list[LongWork] = []

        def steps() -> Generator[None, None, None]:
            found.append(work_of_request())
            yield
            found.append(work_of_request())

        with of_request.of_request():
            underway = in_turns(steps())
        assert isinstance(underway, Underway)
        await underway
        assert found == [of_request, of_request]

    asyncio.run(story())


def test_steps_of_who_is_cancelled_are_closed_at_once() -> None:
    closed: list[str] = []

    def steps() -> Generator[None, None, None]:
        try:
            yield
        finally:
            closed.append("closed")

    async def story() -> None:
        for _ in range(9 * PIECES_A_TURN):  # they have their turns first
            LongWork().later(lambda: None)
        waits = asyncio.ensure_future(completed(steps()))
        await asyncio.sleep(0)
        waits.cancel()
        await asyncio.sleep(0)
        assert closed == ["closed"]

    asyncio.run(story())


def test_a_turn_begins_only_so_many_however_short_they_are() -> None:
    async def story() -> None:
        results = [in_turns(counted(0, [])) for _ in range(BEGIN_A_TURN + 3)]
        assert results[:BEGIN_A_TURN] == ["the end"] * BEGIN_A_TURN
        later = [one for one in results if isinstance(one, Underway)]
        assert await asyncio.gather(*later) == ["the end"] * 3

    asyncio.run(story())


def test_parts_side_by_side_are_forgotten_as_they_end() -> None:
    count, most = 50 * PARTS_A_TURN, 0

    async def part(number: int) -> int:
        nonlocal most
        if number == count - 1:
            loop = asyncio.get_running_loop()
            held = (one for one in gc.get_objects() if isinstance(one, asyncio.Task))
            most = sum(one.get_loop() is loop for one in held)
        return number

    async def story() -> list[int]:
        return await side_by_side(part(number) for number in range(count))

    assert asyncio.run(story()) == list(range(count))
    assert 0 < most <= 3 * PARTS_A_TURN


def test_names_are_counted_in_turns() -> None:
    assert begun(counted_in_turns("abab")) == {"a": 2, "b": 2}
    steps = counted_in_turns([1] * (2 * COUNTED_A_TURN + 1))
    assert next(steps) is next(steps) is None
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == {1: 2 * COUNTED_A_TURN + 1}


def test_items_of_one_name_are_grouped_in_turns() -> None:
    words = ["pear", "plum", "fig"]
    groups = completed(grouped_in_turns(words, lambda word: word[0]))
    assert asyncio.run(groups) == {"p": ("pear", 2), "f": ("fig", 1)}
    steps = grouped_in_turns(range(COUNTED_A_TURN + 1), lambda _: 0)
    assert next(steps) is None
    assert turns_of(steps) == ({0: (0, COUNTED_A_TURN + 1)}, 0)


def test_a_list_is_made_in_turns() -> None:
    made = turns_of(listed_in_turns(iter(range(2 * ITEMS_A_TURN + 1))))
    assert made == (list(range(2 * ITEMS_A_TURN + 1)), 2)


def test_most_of_a_large_set_is_forgotten_in_turns() -> None:
    large = set(range(3 * COUNTED_A_TURN))
    assert turns_of(emptied_in_turns(large)) == (None, 2)
    assert len(large) == COUNTED_A_TURN
    assert turns_of(emptied_in_turns(large)) == (None, 0)


def turns_of(steps: Generator[None, None, object]) -> tuple[object, int]:
    """What they return, and how often they gave way before."""
    turns = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, turns
        turns += 1


def test_what_is_taken_out_of_groups_is_gone() -> None:
    groups = {"a": 1, "b": 2}
    taking = drained(groups)
    assert (next(taking), groups) == (1, {"b": 2})
    assert (list(taking), groups) == ([2], {})


@dataclass(slots=True)
class Named:
    names: list[object]


class Name:
    """Something that tells when it is forgotten."""


@pytest.mark.parametrize("inside", [False, True])
def test_what_a_long_list_holds_outlives_it_and_is_forgotten_in_turns(
    *, inside: bool
) -> None:
    async def story() -> None:
        many = Named([Name() for _ in range(2 * COUNTED_A_TURN + 1)])
        alive = [weakref.ref(name) for name in many.names]
        remains = Remains(Named([many]) if inside else many)
        del many
        assert all(name() for name in alive)
        left = []
        remains.forget()
        for _ in range(4):
            await asyncio.sleep(0)
            left.append(sum(name() is not None for name in alive))
        assert left == [2 * COUNTED_A_TURN, COUNTED_A_TURN, 0, 0]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("partitions", "is_few"),
    [
        ([0] * PARTS_A_TURN, True),
        ([0] * (PARTS_A_TURN + 1), False),
        ([1] * PARTS_A_TURN, True),
        ([1, PARTS_A_TURN], False),
    ],
)
def test_topics_are_few_by_their_number_and_by_that_of_their_partitions(
    *, partitions: list[int], is_few: bool
) -> None:
    topics = [SimpleNamespace(partitions=range(count)) for count in partitions]
    assert topics_are_few(topics) is is_few


def test_what_was_read_is_forgotten_in_turns_where_nobody_waits_for_it() -> None:
    def at_work(_: object, __: Context) -> Generator[None, None, None]:
        yield

    async def story() -> None:
        request = Named([Name() for _ in range(2 * COUNTED_A_TURN + 1)])
        alive = [weakref.ref(name) for name in request.names]
        reading = Reading(given(request), at_work, CONTEXT)
        del request
        assert reading.step() is reading
        reading.close()
        del reading
        left = []
        for _ in range(4):
            await asyncio.sleep(0)
            left.append(sum(name() is not None for name in alive))
        assert left == [2 * COUNTED_A_TURN, COUNTED_A_TURN, 0, 0]

    asyncio.run(story())


def test_a_large_request_is_held_until_its_handler_has_ended() -> None:
    async def story() -> None:
        ended = asyncio.Event()

        async def handled() -> str:
            await ended.wait()
            return "the end"

        request = Named([Name() for _ in range(COUNTED_A_TURN + 1)])
        last = weakref.ref(request.names[-1])
        reading = Reading(given(request), lambda *_: handled(), CONTEXT)
        del request
        handling = asyncio.ensure_future(reading.step())
        for _ in range(5):
            await asyncio.sleep(0)
        assert last() is not None
        ended.set()
        assert await handling == "the end"
        del reading
        for _ in range(3):
            await asyncio.sleep(0)
        assert last() is None

    asyncio.run(story())


async def a_while() -> str:
    for _ in range(9):
        await asyncio.sleep(0)
    return "the end"


@pytest.mark.parametrize(
    "handled", [lambda: in_turns(counted(5, [])), lambda: WhileHeard(a_while())]
)
def test_so_is_one_that_ends_with_its_connection(
    handled: Callable[[], Underway[str] | WhileHeard[str]],
) -> None:
    async def story() -> None:
        request = Named([Name() for _ in range(COUNTED_A_TURN + 1)])
        last = weakref.ref(request.names[-1])
        reading = Reading(given(request), lambda *_: handled(), CONTEXT)
        del request
        underway = reading.step()
        assert isinstance(underway, Underway | WhileHeard)
        del reading
        await asyncio.sleep(0)
        assert last() is not None
        assert await underway == "the end"
        for _ in range(3):
            await asyncio.sleep(0)
        assert last() is None

    asyncio.run(story())


def given(request: Named) -> Generator[None, None, Named]:
    yield from ()
    return request
