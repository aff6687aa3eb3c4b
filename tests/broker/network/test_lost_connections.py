"""What a connection held is given back when it is lost."""

import asyncio
from pathlib import Path
from typing import Any

from broker.protocol.messages.fetch import FetchRequest, ForgottenTopic
from broker.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from broker.runtime.services import Broker
from tests.support.patience import IDLE_S
from tests.support.rig import batch_of, create, fetch_request, produce_request, rig
from tests.support.serving import on_loop, serving, until
from tests.support.wire import Wire, frame_of

PADDING_BYTES = 600_000


def padded_fetch(topic: str) -> bytes:
    """A fetch that waits, in a frame of which it keeps next to nothing."""
    request: FetchRequest = fetch_request(topic, (0, 0), max_wait_ms=2**31 - 1)
    request.forgotten_topics_data = [
        ForgottenTopic("x" * 30_000) for _ in range(PADDING_BYTES // 30_000)
    ]
    return frame_of(request, 11)


async def produces(wire: Wire, topic: str) -> None:
    request = produce_request(topic, (0, bytes(batch_of(b"a"))))
    response = await asyncio.wait_for(wire.ask(request, 9), IDLE_S)
    assert response.responses[0].partition_responses[0].error_code == 0


def test_long_polls_of_lost_connections_hold_up_nobody(tmp_path: Path) -> None:
    async def story() -> None:
        async with rig(tmp_path) as broker:
            for topic in ("quiet", "t"):
                await create(broker, topic)
            async with serving(broker=broker, inflight_bytes_max=1 << 20) as server:
                gone = [await Wire.open(server.address) for _ in range(2)]
                for wire in gone:
                    wire.send(padded_fetch("quiet"))
                await until(lambda: len(broker.purgatory) == 2)
                assert 0 < server.hub.answering.taken < 10_000
                well = await Wire.open(server.address)
                await produces(well, "t")
                for wire in gone:
                    wire.close()
                await until(lambda: len(server.hub.connections) == 1)
                await produces(well, "t")
                assert len(broker.purgatory) == 0
                assert server.hub.answering.taken == 0

    on_loop(story)


def test_a_join_of_a_lost_connection_goes_on_and_weighs_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with rig(tmp_path) as broker, serving(broker=broker) as server:
            wire = await Wire.open(server.address)
            protocols = [JoinGroupRequestProtocol("range", bytes(PADDING_BYTES))]
            join = JoinGroupRequest("g", 30_000, 30_000, "", None, "consumer")
            join.protocols = protocols
            wire.send(frame_of(join, 3))
            await until(lambda: broker.groups.describe("g") is not None)
            assert server.hub.answering.taken == 0, "others must get in meanwhile"
            wire.close()
            await until(lambda: not server.hub.connections)
            assert server.hub.answering.taken == 0
            assert await members(broker) == 1

    on_loop(story)


async def members(broker: Broker) -> int:
    from broker.apis.describe_groups import describe_groups
    from broker.protocol.messages.describe_groups import DescribeGroupsRequest
    from tests.support.rig import call

    response: Any = await call(describe_groups, DescribeGroupsRequest(["g"]), broker)
    return len(response.groups[0].members)


def test_a_produce_of_a_lost_connection_weighs_until_it_is_done(tmp_path: Path) -> None:
    async def story() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            async with serving(broker=broker) as server:
                wire = await Wire.open(server.address)
                request = produce_request("t", (0, bytes(batch_of(b"a" * 9_000))))
                wire.send(frame_of(request, 9))
                wire.close()
                await until(lambda: partition.high_watermark == 1)
                await until(lambda: server.hub.producing.taken == 0)

    on_loop(story)


def test_no_fetch_waits_longer_than_a_connection_may_be_silent(tmp_path: Path) -> None:
    async def story() -> None:
        async with rig(tmp_path) as broker:
            network = broker.settings.network.model_copy(update={"idle_ms": 30})
            broker.settings = broker.settings.model_copy(update={"network": network})
            await create(broker, "t")
            async with serving(broker=broker) as server:
                wire = await Wire.open(server.address)
                for max_wait_ms in (2**31 - 1, -1, -(2**31)):
                    request = fetch_request("t", (0, 0), max_wait_ms=max_wait_ms)
                    response = await asyncio.wait_for(wire.ask(request, 11), IDLE_S)
                    assert response.responses[0].partitions[0].error_code == 0

    on_loop(story)
