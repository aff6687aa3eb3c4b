"""Changes of groups gather, keep their order, and are shown once they are durable."""

import asyncio
from concurrent.futures import Future

import pytest

from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.coordinator_writes import GroupWrites
from tests.support.coordinating import story


class HeldCatalog:
    """A catalog that carries a change out and keeps its commit back."""

    def __init__(self) -> None:
        self.held: list[Future] = []

    def submit(self, change) -> Future:
        change(None)
        self.held.append(Future())
        return self.held[-1]


def test_changes_gather_and_are_shown_in_order_when_they_are_durable():
    async def play():
        catalog, made, shown = HeldCatalog(), [], []
        writes = GroupWrites(catalog)

        def write(number: int) -> asyncio.Future:
            return writes.write(
                lambda _: made.append(number), lambda: shown.append(number)
            )

        changes = [write(number) for number in range(5)]
        assert (made, shown) == ([0], [])
        catalog.held[0].set_result(None)
        await changes[0]
        assert (made, shown) == ([0, 1, 2, 3, 4], [0])
        assert not any(change.done() for change in changes[1:])
        catalog.held[1].set_result(None)
        await writes.settled()
        assert shown == [0, 1, 2, 3, 4]
        assert len(catalog.held) == 2

    story(play)


def test_what_is_shown_may_ask_for_the_next_change():
    async def play():
        catalog, made = HeldCatalog(), []
        writes = GroupWrites(catalog)

        def and_then(number: int) -> asyncio.Future:
            return writes.write(
                lambda _: made.append(number),
                lambda: writes.write(lambda _: made.append(number * 10)),
            )

        changes = [and_then(number) for number in (1, 2, 3)]
        for at, wanted in enumerate([[1], [1, 2, 3, 10], [1, 2, 3, 10, 20, 30]]):
            assert (len(catalog.held), made) == (at + 1, wanted)
            catalog.held[at].set_result(None)
            await asyncio.sleep(0.01)
        assert all(change.done() for change in changes)
        await writes.settled()
        assert len(catalog.held) == 3

    story(play)


def test_a_failure_fails_who_gathered_shows_nothing_and_the_next_may_succeed():
    async def play():
        catalog, shown = HeldCatalog(), []
        writes = GroupWrites(catalog)
        failed = writes.write(lambda _: None, lambda: shown.append(1))
        later = writes.write(lambda _: None, lambda: shown.append(2))
        catalog.held[0].set_exception(OSError("disk full"))
        with pytest.raises(KafkaError, match="disk full") as told:
            await failed
        assert told.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        catalog.held[1].set_result(None)
        await later
        assert shown == [2]

    story(play)
