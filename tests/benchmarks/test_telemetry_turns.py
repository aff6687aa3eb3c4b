"""Nobody who asks which metrics it is to push holds the loop longer than 10 ms."""

import asyncio
from itertools import count
from pathlib import Path

from broker.apis._telemetry import instance_of
from broker.dispatch.context import Context
from broker.runtime.configs.layers import Kind
from tests.support.rig import rig
from tests.support.turns import callbacks_ms, check_turn, uncollected

SUBSCRIPTIONS, NAMES = 40, 2_000


def test_of_eighty_thousand_names_of_metrics(tmp_path: Path) -> None:
    numbers = count()

    async def asked() -> float:
        directory = tmp_path / str(next(numbers))
        directory.mkdir()
        async with rig(directory) as broker:
            for number in range(SUBSCRIPTIONS):
                names = ",".join(f"metric.{number}.{one}" for one in range(NAMES))
                configs = {"metrics": names}
                await broker.configs.alter(
                    (Kind.CLIENT_METRICS, f"s{number}"), lambda _, c=configs: c
                )
            context = Context(0, "c", 71, "peer", broker)
            with callbacks_ms() as turns, uncollected():
                asking = asyncio.create_task(instance_of(b"i" * 16, context))
                found = await asking  # a turn is noted when it is over
            assert len(found.subscription.metrics) == SUBSCRIPTIONS * NAMES
            return max(turns)

    check_turn("names of metrics", lambda: asyncio.run(asked()))
