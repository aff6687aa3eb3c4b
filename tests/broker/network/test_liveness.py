"""Peers that say nothing, never end what they say, or take no answers."""

import asyncio
import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from broker.dispatch.context import Context
from broker.dispatch.registry import Registry, serves
from broker.network.liveness import LOOKS
from broker.protocol.api_keys import ApiKey
from broker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from broker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from broker.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from broker.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.support.beats import PING, Beats, beat
from tests.support.clock import ManualClock
from tests.support.patience import STUCK_S
from tests.support.serving import Serving, on_loop, serving, until
from tests.support.timers import ManualTimer, ManualTimers
from tests.support.wire import Wire, frame_of

NEVER_MS = int(10_000 * STUCK_S)


def noting_sizes(got: list[int]) -> Any:
    """A handler of Produce that notes how much came."""

    @serves(ApiKey.PRODUCE, versions=(3, 13))
    def produce(request: ProduceRequest, _: Context) -> ProduceResponse:
        got.append(len(request.topic_data[0].partition_data[0].records or b""))
        return ProduceResponse()

    return produce


async def arrived(server: Serving, count: int) -> None:
    """Wait until so many bytes have reached the broker."""
    await until(lambda: server.hub.counters.network_bytes_in == count)


def test_a_peer_that_says_nothing_is_closed_in_time() -> None:
    async def story() -> None:
        timers = ManualTimers(ManualClock())
        async with serving(timers=timers, idle_ms=200, half_frame_ms=200) as server:
            idle, busy = [await Wire.open(server.address) for _ in range(2)]
            for _ in range(4):
                assert (await busy.ask(PING, 3)).error_code == 0
                assert len(server.hub.connections) == 2
                timers.advance(50)
            assert await idle.closed()
            assert (await busy.ask(PING, 3)).error_code == 0
            assert len(server.hub.connections) == 1

    on_loop(story)


def test_a_request_that_does_not_end_closes_its_connection() -> None:
    async def story() -> None:
        timers = ManualTimers(ManualClock())
        limits = {"idle_ms": NEVER_MS, "half_frame_ms": 200}
        async with serving(timers=timers, **limits) as server:
            half = await Wire.open(server.address)
            frame = frame_of(PING, 3)
            half.send(frame[:5])
            await arrived(server, 5)
            timers.advance(150)
            half.send(frame[5:-1])  # the time runs from its first byte on
            await arrived(server, len(frame) - 1)
            assert server.hub.counters.protocol_errors == 0
            timers.advance(50)
            assert await half.closed()
            assert server.hub.counters.protocol_errors == 1

    on_loop(story)


def test_a_large_request_on_a_slow_line_is_waited_for_while_it_comes() -> None:
    async def story() -> None:
        got: list[int] = []
        produce = noting_sizes(got)

        timers = ManualTimers(ManualClock())
        limits = {"idle_ms": NEVER_MS, "half_frame_ms": 200}
        async with serving([produce], timers=timers, **limits) as server:
            slow = await Wire.open(server.address)
            data = [TopicProduceData("t", partition_data=[large(200_000)])]
            frame = frame_of(ProduceRequest(topic_data=data), 9)
            for start in range(0, len(frame), 20_000):
                slow.send(frame[start : start + 20_000])
                await arrived(server, min(start + 20_000, len(frame)))
                timers.advance(150)
                assert server.hub.counters.protocol_errors == 0
            assert (await slow.response(ApiKey.PRODUCE, 9))[1] == ProduceResponse()
            assert got == [200_000]

            sent = server.hub.counters.network_bytes_in
            slow.send(frame[:60_000])
            await arrived(server, sent + 60_000)
            timers.advance(250)  # it stops: what came before does not help it
            assert await slow.closed()

    on_loop(story)


