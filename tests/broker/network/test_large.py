"""Requests and answers that are read and written in turns of the loop."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Generator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import Reading, in_turns
from broker.network.blocks import READ_BYTES
from broker.network.large import LargeRequest
from broker.protocol.api_keys import ApiKey
from broker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from broker.runtime.budget import Budget
from broker.runtime.process.long_work import FREED_A_TURN, LongWork, pieces
from tests.support.beats import Beats, beat
from tests.support.clock import ManualClock
from tests.support.half_done import half_done
from tests.support.serving import Serving, on_loop, serving, until
from tests.support.timers import ManualTimers
from tests.support.wire import Wire, frame_of

NAMES = 5_000
KEY, VERSION = int(ApiKey.METADATA), 12
asked: list[int] = []


@serves(ApiKey.METADATA, versions=(0, 13))
def metadata(request: MetadataRequest, _: Context) -> MetadataResponse:
    """As many topics as the request has; one that names fewer answers for many."""
    topics = request.topics or []
    asked.append(len(topics))
    names = [topic.name for topic in topics if topic.name is not None]
    many = names if len(names) > 1 else [str(n) for n in range(NAMES)]
    return MetadataResponse(topics=[MetadataResponseTopic(name=name) for name in many])


@serves(ApiKey.METADATA, versions=(0, 13))
def short_metadata(_request: MetadataRequest, _: Context) -> MetadataResponse:
    return MetadataResponse()


taken: list[str] = []


def take_in_turns(
    request: MetadataRequest, context: Context
) -> Generator[None, None, MetadataResponse]:
    """As a write of many parts: a few in each turn."""
    for at, topic in enumerate(request.topics or [], 1):
        taken.append(str(topic.name))
        if at % 100 == 0:
            yield
    return take(request, context)


def take(request: MetadataRequest, _: Context) -> MetadataResponse:
    """As a write of few parts."""
    names = [str(topic.name) for topic in request.topics or []]
    taken.extend(names if len(names) <= 500 else [])
    return MetadataResponse()


take.__name__ = "metadata"
write = serves(
    ApiKey.METADATA, versions=(0, 13), pipelined=True, in_turns=take_in_turns
)(take)


def request_of(count: int) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name=str(n)) for n in range(count)])


def test_a_large_request_is_read_and_answered_and_what_follows_waits() -> None:
    async def story() -> None:
        beats = Beats()
        async with serving([metadata, beats.handler]) as server:
            wire = await Wire.open(server.address)
            wire.send(
                frame_of(request_of(NAMES), VERSION, 1),
                beat("at once", 2),
                frame_of(request_of(1), VERSION, 3),
                frame_of(request_of(NAMES), VERSION, 4),
                beat("at once", 5),
            )
            for correlation_id in (1, 2, 3, 4, 5):
                if correlation_id in (2, 5):
                    assert await wire.correlation_ids(1) == [correlation_id]
                    continue
                found, response = await wire.response(KEY, VERSION)
                assert found == correlation_id
                names = [topic.name for topic in response.topics]
                assert names == [str(n) for n in range(NAMES)]
            assert server.hub.answering.taken == 0

    on_loop(story)


def test_an_answer_of_any_size_leaves() -> None:
    async def story() -> None:
        async with serving([metadata]) as server:
            wire = await Wire.open(server.address)
            for count in (2, 499, 500, 501, 502, 700, 1_001, 1_002, 1_003, 1_600):
                response = await wire.ask(request_of(count), VERSION)
                assert len(response.topics) == count

    on_loop(story)


def test_others_are_served_while_a_large_request_is_read() -> None:
    async def story() -> None:
        beats = Beats()
        asked.clear()
        async with serving([metadata, beats.handler]) as server:
            large, small = [await Wire.open(server.address) for _ in range(2)]
            small.send(beat("at once", 1))
            await small.correlation_ids(1)
            large.send(frame_of(request_of(50_000), VERSION, 1))
            await until(lambda: server.hub.answering.taken > 0)
            small.send(beat("at once", 2))
            assert await small.correlation_ids(1) == [2]
            assert asked == []  # it is still being read
            await large.response(KEY, VERSION)
            assert asked == [50_000]

    on_loop(story)


def test_a_large_request_that_is_none_closes_its_connection_alone() -> None:
    async def story() -> None:
        beats = Beats()
        async with serving([metadata, beats.handler]) as server:
            bad, well = [await Wire.open(server.address) for _ in range(2)]
            frame = bytearray(frame_of(request_of(NAMES), VERSION, 1))
            end = frame.rfind(b"4999")
            frame[end - 1] = 0xFF  # the last name claims to be longer than the frame
            bad.send(bytes(frame))
            assert await bad.closed()
            well.send(beat("at once", 1))
            assert await well.correlation_ids(1) == [1]
            assert server.hub.answering.taken == 0

    on_loop(story)


def test_a_connection_that_is_lost_gives_back_what_its_request_took() -> None:
    async def story() -> None:
        asked.clear()
        async with serving([metadata]) as server:
            wire = await Wire.open(server.address)
            wire.send(frame_of(request_of(50_000), VERSION, 1))
            await until(lambda: server.hub.answering.taken > 0)
            next(iter(server.hub.connections)).abort()
            await until(lambda: not server.hub.connections)
            await until(lambda: server.hub.answering.taken == 0)
            await asyncio.sleep(0.01)
            assert asked == []

    on_loop(story)


@asynccontextmanager
async def many_others_at_work() -> AsyncIterator[None]:
    """One that comes meanwhile is read a piece in two thousand turns."""

    def endless() -> Generator[None, None, None]:
        while True:
            yield

    others = [
        asyncio.ensure_future(LongWork().completed(endless())) for _ in range(2_000)
    ]
    try:
        yield
    finally:
        for other in others:
            other.cancel()


def test_who_hangs_up_while_a_large_request_is_read_asked_for_nothing() -> None:
    async def story() -> None:
        asked.clear()
        async with serving([metadata]) as server, many_others_at_work():
            wire = await Wire.open(server.address)
            wire.send(frame_of(request_of(50_000), VERSION, 1))
            await until(lambda: server.hub.answering.taken > 0)
            wire.close()
            await until(lambda: not server.hub.connections)
            await until(lambda: server.hub.answering.taken == 0)
        assert asked == []

    on_loop(story)


async def large_with_beats_behind(server: Serving) -> tuple[Wire, int]:
    """A client that sent a large request and ten thousand small ones, when no more of
    them is read; and how long the large one is."""
    wire = await Wire.open(server.address)
    large = frame_of(request_of(NAMES), VERSION, 1)
    wire.send(large, *[beat("at once", 2)] * 10_000)
    [connection] = server.hub.connections
    await until(lambda: connection.reading_paused)  # type: ignore[attr-defined]
    return wire, len(large)


def test_of_what_comes_behind_a_large_request_that_is_read_little_is_taken() -> None:
    async def story() -> None:
        beats = Beats()
        async with serving([metadata, beats.handler]) as server:
            async with many_others_at_work():
                wire, large_bytes = await large_with_beats_behind(server)
                [connection] = server.hub.connections
                more = connection.bytes_in - large_bytes  # type: ignore[attr-defined]
                assert more <= 2 * READ_BYTES
                assert beats.started == []
            assert (await wire.response(KEY, VERSION))[0] == 1
            assert await wire.correlation_ids(10_000) == [2] * 10_000

    on_loop(story)


def test_what_comes_behind_a_large_request_without_an_answer_is_read_on() -> None:
    """As a Produce with acks=0: there is nothing to send that would have it read on."""

    @serves(ApiKey.METADATA, versions=(0, 13))
    def silent_metadata(_request: MetadataRequest, _: Context) -> None:
        return None

    async def story() -> None:
        beats = Beats()
        async with serving([silent_metadata, beats.handler]) as server:
            async with many_others_at_work():
                wire, _ = await large_with_beats_behind(server)
                assert beats.started == []
            assert await wire.correlation_ids(10_000) == [2] * 10_000

    on_loop(story)


@pytest.mark.parametrize("handler", [metadata, short_metadata])
def test_who_stops_within_a_frame_is_answered_the_large_one_before_it(
    handler: Any,
) -> None:
    async def story() -> None:
        timers = ManualTimers(ManualClock())
        async with serving([handler], timers=timers, half_frame_ms=1_000) as server:
            async with many_others_at_work():
                wire = await Wire.open(server.address)
                wire.send(frame_of(request_of(NAMES), VERSION, 1), struct.pack(">i", 9))
                [connection] = server.hub.connections
                await until(lambda: server.hub.answering.taken > 0)
                await until(lambda: connection._receiver.waits_for_more)  # type: ignore[attr-defined]
                timers.advance(2_000)
                assert connection._refused  # type: ignore[attr-defined]
            assert (await wire.response(KEY, VERSION))[0] == 1
            assert await wire.closed()

    on_loop(story)


def test_what_many_left_half_read_is_freed_some_in_a_turn_and_weighs_until_then() -> (
    None
):
    freed: list[int] = []
    freed_when_given: list[int] = []

    class Watched(Budget):
        def give(self, size: int) -> None:
            freed_when_given.append(len(freed))
            super().give(size)

    async def story() -> None:
        many, budget = 2 * FREED_A_TURN, Watched(1)
        hub: Any = SimpleNamespace(budget_of=lambda _: budget)
        read: Any = SimpleNamespace(is_write=False)
        large = []
        for half in (half_done(number, freed) for number in range(many)):
            next(half)
            reading = Reading(half, metadata, hub)
            large.append(LargeRequest(hub, hub, read, 1, 10, reading))
        del half, reading
        for request in large:
            request.abandon()
        assert freed == []
        for turn in range(1, many + 1):
            await asyncio.sleep(0)
            assert len(freed) <= 2 * turn
            assert budget.taken == 10 * (many - len(freed))
        assert freed == list(range(many))
        assert freed_when_given == [number + 1 for number in freed]
        while pieces():
            await asyncio.sleep(0)

    on_loop(story)


def test_no_write_starts_before_all_of_a_large_one_has_its_place() -> None:
    async def story() -> None:
        taken.clear()
        async with serving([write]) as server:
            wire = await Wire.open(server.address)
            wire.send(
                frame_of(request_of(3), VERSION, 1),
                frame_of(request_of(NAMES), VERSION, 2),
                frame_of(request_of(2), VERSION, 3),
                frame_of(request_of(NAMES), VERSION, 4),
            )
            assert await wire.correlation_ids(4) == [1, 2, 3, 4]
            counts = (3, NAMES, 2, NAMES)
            assert taken == [str(n) for count in counts for n in range(count)]
            assert server.hub.producing.taken == 0

    on_loop(story)


def test_a_large_write_whose_connection_is_lost_takes_all_of_its_effect() -> None:
    async def story() -> None:
        taken.clear()
        async with serving([write]) as server:
            wire = await Wire.open(server.address)
            wire.send(frame_of(request_of(50_000), VERSION, 1))
            await until(lambda: 0 < len(taken) < 50_000)
            next(iter(server.hub.connections)).abort()
            await until(lambda: not server.hub.connections)
            await until(lambda: server.hub.producing.taken == 0)
            assert taken == [str(n) for n in range(50_000)]

    on_loop(story)


def test_a_large_request_is_answered_before_those_behind_it_are_all_read() -> None:
    """What was read is many times its frame; who was read first goes on to its end."""
    read_at_ends: list[int] = []
    read = 0

    def look_up() -> Generator[None, None, MetadataResponse]:
        for _ in range(40):
            yield
        read_at_ends.append(read)
        return MetadataResponse()

    @serves(ApiKey.METADATA, versions=(0, 13))
    def long_metadata(
        _request: MetadataRequest, _context: Context
    ) -> MetadataResponse | Awaitable[MetadataResponse]:
        nonlocal read
        read += 1
        return in_turns(look_up())

    async def story() -> None:
        async with serving([long_metadata]) as server:
            wires = [await Wire.open(server.address) for _ in range(30)]
            for wire in wires:
                wire.send(frame_of(request_of(NAMES), VERSION, 1))
            for wire in wires:
                assert await wire.correlation_ids(1) == [1]
                wire.close()

    on_loop(story)
    assert len(read_at_ends) == 30
    assert read_at_ends[0] <= 6
    assert sum(read_at_ends) <= 25 * 30
