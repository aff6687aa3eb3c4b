"""A listener on a free port, with handlers of a test's own."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import uvloop

from broker.apis.api_versions import api_versions
from broker.clock import SystemClock
from broker.dispatch.dispatcher import Dispatcher
from broker.dispatch.registry import Registry
from broker.network.hub import Hub
from broker.network.listener import Listener
from broker.runtime.loop_timers import Timers
from broker.runtime.status import Counters
from broker.settings import NetworkSettings


class Serving:
    """What a test may look at."""

    def __init__(self, hub: Hub, listener: Listener, address: tuple[str, int]) -> None:
        self.hub, self.listener, self.address = hub, listener, address


@asynccontextmanager
async def serving(
    handlers: Iterable[Callable[..., Any]] = (), **limits: Any
) -> AsyncIterator[Serving]:
    loop, clock = asyncio.get_running_loop(), SystemClock()
    registry = Registry(h.__dict__["served"] for h in (api_versions, *handlers))
    hub = Hub(
        Dispatcher(registry, broker=None),
        NetworkSettings(**limits),
        loop=loop,
        clock=clock,
        timers=Timers(loop, clock),
        counters=Counters(),
    )
    listener = Listener(hub)
    yield Serving(hub, listener, await listener.start("127.0.0.1", 0))
    listener.close()
    await listener.drain(0)
    hub.timers.close()


def on_loop(story: Callable[[], Any]) -> None:
    """Run a story on the loop that the broker uses."""
    uvloop.run(asyncio.wait_for(story(), 30))