def test_whoever_waits_for_a_handler_is_not_idle() -> None:
    async def story() -> None:
        timers, beats = ManualTimers(ManualClock()), Beats()
        limits = {"idle_ms": 200, "half_frame_ms": 200}
        async with serving([beats.handler], timers=timers, **limits) as server:
            wire = await Wire.open(server.address)
            wire.send(beat("a", 1))
            await beats.until(1)
            timers.advance(1_000)
            assert len(server.hub.connections) == 1
            beats.open["a"].set_result(HeartbeatResponse())
            await until(lambda: not any(c.busy for c in server.hub.connections))
            timers.advance(150)  # its own time begins with the answer
            assert not any(c.is_closing for c in server.hub.connections)
            timers.advance(50)
            await until(lambda: not server.hub.connections)
            wire.close()

    on_loop(story)


def test_whoever_waits_for_memory_of_others_is_not_idle() -> None:
    async def story() -> None:
        timers = ManualTimers(ManualClock())
        limits = {"idle_ms": 200, "half_frame_ms": 200}
        async with serving(timers=timers, **limits) as server:
            wire, taken = await Wire.open(server.address), 1 << 40
            await wire.ask(PING, 3)
            server.hub.answering.take(taken)
            wire.send(frame_of(PING, 3))
            await until(lambda: any(c.reading_paused for c in server.hub.connections))
            timers.advance(1_000)
            server.hub.answering.give(taken)
            assert (await wire.response(PING.API_KEY, 3))[1].error_code == 0
            timers.advance(50)
            assert (await wire.ask(PING, 3)).error_code == 0

    on_loop(story)


def test_what_keeps_a_member_alive_waits_for_no_memory_of_others() -> None:
    async def story() -> None:
        @serves(ApiKey.HEARTBEAT, versions=(0, 4), keeps_alive=True)
        def heartbeat(_: HeartbeatRequest, __: Context) -> HeartbeatResponse:
            return HeartbeatResponse()

        async with serving([heartbeat]) as server:
            member, other = [await Wire.open(server.address) for _ in range(2)]
            server.hub.answering.take(taken := 1 << 40)
            other.send(frame_of(PING, 3))
            await until(lambda: any(c.reading_paused for c in server.hub.connections))
            assert (await member.ask(HeartbeatRequest("g", 1, "m"), 4)).error_code == 0
            server.hub.answering.give(taken)
            assert (await other.response(PING.API_KEY, 3))[1].error_code == 0

    on_loop(story)


def test_a_large_one_of_these_waits_for_memory_all_the_same() -> None:
    async def story() -> None:
        @serves(ApiKey.SYNC_GROUP, versions=(0, 5), awaits_others=True)
        def sync_group(_: SyncGroupRequest, __: Context) -> SyncGroupResponse:
            return SyncGroupResponse()

        async with serving([sync_group]) as server:
            given = [SyncGroupRequestAssignment(str(n), b"x") for n in range(2_000)]
            member = await Wire.open(server.address)
            server.hub.answering.take(taken := 1 << 40)
            member.send(frame_of(SyncGroupRequest("g", 1, "m", assignments=given), 4))
            await until(lambda: any(c.reading_paused for c in server.hub.connections))
            server.hub.answering.give(taken)
            assert (await member.response(ApiKey.SYNC_GROUP, 4))[1].error_code == 0

    on_loop(story)


def test_those_are_asked_by_all_that_are_members() -> None:
    keys = {ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT}
    keys |= {ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP}
    assert Registry.discover().urgent == keys


def test_a_peer_that_takes_no_answers_cannot_stay_for_ever() -> None:
    async def story() -> None:
        @serves(ApiKey.METADATA, versions=(0, 13))
        def metadata(_: MetadataRequest, __: Context) -> MetadataResponse:
            return MetadataResponse(cluster_id="x" * 30_000)

        timers = ManualTimers(ManualClock())
        limits = {"idle_ms": 200, "half_frame_ms": 200}
        async with serving([metadata], timers=timers, **limits) as server:
            wire = await Wire.open(server.address)
            wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
            wire.send(*[frame_of(MetadataRequest(), 2)] * 1_000, b"\xff" * 4)
            await until(lambda: any(c.busy for c in server.hub.connections))

            def is_cut_off() -> bool:
                timers.advance(50)
                return not server.hub.connections

            await until(is_cut_off)

    on_loop(story)


