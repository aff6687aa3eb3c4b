"""What the status says that a broker keeps and that waits in it."""

from pathlib import Path

from broker.apis.fetch import fetch
from broker.apis.produce import produce
from broker.lake.cold import ColdFigures
from broker.runtime.process.sizes import sized
from broker.status.histogram import TIMES, Histogram
from broker.status.schema import BrokerStatus
from tests.support.rig import (
    SEGMENT_BYTES,
    batch_of,
    call,
    create,
    fetch_request,
    produce_one,
    produce_request,
    rig,
    run,
    start,
)

COLD = ColdFigures(Histogram(TIMES).state(), 1, 2, 3, 4)


def test_what_is_kept_is_counted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            before = sized(BrokerStatus(counters={"x": 5}), broker, COLD, 6)
            assert before.counters == {
                "x": 5,
                "cold_bytes_out_total": 1,
                "cold_cache_hits_total": 2,
                "cold_cache_misses_total": 3,
                "fetch_sessions_evicted_total": 0,
            }
            assert before.cache.cold_bytes == 4
            assert before.fetch_sessions.open == before.fetch_sessions.bytes == 0
            assert before.queue.request_bytes == 6
            await produce_one(broker, "t", batch_of(b"v"))
            request = fetch_request("t", (0, 0), session_epoch=0)
            assert (await call(fetch, request, broker, 12)).session_id
            after = sized(BrokerStatus(), broker, COLD, 0)
            assert after.cache.hot_bytes >= SEGMENT_BYTES
            assert after.fetch_sessions.open == 1
            assert after.fetch_sessions.bytes > 0

    run(scenario)


def test_what_waits_for_the_disk_is_counted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            request = produce_request("t", *((0, batch_of(b"v")) for _ in range(3)))
            answer = start(produce, request, broker, 9)
            assert sized(BrokerStatus(), broker, COLD, 0).queue.unsynced_batches == 3
            await answer
            assert sized(BrokerStatus(), broker, COLD, 0).queue.unsynced_batches == 0

    run(scenario)
