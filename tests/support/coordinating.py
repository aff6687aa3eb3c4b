"""A broker whose groups are asked over the real codecs; time stands still.

``await house.ask(request, version)`` encodes the request as a client of that version
would, hands what is decoded to the handler that serves it, and gives back what a client
reads from the encoded answer. ``house.asking`` is the same as a task, for answers that
are parked.
"""

import asyncio
import inspect
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from broker.assembly import Surroundings, assemble
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
from broker.runtime.services import Broker
from broker.settings import GroupSettings, Settings, WalSettings
from broker.topics.topic import Topic
from tests.support.clock import ManualClock
from tests.support.files import ForgetfulFiles
from tests.support.new_catalog import lay_catalog
from tests.support.patience import STUCK_S
from tests.support.rig import Tables
from tests.support.timers import ManualTimers

FLIGHTS = Topic(1, b"\x01" * 16, "flights", 3)
WEATHER = Topic(2, b"\x02" * 16, "weather", 1)


class House:
    """One broker's coordinator and what its handlers look at."""

    def __init__(self, broker: Broker, clock: ManualClock, timers: ManualTimers):
        self.broker = broker
        self.catalog = broker.catalog
        self.clock = clock
        self.timers = timers
        self.topics = broker.topics
        self.groups = broker.groups
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
            broker=self.broker,
        )
        sent = bytearray().join(request_encoder(key, version)(request))
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
    with Catalog.open(lay_catalog(folder)) as catalog:
        if not catalog.read(stored_topics.load):
            catalog.change(_create)
    clock, ids = clock or ManualClock(), itertools.count(1)
    timers = ManualTimers(clock)
    settings = Settings(
        data_dir=folder,
        node_id=7,
        wal=WalSettings(segment_bytes=1 << 20),
        groups=GroupSettings(**({"initial_rebalance_delay_ms": 0} | groups)),
    )
    around = Surroundings(
        asyncio.get_running_loop(),
        ForgetfulFiles(),
        clock,
        timers,
        lambda _: Tables(),
        new_member_id=lambda: str(next(ids)),
    )
    async with AsyncExitStack() as ends:
        broker = assemble(settings, around, ends).broker
        broker.advertised = ("broker.test", 9092)
        yield House(broker, clock, timers)
        await broker.transactions.close()
        await broker.groups.close()


def story(play: Callable[[], Awaitable[None]]) -> None:
    """Run one coroutine function to its end."""
    asyncio.run(asyncio.wait_for(_call(play), STUCK_S))


async def _call(play: Callable[[], Awaitable[None]]) -> None:
    await play()
