"""What connections share: a count, and one call a turn for all who have to say."""

import asyncio

import structlog

from broker.network.hub import COMPLAINTS_MAX
from tests.support.serving import on_loop, serving


class Speaker:
    busy = False

    def __init__(self) -> None:
        self.flushed = 0

    def flush(self) -> None:
        self.flushed += 1

    def stop_reading(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def hurry(self, now_ms: int) -> None: ...


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


def test_peers_cannot_fill_the_log() -> None:
    async def story() -> None:
        async with serving() as server:
            with structlog.testing.capture_logs() as told:
                for i in range(1_000):
                    server.hub.complain("not what we speak", peer=str(i))
            assert 0 < len(told) <= 2 * COMPLAINTS_MAX

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
