"""A coordinator on a real catalog, asked over the real codecs; time stands still.

``await house.ask(request, version)`` encodes the request as a client of that version
would, hands what is decoded to the handler that serves it, and gives back what a client
reads from the encoded answer. ``house.asking`` is the same as a task, for answers that
are parked.
"""

import asyncio
import inspect
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sqlalchemy import Connection

from broker.catalog import topics as stored_topics
from broker.catalog.catalog import Catalog
from broker.dispatch.context import Context
from broker.dispatch.registry import Registry
from broker.protocol.codec import (
    request_decoder,
    request_encoder,
    response_decoder,
    response_encoder,
)
from broker.runtime.coordinator import Coordinator
from broker.runtime.producer_ids import ProducerIds
from broker.runtime.topics import Topics
from broker.settings import Settings
from broker.topics.topic import Topic
from tests.support.clock import ManualClock
from tests.support.timers import ManualTimers

FLIGHTS = Topic(1, b"\x01" * 16, "flights", 3)
WEATHER = Topic(2, b"\x02" * 16, "weather", 1)


class House:
    """One broker's coordinator and what its handlers look at."""

    def __init__(self, catalog: Catalog, clock: ManualClock, **groups: int) -> None:
        ids = itertools.count(1)
        settings = Settings(groups=groups)
        self.catalog = catalog
        self.clock = clock
        self.timers = ManualTimers(clock)
        self.topics = Topics(catalog, clock)
        self.topics.load(catalog.read(stored_topics.load) or catalog.change(_create))
        self.groups = Coordinator(
            catalog,
            self.timers,
            clock,
            settings,
            self.topics,
            new_id=lambda: str(next(ids)),
        )
        self.broker = SimpleNamespace(
            settings=settings,
            clock=clock,
            timers=self.timers,
            topics=self.topics,
            groups=self.groups,
            producer_ids=ProducerIds(catalog),
            node_id=7,
            advertised=("broker.test", 9092),
        )
        self.registry = Registry.discover()

    async def ask(self, request: Any, version: int, client_id: str = "c") -> Any:
        key = int(request.API_KEY)
        served = self.registry.find(key, version)
        assert served is not None, f"{request.API_KEY.name} {version} is not served"
        context = Context(
            version=version,
            client_id=client_id,
            key=key,
            peer_host="10.0.0.1",
            broker=self.broker,  # type: ignore[arg-type]
        )
        sent = b"".join(request_encoder(key, version)(request))
        answer = served.handler(
            request_decoder(key, version)(memoryview(sent), 0), context
        )
        if inspect.isawaitable(answer):
            answer = await answer
        wire = b"".join(response_encoder(key, version)(answer))
        return response_decoder(key, version)(memoryview(wire), 0)

    async def asking(self, request: Any, version: int) -> "asyncio.Task[Any]":
        """Ask without waiting; what is ordered has happened when this returns."""
        task = asyncio.ensure_future(self.ask(request, version))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return task

    async def pass_time(self, ms: int) -> None:
        self.timers.advance(ms)
        await asyncio.sleep(0)
        await asyncio.sleep(0)


def _create(connection: Connection) -> list[Topic]:
    made = [
        stored_topics.create(connection, one.name, one.id, one.partitions, {}, 0)
        for one in (FLIGHTS, WEATHER)
    ]
    assert [topic.number for topic in made] == [FLIGHTS.number, WEATHER.number]
    return made


@asynccontextmanager
async def housed(
    folder: Path, clock: ManualClock | None = None, **groups: int
) -> AsyncIterator[House]:
    """A house on the catalog of this folder; opened again, it is the broker restarted.

    The initial rebalance delay is 0 unless the test wants one.
    """
    with Catalog.open(folder / "catalog.db") as catalog:
        groups = {"initial_rebalance_delay_ms": 0} | groups
        house = House(catalog, clock or ManualClock(), **groups)
        house.groups.load()
        yield house
        await house.groups.close()


def story(play: Callable[[], Awaitable[None]]) -> None:
    """Run one coroutine function, in ten seconds or never."""
    asyncio.run(asyncio.wait_for(_call(play), 10))


async def _call(play: Callable[[], Awaitable[None]]) -> None:
    await play()
