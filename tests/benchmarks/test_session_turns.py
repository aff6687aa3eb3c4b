"""No turn of the loop is long for a fetch session of ten thousand partitions."""

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.apis.produce import produce
from broker.runtime.services import Broker
from tests.support.fetching import BY_ID, BY_NAME, SessionClient, answered
from tests.support.rig import (
    ENDLESS_MS,
    batch_of,
    call,
    create,
    produce_request,
    rig,
    run,
)
from tests.support.turns import ASKED, BUDGET_MS, Longest, callbacks_ms, uncollected

COUNT = 10_000
ROUNDS = 20


@contextmanager
def measured(longest: Longest, kind: str) -> Iterator[None]:
    with uncollected(), callbacks_ms() as turns:
        yield
    longest.note(kind, turns or [0.0])


async def append_everywhere(broker: Broker) -> None:
    entries = [(index, batch_of(b"x")) for index in range(COUNT)]
    await call(produce, produce_request("t", *entries), broker, 9)


async def live(broker: Broker, client: SessionClient, longest: Longest) -> None:
    """What happens to a session, each with its longest turn."""
    ends = [broker.partitions.named("t", i).high_watermark for i in range(COUNT)]
    with measured(longest, "open"):
        assert len(await client.fetch(*enumerate(ends))) == COUNT
    # All of them: who has enough with some is answered while others are written.
    whole = COUNT * len(batch_of(b"x"))
    waiting = client.start(max_wait_ms=ENDLESS_MS, min_bytes=whole)
    with measured(longest, "wait"):
        while not len(broker.purgatory):
            await asyncio.sleep(0)
    with measured(longest, "wake"):
        await append_everywhere(broker)
        found = answered(client.heard(await waiting))
    assert len(found) == COUNT
    with measured(longest, "go on"):
        ends = [end + 1 for end in ends]
        assert await client.fetch(*enumerate(ends)) == {}
    with measured(longest, "forget"):
        left = tuple(range(1, COUNT, 2))
        assert await client.fetch(forgotten=left) == {}
    with measured(longest, "close"):
        broker.fetch_sessions.remove(client.session_id)
        while any(one.watchers for one in broker.partitions):
            await asyncio.sleep(0)
    client.session_id = client.epoch = 0


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_a_session_of_thousands_holds_no_turn(tmp_path: Path, version: int) -> None:
    async def scenario() -> None:
        longest = Longest()
        async with rig(tmp_path, hot_bytes=64 << 20) as broker:
            await create(broker, "t", partitions=COUNT)
            client = SessionClient(broker, "t", version)
            for _ in range(ASKED):
                await live(broker, client, longest)
                if longest.is_below(BUDGET_MS):
                    break
        longest.check(f"session v{version}")

    run(scenario)


def test_a_fetch_costs_the_same_in_a_small_session_and_in_a_large_one(
    tmp_path: Path,
) -> None:
    """One partition has something, the others rest."""

    async def scenario() -> None:
        costs = {}
        async with rig(tmp_path) as broker:
            await create(broker, "t", partitions=COUNT)
            await call(produce, produce_request("t", (7, batch_of(b"x"))), broker, 9)
            for size in (10, COUNT):
                client = SessionClient(broker, "t")
                places = [(index, int(index == 7)) for index in range(size)]
                await client.fetch(*places)
                await client.fetch()
                await client.fetch((7, 0))
                costs[size] = min([await cost_us(client) for _ in range(ROUNDS)])
        small, large = costs.values()
        sys.stdout.write(f"a fetch of 10: {small:.0f} us, of {COUNT}: {large:.0f} us\n")
        assert large < 5 * small, "it looks at what rests"

    run(scenario)


async def cost_us(client: SessionClient) -> float:
    """Processor microseconds of a fetch, over a hundred."""
    with uncollected():
        began = time.thread_time()
        for _ in range(100):
            assert list(await client.fetch()) == [7]
        return (time.thread_time() - began) * 10_000