def test_who_only_announces_large_requests_does_not_hold_up_who_sends_them() -> None:
    async def story() -> None:
        got: list[int] = []
        produce = noting_sizes(got)

        late = {"idle_ms": NEVER_MS, "half_frame_ms": NEVER_MS}
        async with serving([produce], inflight_bytes_max=8 << 20, **late) as server:
            claims = [await Wire.open(server.address) for _ in range(12)]
            for wire in claims:  # they hold all there is; the last ones wait for it
                wire.send(struct.pack(">i", (4 << 20) - 4), bytes(100_000))
            await until(lambda: server.hub.receiving.taken >= 8 << 20)
            honest = await Wire.open(server.address)
            data = [TopicProduceData("t", partition_data=[large(200_000)])]
            for _ in range(3):  # only an eviction gives them room before the story ends
                await honest.ask(ProduceRequest(topic_data=data), 9)
            assert got == [200_000] * 3
            for wire in claims:
                wire.close()

    on_loop(story)


@pytest.mark.parametrize("begun", [4, 5, 6, 70_000, 4_000_000])
def test_a_large_request_takes_no_memory_from_others_while_it_waits_for_one_before_it(
    begun: int,
) -> None:
    """However much of it came with that one, which is a poll, a join or work."""

    async def story() -> None:
        got: list[int] = []
        open_ones: list[asyncio.Future[MetadataResponse]] = []

        @serves(ApiKey.PRODUCE, versions=(3, 13))
        def produce(request: ProduceRequest, _: Context) -> ProduceResponse:
            got.append(len(request.topic_data[0].partition_data[0].records or b""))
            return ProduceResponse()

        @serves(ApiKey.METADATA, versions=(0, 13))
        def wait(_: MetadataRequest, __: Context) -> asyncio.Future[MetadataResponse]:
            open_ones.append(asyncio.get_running_loop().create_future())
            return open_ones[-1]

        late = {"idle_ms": NEVER_MS, "half_frame_ms": NEVER_MS}
        data = [TopicProduceData("t", partition_data=[large(4_000_000)])]
        behind = frame_of(ProduceRequest(topic_data=data), 9)
        async with serving(
            [produce, wait], inflight_bytes_max=8 << 20, **late
        ) as server:
            held = [await Wire.open(server.address) for _ in range(2)]
            for wire in held:
                wire.send(frame_of(MetadataRequest(), 2), behind[:begun])
            await until(lambda: len(open_ones) == 2)
            for wire in held:
                wire.send(behind[begun:])
            honest = await Wire.open(server.address)
            more = [TopicProduceData("t", partition_data=[large(6_000_000)])]
            await honest.ask(ProduceRequest(topic_data=more), 9)
            assert got == [6_000_000]
            assert server.hub.receiving.taken == 0
            for one in open_ones:
                one.set_result(MetadataResponse())
            await until(lambda: got == [6_000_000, 4_000_000, 4_000_000])
            for wire in held:
                wire.close()

    on_loop(story)


def unsynced_produces() -> tuple[list["asyncio.Future[ProduceResponse]"], Any]:
    """Those that were begun, to be answered by who asks; and what begins them."""
    begun: list[asyncio.Future[ProduceResponse]] = []

    @serves(ApiKey.PRODUCE, versions=(3, 13), pipelined=True)
    def produce(_: ProduceRequest, __: Context) -> asyncio.Future[ProduceResponse]:
        begun.append(asyncio.get_running_loop().create_future())
        return begun[-1]

    return begun, produce


