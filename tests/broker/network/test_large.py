"""Requests and answers that are read and written in turns of the loop."""

import asyncio
from collections.abc import Awaitable, Generator

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import in_turns
from broker.protocol.api_keys import ApiKey
from broker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tests.support.beats import Beats, beat
from tests.support.serving import on_loop, serving, until
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
