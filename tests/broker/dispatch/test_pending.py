"""One waiter, told at once."""

import asyncio

import pytest

from broker.dispatch.pending import Pending, PendingBytes
from tests.support.patience import IDLE_S


def test_the_waiter_is_told_in_the_same_step() -> None:
    pending: Pending[str] = Pending()
    told: list[str] = []
    pending.add_done_callback(lambda one: told.append(one.result()))
    assert not pending.done()
    pending.set_result("there")
    assert told == ["there"]
    assert pending.done()


def test_who_comes_late_is_told_at_once() -> None:
    pending: Pending[str] = Pending()
    pending.set_exception(ValueError("refused"))
    told: list[Pending[str]] = []
    pending.add_done_callback(told.append)
    assert told == [pending]
    with pytest.raises(ValueError, match="refused"):
        pending.result()


def test_it_can_be_awaited_before_and_after() -> None:
    async def story() -> None:
        pending: Pending[int] = Pending()
        asyncio.get_running_loop().call_soon(pending.set_result, 7)
        assert await asyncio.wait_for(pending, IDLE_S) == 7
        assert await pending == 7

    asyncio.run(story())


def test_whoever_awaited_may_go_away() -> None:
    async def story() -> None:
        pending: Pending[int] = Pending()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(pending, 0.01)
        pending.set_result(7)

    asyncio.run(story())


def test_a_response_comes_once_and_to_one() -> None:
    pending: Pending[int] = Pending()
    pending.add_done_callback(lambda _: None)
    with pytest.raises(AssertionError, match="one waits"):
        pending.add_done_callback(lambda _: None)
    pending.set_result(1)
    with pytest.raises(AssertionError, match="once"):
        pending.set_result(2)


def test_an_answer_in_bytes_is_told_as_such_and_is_the_result() -> None:
    told: list[bytes | None] = []
    for at_once in (False, True):
        pending = PendingBytes()
        if at_once:
            pending.set_answer(b"whole")
        pending.add_done_callback(lambda one: told.append(one.answer))  # type: ignore[attr-defined]
        if not at_once:
            pending.set_answer(b"whole")
        assert pending.result() == b"whole"
        with pytest.raises(AssertionError):
            pending.set_answer(b"again")
    assert told == [b"whole", b"whole"]


def test_who_waits_for_bytes_may_get_another_response() -> None:
    pending = PendingBytes()
    pending.set_result("refused")
    assert (pending.answer, pending.result()) == (None, "refused")
