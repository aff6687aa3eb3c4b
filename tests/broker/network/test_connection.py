"""A client's connection: order, concurrency, back-pressure, bad input, ends."""

import asyncio
import os
import struct
from itertools import pairwise
from pathlib import Path

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.heartbeat import HeartbeatResponse
from broker.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from broker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from broker.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.support.beats import PING, Beats, beat
from tests.support.clock import ManualClock
from tests.support.patience import IDLE_S
from tests.support.rig import create, rig
from tests.support.serving import on_loop, serving, until
from tests.support.timers import ManualTimers
from tests.support.wire import Wire, frame_of


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
            assert server.hub.producing.taken == server.hub.answering.taken == 0

    on_loop(story)


def test_each_answer_is_counted_with_how_long_it_took() -> None:
    async def story() -> None:
        beats = Beats()
        async with serving([beats.handler]) as server:
            wire = await Wire.open(server.address)
            wire.send(beat("held", 1), beat("at once", 2), beat("coroutine", 3))
            await beats.until(3)
            times = server.hub.counters.times[ApiKey.HEARTBEAT]
            await until(lambda: sum(times.state().buckets) == 2)
            await asyncio.sleep(0.3)
            beats.open["held"].set_result(HeartbeatResponse())
            assert await wire.correlation_ids(3) == [1, 2, 3]
            assert sum(times.state().buckets) == 3
            assert times.state().total >= 0.25 * 1e9

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


def test_requests_that_came_together_are_started_in_turns() -> None:
    """Whoever sends thousands and reads no answer keeps nobody else waiting."""

    async def story() -> None:
        beats, count = Beats(), 2_000
        async with serving([beats.handler]) as server:
            wires = [await Wire.open(server.address) for _ in range(50)]
            for wire in wires:
                wire.send(*(beat("at once", number) for number in range(count)))
            started = [0]
            while started[-1] < count * len(wires):
                await asyncio.sleep(0)
                started.append(len(beats.started))
            # a slice of each, and a ms of the queue; but not 32 of each, or all of one
            assert max(b - a for a, b in pairwise(started)) < 1_500
            for wire in wires:
                assert await wire.correlation_ids(count) == list(range(count))
            wires[0].send(beat("at once", count))
            assert await wires[0].correlation_ids(1) == [count]

    on_loop(story)


def test_bytes_under_way_are_bounded_over_all_connections() -> None:
    async def story() -> None:
        beats = Beats()
        async with serving([beats.handler], inflight_bytes_max=50) as server:
            wires = [await Wire.open(server.address) for _ in range(5)]
            for i, wire in enumerate(wires):
                wire.send(beat(f"{i}", i), beat(f"more {i}", i))
            await beats.until(1)
            await asyncio.sleep(0.1)
            assert len(beats.started) < 4
            done: set[str] = set()
            while len(done) < 10:
                await beats.until(len(done) + 1)
                for name in set(beats.started) - done:
                    beats.open[name].set_result(HeartbeatResponse())
                    done.add(name)
            for i, wire in enumerate(wires):
                assert await wire.correlation_ids(2) == [i, i]
            assert server.hub.producing.taken == server.hub.answering.taken == 0

    on_loop(story)


def test_requests_that_wait_for_others_do_not_keep_the_others_waiting(
    tmp_path: Path,
) -> None:
    """Joins are answered when all members have joined: theirs must be read, too."""

    async def story() -> None:
        metadata = JoinGroupRequestProtocol("range", bytes(2_000))
        join = JoinGroupRequest(
            "g", 10_000, 600_000, protocol_type="consumer", protocols=[metadata]
        )
        async with (
            rig(tmp_path) as broker,
            serving(broker=broker, inflight_bytes_max=1_000) as server,
        ):
            wires = [await Wire.open(server.address) for _ in range(3)]
            for wire in wires:
                wire.send(frame_of(join, 3))
            answers = [asyncio.create_task(wire.receive()) for wire in wires]
            witness = await Wire.open(server.address)
            await until(lambda: broker.groups.describe("g") is not None)
            await witness.ask(MetadataRequest(), 5)
            assert not any(answer.done() for answer in answers), "it waited for them"
            view = broker.groups.describe("g")
            assert view is not None
            assert len(view.members) == len(wires)
            for answer in answers:
                answer.cancel()

    on_loop(story)


def test_a_parked_join_holds_up_what_comes_behind_it_and_no_other_connection(
    tmp_path: Path,
) -> None:
    """A client has a connection of its own for its group, and others for records."""

    async def story() -> None:
        timers = ManualTimers(ManualClock())
        metadata = JoinGroupRequestProtocol("range", b"")
        join = JoinGroupRequest(
            "g", 10_000, 600_000, protocol_type="consumer", protocols=[metadata]
        )
        async with (
            rig(tmp_path, timers=timers, clock=timers.clock) as broker,
            serving(broker=broker) as server,
        ):
            group, records = [await Wire.open(server.address) for _ in range(2)]
            group.send(frame_of(join, 3, 1), frame_of(PING, 3, 2))
            behind = asyncio.create_task(group.correlation_ids(2))
            await until(lambda: broker.groups.describe("g") is not None)
            for request, version in ((PING, 3), (MetadataRequest(), 5)):
                asked = records.ask(request, version)
                answer = await asyncio.wait_for(asked, IDLE_S)
                assert answer.throttle_time_ms == 0
            assert not behind.done()
            timers.advance(broker.groups.limits.initial_rebalance_delay_ms)
            assert await behind == [1, 2]

    on_loop(story)


def test_fetches_that_wait_do_not_use_up_the_memory_of_all_requests(
    tmp_path: Path,
) -> None:
    """What they wait for comes in by the same memory: the last of them is answered."""

    async def story() -> None:
        many = [FetchPartition(0)] * 100
        fetch = FetchRequest(
            max_wait_ms=600_000, min_bytes=1, topics=[FetchTopic("a", partitions=many)]
        )
        async with (
            rig(tmp_path) as broker,
            serving(broker=broker, inflight_bytes_max=120_000) as server,
        ):
            await create(broker, "a")
            wires = [await Wire.open(server.address) for _ in range(4)]
            for wire in wires:
                wire.send(frame_of(fetch, 12))
            await until(lambda: len(broker.purgatory) >= 2)
            witness = await Wire.open(server.address)
            await asyncio.wait_for(witness.ask(MetadataRequest(), 5), IDLE_S)
            assert len(broker.purgatory) == 2

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
            requests, asked = server.hub.counters.requests, 0
            await until(lambda: requests[3] > 0)
            while asked != requests[3]:  # until the sockets' own buffers are full
                asked = requests[3]
                await asyncio.sleep(0.2)
            assert asked < count
            assert await wire.correlation_ids(count) == [1] * count

    on_loop(story)


def test_large_records_reach_the_handler_uncopied_and_whole() -> None:
    async def story() -> None:
        seen: list[bytes] = []

        @serves(ApiKey.PRODUCE, versions=(3, 13))
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
            hub = server.hub
            await until(lambda: hub.producing.taken == hub.answering.taken == 0)

    on_loop(story)
