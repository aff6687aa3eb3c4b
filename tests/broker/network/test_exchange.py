"""A place in the line: done with an answer, or with nothing to send."""

import asyncio
import struct
from typing import Any

from broker.apis.api_versions import api_versions
from broker.dispatch.dispatcher import Route
from broker.network.exchange import Exchange
from broker.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse

ROUTE = Route(api_versions.__dict__["served"], 0)


class Owner:
    def __init__(self) -> None:
        self.told: list[tuple[Exchange, object]] = []

    def finished(self, exchange: Exchange, future: object) -> None:
        self.told.append((exchange, future))

    def written(self, exchange: Exchange, error: Exception | None) -> None:
        self.told.append((exchange, error))


def test_it_tells_its_connection_when_the_handler_is_done() -> None:
    owner, future = Owner(), object()
    exchange = Exchange(owner, ROUTE, 7, 100)
    exchange(future)
    assert owner.told == [(exchange, future)]


def test_a_large_answer_is_written_in_turns_and_told_when_it_is_whole() -> None:
    async def story() -> None:
        owner = Owner()
        exchange = Exchange(owner, ROUTE, 7, 100)
        versions = [ApiVersion(key) for key in range(2_000)]
        exchange.complete(ApiVersionsResponse(0, versions))
        assert not exchange.done
        while not owner.told:
            await asyncio.sleep(0)
        assert owner.told == [(exchange, None)]
        assert exchange.size == 4 + 4 + 2 + 4 + 6 * 2_000

    asyncio.run(story())


def test_a_large_answer_that_cannot_be_written_is_told() -> None:
    async def story() -> None:
        owner = Owner()
        exchange = Exchange(owner, ROUTE, 7, 100)
        versions = [ApiVersion(key) for key in range(2_000)]
        versions.append(ApiVersion(1 << 20))  # does not fit its field
        exchange.complete(ApiVersionsResponse(0, versions))
        while not owner.told:
            await asyncio.sleep(0)
        assert isinstance(owner.told[0][1], struct.error)
        assert not exchange.done

    asyncio.run(story())


def test_an_answer_that_nobody_waits_for_is_written_no_further() -> None:
    read: list[int] = []

    class Noted(ApiVersion):
        """Notes that it was encoded."""

        def __getattribute__(self, name: str) -> Any:
            if name == "api_key":
                read.append(1)
            return super().__getattribute__(name)

    async def story() -> None:
        owner = Owner()
        exchange = Exchange(owner, ROUTE, 7, 100)
        noted: list[ApiVersion] = [Noted(key) for key in range(5_000)]
        exchange.complete(ApiVersionsResponse(0, noted))
        written = len(read)
        exchange.abandon()
        for _ in range(20):
            await asyncio.sleep(0)
        assert 0 < written == len(read) < 5_000
        assert not owner.told
        assert not exchange.done

    asyncio.run(story())


def test_an_answer_is_encoded_when_it_is_there() -> None:
    exchange = Exchange(Owner(), ROUTE, 7, 100)
    assert not exchange.done
    exchange.complete(ApiVersionsResponse())
    assert exchange.done
    sent = b"".join(map(bytes, exchange.parts))
    assert sent == b"\0\0\0\x0a\0\0\0\x07\0\0\0\0\0\0"
    assert exchange.size == len(sent)


def test_nothing_to_send_is_done_too() -> None:
    exchange = Exchange(Owner(), ROUTE, 7, 100)
    exchange.complete(None)
    assert exchange.done
    assert exchange.parts == []
    assert exchange.size == 0
