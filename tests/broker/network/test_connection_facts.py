"""What is said of a connection, while its client is there."""

from broker.network.connection_facts import CLIENT_ID_MAX, describe
from tests.support.beats import PING
from tests.support.clock import ManualClock
from tests.support.serving import on_loop, serving, until
from tests.support.timers import ManualTimers
from tests.support.wire import Wire, frame_of


def test_a_row_for_each_connection() -> None:
    async def story() -> None:
        timers = ManualTimers(ManualClock())
        async with serving(timers=timers, idle_ms=40_000) as server:
            one, other = [await Wire.open(server.address) for _ in range(2)]
            await until(lambda: len(server.hub.connections) == 2)
            assert [row["client_id"] for row in describe(server.hub)] == [None, None]
            await one.ask(PING, 3)
            sent = len(frame_of(PING, 3))
            timers.advance(10_000)
            timers.advance(5_000)
            busy, silent = describe(server.hub)
            assert busy["bytes_in"] == sent
            assert busy["bytes_out"] > 0
            assert busy["age_ms"] == silent["age_ms"] == 15_000
            assert (busy["idle_ms"], silent["idle_ms"]) == (7_500, 15_000)
            assert busy["address"].startswith("127.0.0.1:")
            assert busy["open_requests"] == busy["unsent_bytes"] == 0
            assert len(busy["client_id"] or "") <= CLIENT_ID_MAX
            assert silent["bytes_in"] == silent["bytes_out"] == 0
            assert await other.ask(PING, 3)

    on_loop(story)
