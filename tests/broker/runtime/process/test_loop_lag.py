"""How late the loop is, when something holds it up."""

import asyncio
import time

from broker.runtime.process import loop_lag
from broker.runtime.process.loop_lag import LoopLag
from broker.status.histogram import TIMES, Histogram


def test_a_turn_that_takes_long_is_counted_as_that_long(monkeypatch) -> None:
    monkeypatch.setattr(loop_lag, "INTERVAL_S", 0.01)
    histogram = Histogram(TIMES)

    async def story() -> None:
        lag = LoopLag(asyncio.get_running_loop(), histogram)
        lag.start()
        while not sum(histogram.state().buckets):
            await asyncio.sleep(0.001)
        time.sleep(0.3)  # somebody holds the loop up for so long, at least
        before = sum(histogram.state().buckets)
        while sum(histogram.state().buckets) == before:
            await asyncio.sleep(0.001)
        lag.close()
        counted = histogram.state()
        await asyncio.sleep(0.05)
        assert histogram.state() == counted

    asyncio.run(story())
    assert histogram.state().total >= 0.28 * 1e9
