"""A client's connection: order, concurrency, back-pressure, bad input, ends."""

import asyncio
import os
import struct
from typing import Any

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from broker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from broker.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.support.serving import on_loop, serving
from tests.support.wire import Wire, frame_of

PING = ApiVersionsRequest("tests", "1")


class Beats:
    """A Heartbeat handler whose answers are given by hand."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.open: dict[str, asyncio.Future[Any]] = {}
        self.came = asyncio.Event()

        @serves(ApiKey.HEARTBEAT, versions=(0, 4))
        def heartbeat(request: HeartbeatRequest, _: Context) -> Any:
            self.started.append(request.group_id)
            self.came.set()
            if request.group_id == "at once":
                return HeartbeatResponse()
            if request.group_id == "nothing":
                return None
            if request.group_id == "broken":
                raise ZeroDivisionError
            if request.group_id == "coroutine":
                return self._later()
            future = asyncio.get_running_loop().create_future()
            self.open[request.group_id] = future
            return future

        self.handler = heartbeat

    async def _later(self) -> HeartbeatResponse:
        await asyncio.sleep(0.01)
        return HeartbeatResponse()

    async def until(self, count: int) -> None:
        while len(self.started) < count:
            self.came.clear()
            await asyncio.wait_for(self.came.wait(), 5)


def beat(name: str, correlation_id: int) -> bytes:
    return frame_of(HeartbeatRequest(name), 0, correlation_id)


def test_answers_leave_in_the_order_of_their_requests() -> None:
    async def story() -> None:
        beats = Beats()
        async with serving([beats.handler]) as server:
            wire = await Wire.open(server.address)
            wire.send(
                beat("a", 1),
                beat("at once", 2),
                beat("coroutine", 3),
                beat("b", 4),
                beat("nothing", 5),
                beat("at once", 6),
            )
            await beats.until(6)  # all of them run although none is answered
            assert beats.started == [
                "a", "at once", "coroutine", "b", "nothing", "at once"
            ]  # fmt: skip
            beats.open["b"].set_result(HeartbeatResponse())
            await asyncio.sleep(0.05)
            beats.open["a"].set_result(HeartbeatResponse())
            assert await wire.correlation_ids(5) == [1, 2, 3, 4, 6]
            assert server.hub.answering.taken == 0

    on_loop(story)


def test_a_frame_may_come_byte_by_byte() -> None:
    async def story() -> None:
        beats = Beats()
        async with serving([beats.handler]) as server:
            wire = await Wire.open(server.address)
            for byte in beat("at once", 7) + beat("at once", 8):
                wire.send(bytes([byte]))
                await asyncio.sleep(0)
            assert await wire.correlation_ids(2) == [7, 8]

    on_loop(story)


def test_a_failing_handler_closes_its_connection_and_no_other() -> None:
    async def story() -> None:
        beats = Beats()
        async with serving([beats.handler]) as server:
            broken, well = [await Wire.open(server.address) for _ in range(2)]
            broken.send(beat("broken", 1))
            assert await broken.closed()
            late = await Wire.open(server.address)
            late.send(beat("late", 1))
            await beats.until(2)
            beats.open["late"].set_exception(ZeroDivisionError())
            assert await late.closed()
            assert (await well.ask(PING, 3)).error_code == 0
            assert server.hub.counters.handler_errors == 2

    on_loop(story)


def test_what_is_not_the_protocol_closes_the_connection() -> None:
    async def story() -> None:
        good = frame_of(PING, 3)
        bad = [
            struct.pack(">i", -1) + bytes(20),
            struct.pack(">i", 2**31 - 1) + bytes(20),
            struct.pack(">i", 3) + bytes(3),
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            struct.pack(">ihhih", 10, 18, 3, 1, 1000),
            struct.pack(">ihhih", 10, 999, 0, 1, -1),
            struct.pack(">ihhih", 10, 0, 0, 1, -1),
            struct.pack(">i", len(good) - 4 - 3) + good[4:-3],
        ]
        async with serving() as server:
            well = await Wire.open(server.address)
            for garbage in bad:
                wire = await Wire.open(server.address)
                wire.send(garbage)
                assert await wire.closed(), garbage
            assert (await well.ask(PING, 3)).error_code == 0
            assert server.hub.counters.protocol_errors == len(bad)
            assert server.hub.receiving.taken == 0

    on_loop(story)


def test_answers_before_a_bad_frame_are_sent() -> None:
    async def story() -> None:
        async with serving() as server:
            wire = await Wire.open(server.address)
            wire.send(frame_of(PING, 0, 5), b"\xff\xff\xff\xff garbage")
            assert (await wire.response(18, 0))[0] == 5
            assert await wire.closed()

    on_loop(story)


def test_a_connection_has_finitely_many_requests_open() -> None:
    async def story() -> None:
        beats = Beats()
        async with serving([beats.handler], pipeline_max=3) as server:
            wire = await Wire.open(server.address)
            wire.send(*[beat(str(i), i) for i in range(10)])
            await beats.until(3)
            await asyncio.sleep(0.05)
            assert len(beats.started) == 3
            for i in range(10):
                await beats.until(min(i + 1, 10))
                beats.open[str(i)].set_result(HeartbeatResponse())
            assert await wire.correlation_ids(10) == list(range(10))
            assert beats.started == [str(i) for i in range(10)]

    on_loop(story)


def test_bytes_under_way_are_bounded_over_all_connections() -> None:
    async def story() -> None:
        beats = Beats()
        async with serving([beats.handler], inflight_bytes_max=50) as server:
            wires = [await Wire.open(server.address) for _ in range(5)]
            for i, wire in enumerate(wires):
                wire.send(beat(f"{i}", i), beat(f"more {i}", i))
            await asyncio.sleep(0.1)
            assert 0 < len(beats.started) < 4
            done: set[str] = set()
            while len(done) < 10:
                await beats.until(len(done) + 1)
                for name in set(beats.started) - done:
                    beats.open[name].set_result(HeartbeatResponse())
                    done.add(name)
            for i, wire in enumerate(wires):
                assert await wire.correlation_ids(2) == [i, i]
            assert server.hub.answering.taken == 0

    on_loop(story)


def test_a_peer_that_does_not_read_is_not_read() -> None:
    async def story() -> None:
        @serves(ApiKey.METADATA, versions=(0, 13))
        def metadata(_: MetadataRequest, __: Context) -> MetadataResponse:
            return MetadataResponse(cluster_id="x" * 30_000)

        async with serving([metadata], unsent_bytes_max=100_000) as server:
            wire = await Wire.open(server.address)
            count = 2_000
            wire.send(*[frame_of(MetadataRequest(), 2)] * count)
            requests, asked = server.hub.counters.requests, -1
            while asked != requests[3]:  # until the sockets' own buffers are full
                asked = requests[3]
                await asyncio.sleep(0.2)
            assert 0 < asked < count
            assert await wire.correlation_ids(count) == [1] * count

    on_loop(story)


def test_large_records_reach_the_handler_uncopied_and_whole() -> None:
    async def story() -> None:
        seen: list[bytes] = []

        @serves(ApiKey.PRODUCE, versions=(3, 13), listed_from=0)
        def produce(request: ProduceRequest, _: Context) -> ProduceResponse:
            for topic in request.topic_data:
                for partition in topic.partition_data:
                    assert isinstance(partition.records, memoryview)
                    assert not partition.records.readonly
                    seen.append(bytes(partition.records))
            return ProduceResponse()

        sizes = [10, 70_000, 1_000_000, 999_999, 20, 5_000_000, 64 << 10, 30_000_000]
        async with serving([produce]) as server:
            wire = await Wire.open(server.address)
            sent = [os.urandom(size) for size in sizes]
            for i, records in enumerate(sent):
                partition = PartitionProduceData(0, records)
                data = [TopicProduceData("t", partition_data=[partition])]
                wire.send(frame_of(ProduceRequest(None, 1, 1000, data), 8, i))
            assert await wire.correlation_ids(len(sizes)) == list(range(len(sizes)))
            assert seen == sent
            assert server.hub.receiving.taken == 0

    on_loop(story)


def test_an_idle_connection_and_half_a_frame_are_closed_in_time() -> None:
    async def story() -> None:
        async with serving(idle_ms=200, half_frame_ms=200) as server:
            idle, half, busy = [await Wire.open(server.address) for _ in range(3)]
            half.send(frame_of(PING, 3)[:-1])
            for _ in range(8):
                assert (await busy.ask(PING, 3)).error_code == 0
                await asyncio.sleep(0.05)
            assert await idle.closed()
            assert await half.closed()
            assert (await busy.ask(PING, 3)).error_code == 0

    on_loop(story)


def test_a_peer_that_takes_no_answers_cannot_stay_for_ever() -> None:
    async def story() -> None:
        @serves(ApiKey.METADATA, versions=(0, 13))
        def metadata(_: MetadataRequest, __: Context) -> MetadataResponse:
            return MetadataResponse(cluster_id="x" * 30_000)

        async with serving([metadata], idle_ms=200, half_frame_ms=200) as server:
            wire = await Wire.open(server.address)
            wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
            wire.send(*[frame_of(MetadataRequest(), 2)] * 1_000, b"\xff" * 4)
            deadline = asyncio.get_running_loop().time() + 5
            while not server.hub.connections:
                await asyncio.sleep(0.01)
            while server.hub.connections:
                assert asyncio.get_running_loop().time() < deadline
                await asyncio.sleep(0.05)

    on_loop(story)


def test_who_only_announces_large_requests_does_not_hold_up_who_sends_them() -> None:
    async def story() -> None:
        got: list[int] = []

        @serves(ApiKey.PRODUCE, versions=(3, 13))
        def produce(request: ProduceRequest, _: Context) -> ProduceResponse:
            got.append(len(request.topic_data[0].partition_data[0].records or b""))
            return ProduceResponse()

        async with serving([produce], inflight_bytes_max=8 << 20) as server:
            claims = [await Wire.open(server.address) for _ in range(12)]
            for wire in claims:  # they hold all there is; the last ones wait for it
                wire.send(struct.pack(">i", (4 << 20) - 4), bytes(100_000))
            while server.hub.receiving.taken < 8 << 20:
                await asyncio.sleep(0.01)
            honest = await Wire.open(server.address)
            data = [TopicProduceData("t", partition_data=[large(200_000)])]
            started = asyncio.get_running_loop().time()
            for _ in range(3):
                await honest.ask(ProduceRequest(topic_data=data), 9)
            assert asyncio.get_running_loop().time() - started < 5
            assert got == [200_000] * 3
            for wire in claims:
                wire.close()

    on_loop(story)


def large(size: int) -> PartitionProduceData:
    return PartitionProduceData(0, os.urandom(size))


def test_a_peer_may_go_while_its_request_runs() -> None:
    async def story() -> None:
        beats = Beats()
        async with serving([beats.handler]) as server:
            wire = await Wire.open(server.address)
            wire.send(beat("a", 1), beat("coroutine", 2))
            await beats.until(2)
            wire.close()
            while server.hub.connections:
                await asyncio.sleep(0.01)
            beats.open["a"].set_result(HeartbeatResponse())
            await asyncio.sleep(0.05)
            assert server.hub.answering.taken == 0

    on_loop(story)
