"""A waiting fetch of a session: what it looks at, and what it is registered for."""

import asyncio
from pathlib import Path

import pytest

from broker.apis import _fetch_sessions
from broker.apis.produce import produce
from broker.protocol.errors import ErrorCode
from broker.runtime.partitions.reads import TURN_PLACES
from broker.runtime.services import Broker
from tests.support.fetching import SessionClient, answered
from tests.support.rig import (
    ENDLESS_MS,
    batch_of,
    call,
    create,
    produce_one,
    produce_request,
    rig,
    run,
)

COUNT = 2_000


async def following(broker: Broker, count: int) -> SessionClient:
    """A client that has read all of a topic of so many empty partitions."""
    await create(broker, "t", partitions=count)
    client = SessionClient(broker, "t")
    await client.fetch(*[(index, 0) for index in range(count)])
    await client.fetch()
    return client


def test_of_thousands_a_fetch_looks_at_what_moved_and_waits_for_one_thing(
    tmp_path: Path,
) -> None:
    """However many partitions a session has, each fetch costs the same."""

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            client = await following(broker, COUNT)
            looked_at: list[int] = []
            find = _fetch_sessions.find_place
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(
                    _fetch_sessions,
                    "find_place",
                    lambda place, of, *more: (
                        looked_at.append(of.asked.partition) or find(place, of, *more)  # type: ignore[func-returns-value]
                    ),
                )
                waiting = client.start(max_wait_ms=ENDLESS_MS)
                (operation,) = broker.purgatory.operations()
                assert len(operation.keys) == 1
                await produce_one(broker, "t", batch_of(b"x"), partition=7)
                assert list(answered(client.heard(await waiting))) == [7]
                waiting = client.start((7, 1), max_wait_ms=ENDLESS_MS)
                (operation,) = broker.purgatory.operations()
                assert len(operation.keys) == 1  # its end is known: it rests
                await produce_one(broker, "t", batch_of(b"x"), partition=9)
                assert list(answered(client.heard(await waiting))) == [9]
            assert looked_at == [7, 7, 9]

    run(scenario)


def test_more_than_a_turn_can_wake_while_a_fetch_waits(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            count = 2 * TURN_PLACES + 3
            client = await following(broker, count)
            waiting = client.start(max_wait_ms=ENDLESS_MS, min_bytes=1 << 20)
            for index in reversed(range(count)):
                await produce_one(broker, "t", batch_of(b"x"), partition=index)
            assert not waiting.done()
            waiting.cut_short()
            found = answered(client.heard(await waiting))
            assert list(found) == list(range(count))
            assert all(one.records for one in found.values())

    run(scenario)


def test_what_wakes_at_once_is_enough_together_though_no_turn_takes_it_all(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            count = 2 * TURN_PLACES + 3
            client = await following(broker, count)
            enough = count * len(batch_of(b"x"))
            waiting = client.start(max_wait_ms=ENDLESS_MS, min_bytes=enough)
            everywhere = [(index, batch_of(b"x")) for index in range(count)]
            await call(produce, produce_request("t", *everywhere), broker, 12)
            async with asyncio.timeout(30):
                found = answered(client.heard(await waiting))
            assert all(found[index].records for index in range(count))

    run(scenario)


def test_an_error_that_wakes_answers_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"a", b"b"))
            client = SessionClient(broker, "t")
            await client.fetch((0, 2))
            await client.fetch()
            waiting = client.start(max_wait_ms=ENDLESS_MS, min_bytes=1 << 20)
            partition.log.offsets.move(next_offset=9)
            await broker.partitions.raise_log_starts({partition: 1})
            await asyncio.sleep(0)
            assert not waiting.done()  # it is still within the log
            waiting.cut_short()
            client.heard(await waiting)
            await client.fetch((0, 0))
            found = await client.fetch(max_wait_ms=ENDLESS_MS)
            assert found[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    run(scenario)


def test_a_fetch_that_is_superseded_while_it_begins_in_turns_is_refused(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            count = 3 * TURN_PLACES
            await create(broker, "t", partitions=count)
            client = SessionClient(broker, "t")
            everything = [(index, 0) for index in range(count)]
            await client.fetch(*everything)
            for turns in range(9):
                first = client.start(*everything, max_wait_ms=ENDLESS_MS)
                for _ in range(turns):
                    await asyncio.sleep(0)
                assert await client.fetch() == {}
                response = await first
                code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
                assert response.error_code == code

    run(scenario)