def test_a_large_produce_comes_while_one_before_it_is_being_written() -> None:
    async def story() -> None:
        got, produce = unsynced_produces()
        data = [TopicProduceData("t", partition_data=[large(4_000_000)])]
        frame = frame_of(ProduceRequest(topic_data=data), 9)
        async with serving([produce], inflight_bytes_max=8 << 20) as server:
            wire = await Wire.open(server.address)
            wire.send(frame, frame)
            await until(lambda: len(got) == 2)
            for one in got:
                one.set_result(ProduceResponse())
            wire.close()

    on_loop(story)


def test_a_large_produce_takes_no_memory_from_other_requests_while_a_disk_hangs() -> (
    None
):
    async def story() -> None:
        open_ones, produce = unsynced_produces()

        @serves(ApiKey.METADATA, versions=(0, 13))
        def metadata(_: MetadataRequest, __: Context) -> MetadataResponse:
            return MetadataResponse()

        late = {"idle_ms": NEVER_MS, "half_frame_ms": NEVER_MS}
        data = [TopicProduceData("t", partition_data=[large(1 << 20)])]
        frame = frame_of(ProduceRequest(topic_data=data), 9)
        names = [MetadataRequestTopic(name=f"{n:06}") for n in range(20_000)]
        async with serving(
            [produce, metadata], inflight_bytes_max=1 << 20, **late
        ) as server:
            first = await Wire.open(server.address)
            first.send(frame)
            await until(lambda: len(open_ones) == 1)
            second = await Wire.open(server.address)
            second.send(frame)
            await until(lambda: [c for c in server.hub.connections if c.reading_paused])
            await (await Wire.open(server.address)).ask(MetadataRequest(names), 2)
            assert server.hub.receiving.taken == 0
            open_ones[0].set_result(ProduceResponse())
            await until(lambda: len(open_ones) == 2)
            open_ones[1].set_result(ProduceResponse())
            first.close()
            second.close()

    on_loop(story)


def test_many_connections_are_looked_at_together() -> None:
    async def story() -> None:
        timers, limits = ManualTimers(ManualClock()), {"idle_ms": 400 * LOOKS}
        async with serving(timers=timers, half_frame_ms=NEVER_MS, **limits) as server:
            pause_ms = 100 * LOOKS
            for _ in range(30):  # each a while after the one before
                await Wire.open(server.address)
                timers.advance(7)
            await until(lambda: len(server.hub.connections) == 30)
            asked: list[int] = []
            after = timers.after

            def noted(delay_ms: int, callback: Callable[[], None]) -> ManualTimer:
                asked.append(timers.clock.monotonic_ms())
                assert delay_ms <= pause_ms, "none waits for longer than before"
                return after(delay_ms, callback)

            timers.after = noted  # type: ignore[method-assign]
            timers.advance(pause_ms)
            assert len(asked) >= 30, "each is looked at"
            assert len(set(asked)) <= 4, "in some turns of the loop"
            idle_ms = 4 * pause_ms
            timers.advance(idle_ms)
            await until(lambda: not server.hub.connections)

    on_loop(story)


def large(size: int) -> PartitionProduceData:
    return PartitionProduceData(0, os.urandom(size))


def test_a_peer_that_reads_a_little_at_a_time_out_of_the_kernel_is_alive() -> None:
    """The loop hears nothing of it before a third of the kernel's part is free."""

    async def story() -> None:
        timers = ManualTimers(ManualClock())
        async with serving(timers=timers, idle_ms=40_000) as server:
            peer = socket.socket()
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
            peer.connect(server.address)
            peer.setblocking(False)
            await until(lambda: len(server.hub.connections) == 1)
            [connection] = server.hub.connections
            pings = frame_of(PING, 3) * 100
            while not connection.writing_paused:  # type: ignore[attr-defined]
                with suppress(BlockingIOError):
                    peer.send(pings)
                await asyncio.sleep(0)
            for _ in range(12):
                assert peer.recv(20_000)
                await asyncio.sleep(0.01)
                timers.advance(10_000)
            assert len(server.hub.connections) == 1
            assert connection.writing_paused  # type: ignore[attr-defined]
            timers.advance(60_000)
            await until(lambda: not server.hub.connections)
            peer.close()

    on_loop(story)
