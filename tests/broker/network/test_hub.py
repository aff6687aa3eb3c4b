"""What connections share: a count, and one call a turn for all who have to say."""

import asyncio

import structlog

from broker.network.hub import REASONS_MAX, REPEAT_MS
from broker.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.clock import ManualClock
from tests.support.serving import on_loop, serving, until
from tests.support.wire import Wire


class Speaker:
    busy = False

    def __init__(self, peer: str = "a") -> None:
        self.peer = peer
        self.flushed = 0

    def flush(self) -> None:
        self.flushed += 1

    def stop_reading(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def evict_if_slow(self, now_ms: int) -> None: ...


def test_connections_are_counted_in_and_out() -> None:
    async def story() -> None:
        async with serving(connections_max=2) as server:
            hub, some = server.hub, [Speaker() for _ in range(3)]
            assert [hub.admit(speaker) for speaker in some] == [True, True, False]
            assert hub.counters.connections_open == 2
            assert hub.counters.connections_refused == 1
            hub.forget(some[0])
            assert hub.counters.connections_open == 1
            assert hub.admit(some[2])
            hub.connections.clear()

    on_loop(story)


def test_who_was_accepted_while_the_listener_closed_is_not_let_in() -> None:
    async def story() -> None:
        async with serving() as server:
            server.listener.close()
            assert not server.hub.admit(Speaker())
            assert not server.hub.connections

    on_loop(story)


def test_connections_of_one_host_are_limited() -> None:
    async def story() -> None:
        async with serving(connections_per_host_max=2) as server:
            hub = server.hub
            some = [Speaker("a") for _ in range(3)]
            assert [hub.admit(speaker) for speaker in some] == [True, True, False]
            assert hub.admit(Speaker("b"))
            hub.forget(some[2])  # never was in
            assert not hub.admit(some[2])
            hub.forget(some[0])
            assert hub.admit(some[2])
            assert hub.counters.connections_refused == 2
            hub.connections.clear()

    on_loop(story)


def test_a_connection_too_many_of_a_host_is_closed() -> None:
    async def story() -> None:
        async with serving(connections_per_host_max=2) as server:
            well = [await Wire.open(server.address) for _ in range(2)]
            for wire in well:
                await wire.ask(ApiVersionsRequest("a", "1"), 3)
            refused = await Wire.open(server.address)
            assert await refused.closed()
            well.pop().close()
            await until(lambda: len(server.hub.connections) == 1)
            taken = await Wire.open(server.address)
            assert (await taken.ask(ApiVersionsRequest("a", "1"), 3)).error_code == 0
            assert server.hub.hosts == {"127.0.0.1": 2}

    on_loop(story)


def test_each_reason_is_logged_once_a_minute_with_a_count() -> None:
    async def story() -> None:
        async with serving() as server:
            clock = server.hub.clock = ManualClock()
            with structlog.testing.capture_logs() as logged:
                for i in range(1_000):
                    server.hub.log_refusal("closed", why="version", peer=str(i))
                server.hub.log_refusal("closed", why="another", peer="a")
                clock.advance(REPEAT_MS)
                server.hub.log_refusal("closed", why="version", peer="b")
            assert [(line["why"], line["times"]) for line in logged] == [
                ("version", 1), ("another", 1), ("version", 1_000)
            ]  # fmt: skip

    on_loop(story)


def test_reasons_that_peers_make_up_cannot_fill_the_log() -> None:
    async def story() -> None:
        async with serving() as server:
            clock = server.hub.clock = ManualClock()
            with structlog.testing.capture_logs() as logged:
                for i in range(10 * REASONS_MAX):
                    server.hub.log_refusal("closed", why=f"{i} bytes", peer="a")
                assert len(logged) == REASONS_MAX + 1
                clock.advance(REPEAT_MS)
                server.hub.log_refusal("closed", why="new", peer="a")
            assert len(logged) == REASONS_MAX + 2

    on_loop(story)


def test_all_who_have_to_say_speak_in_the_next_turn() -> None:
    async def story() -> None:
        async with serving() as server:
            some = [Speaker() for _ in range(3)]
            for speaker in some:
                server.hub.flush_soon(speaker)
            assert [speaker.flushed for speaker in some] == [0, 0, 0]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert [speaker.flushed for speaker in some] == [1, 1, 1]

    on_loop(story)


def test_what_completes_together_is_written_at_its_end() -> None:
    async def story() -> None:
        async with serving() as server:
            some = [Speaker() for _ in range(3)]

            def step() -> None:
                for speaker in some:
                    server.hub.flush_soon(speaker)
                assert [speaker.flushed for speaker in some] == [0, 0, 0]

            server.hub.together(step)
            assert [speaker.flushed for speaker in some] == [1, 1, 1]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert [speaker.flushed for speaker in some] == [1, 1, 1]

    on_loop(story)
