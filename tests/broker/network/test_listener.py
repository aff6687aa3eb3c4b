"""A listener: limits, addresses, and a stop that answers what is open."""

import asyncio
import socket

import pytest

from broker.network.listener import UNSENT_BYTES
from broker.protocol.messages.heartbeat import HeartbeatResponse
from tests.support.beats import PING, Beats, beat
from tests.support.patience import IDLE_S, STUCK_S
from tests.support.serving import on_loop, serving
from tests.support.wire import Wire


def test_connections_above_the_limit_are_refused() -> None:
    async def story() -> None:
        async with serving(connections_max=2) as server:
            first, second = [await Wire.open(server.address) for _ in range(2)]
            assert (await first.ask(PING, 3)).error_code == 0
            assert (await second.ask(PING, 3)).error_code == 0
            assert await (await Wire.open(server.address)).closed()
            first.close()
            while len(server.hub.connections) > 1:
                await asyncio.sleep(0.01)
            third = await Wire.open(server.address)
            assert (await third.ask(PING, 3)).error_code == 0
            assert server.hub.counters.connections_refused == 1

    on_loop(story)


def test_of_many_who_come_at_once_several_are_let_in_in_a_turn_of_the_loop() -> None:
    async def story() -> None:
        async with serving() as server:
            peers = [socket.create_connection(server.address) for _ in range(200)]
            turns = 0
            while len(server.hub.connections) < len(peers):
                await asyncio.sleep(0)
                turns += 1
            assert turns < len(peers) / 2
            for peer in peers:
                peer.close()

    on_loop(story)


async def option_of_an_accepted(option: int) -> int:
    async with serving() as server:
        wire = await Wire.open(server.address)
        await wire.ask(PING, 3)
        (connection,) = server.hub.connections
        peer = connection._transport.get_extra_info("socket")  # type: ignore
        value: int = peer.getsockopt(socket.IPPROTO_TCP, option)
        return value


def test_small_answers_are_not_held_back() -> None:
    async def story() -> None:
        assert await option_of_an_accepted(socket.TCP_NODELAY)

    on_loop(story)


def test_the_kernel_takes_little_of_what_a_peer_does_not_read() -> None:
    async def story() -> None:
        option = socket.TCP_NOTSENT_LOWAT
        assert await option_of_an_accepted(option) == UNSENT_BYTES

    on_loop(story)


def test_a_taken_port_is_an_error_of_the_system() -> None:
    async def story() -> None:
        async with serving() as server:
            with pytest.raises(OSError):
                await server.listener.start(*server.address)

    on_loop(story)


def test_a_stop_answers_what_is_open_and_starts_nothing_more() -> None:
    async def story() -> None:
        beats = Beats()
        async with serving([beats.handler]) as server:
            wire, idle = [await Wire.open(server.address) for _ in range(2)]
            wire.send(beat("a", 1))
            await beats.until(1)
            server.listener.close()
            stop = asyncio.ensure_future(server.listener.drain(1000 * STUCK_S))
            await asyncio.sleep(0.05)
            wire.send(beat("too late", 2))
            assert await idle.closed()
            beats.open["a"].set_result(HeartbeatResponse())
            assert await wire.correlation_ids(1) == [1]
            assert await wire.closed()
            await asyncio.wait_for(stop, IDLE_S)
            assert beats.started == ["a"]

    on_loop(story)


def test_a_stop_does_not_wait_for_ever() -> None:
    async def story() -> None:
        beats = Beats()
        async with serving([beats.handler]) as server:
            wire = await Wire.open(server.address)
            wire.send(beat("a", 1))
            await beats.until(1)
            server.listener.close()
            await asyncio.wait_for(server.listener.drain(100), IDLE_S)
            assert await wire.closed()

    on_loop(story)
