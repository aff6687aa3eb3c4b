"""A listener on a free port, with handlers of a test's own."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import uvloop

from broker.apis.api_versions import api_versions
from broker.clock import Clock, SystemClock
from broker.dispatch.dispatcher import Dispatcher
from broker.dispatch.registry import Registry
from broker.network.hub import Hub
from broker.network.listener import Listener
from broker.protocol.api_keys import ApiKey
from broker.runtime.configs.features import Features
from broker.runtime.process.loop_timers import LoopTimers
from broker.runtime.process.status import Counters
from broker.runtime.services import Broker
from broker.settings import NetworkSettings
from tests.support.patience import STUCK_S
from tests.support.timers import ManualTimers
from tests.support.wire import hang_up

FEATURED: Any = SimpleNamespace(features=Features(None, 1))  # type: ignore[arg-type]
"""What ApiVersions looks at, where there is no broker."""


class Serving:
    """What a test may look at."""

    def __init__(self, hub: Hub, listener: Listener, address: tuple[str, int]) -> None:
        self.hub, self.listener, self.address = hub, listener, address


@asynccontextmanager
async def serving(
    handlers: Iterable[Callable[..., Any]] = (),
    broker: Broker | None = None,
    timers: ManualTimers | None = None,
    **limits: Any,
) -> AsyncIterator[Serving]:
    """Serve ``handlers``; with a broker its own ones, too, where none is given.

    With ``timers`` time passes when the test says so, and not by itself.
    """
    loop = asyncio.get_running_loop()
    clock: Clock = SystemClock() if timers is None else timers.clock
    running = LoopTimers(loop, clock) if timers is None else timers
    own = Registry.discover().by_key if broker is not None else {}
    given = {h.__dict__["served"].key: h.__dict__["served"] for h in handlers}
    served = {ApiKey.API_VERSIONS: api_versions.__dict__["served"], **own, **given}
    hub = Hub(
        Dispatcher(Registry(served.values()), broker or FEATURED),
        NetworkSettings(**limits),
        loop=loop,
        clock=clock,
        timers=running,
        counters=Counters(),
    )
    listener = Listener(hub)
    try:
        yield Serving(hub, listener, await listener.start("127.0.0.1", 0))
    finally:  # or a story that failed does not end
        listener.close()
        await listener.drain(0)
        if isinstance(running, LoopTimers):
            running.close()


async def until(true: Callable[[], bool]) -> None:
    """Let the loop turn until this is true; the story's own limit ends it."""
    while not true():
        await asyncio.sleep(0.001)


def on_loop(story: Callable[[], Any]) -> None:
    """Run a story on the loop that the broker uses, and close its connections."""

    async def whole() -> None:
        try:
            await asyncio.wait_for(story(), STUCK_S)
        finally:
            await hang_up()

    uvloop.run(whole())
