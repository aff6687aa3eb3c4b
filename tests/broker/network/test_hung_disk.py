"""While the disk hangs, produces wait for it and nobody else does."""

import asyncio
import tracemalloc
from pathlib import Path

import pytest

from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.heartbeat import HeartbeatRequest
from tests.support.files import ForgetfulFiles
from tests.support.patience import IDLE_S
from tests.support.rig import batch_of, create, fetch_request, produce_request, rig
from tests.support.serving import on_loop, serving, until
from tests.support.wire import Wire, frame_of

BUDGET_BYTES = 1 << 16


def produced(topic: str, value: bytes, acks: int = -1) -> bytes:
    request = produce_request(topic, (0, bytes(batch_of(value * 300))), acks=acks)
    return frame_of(request, 9)


@pytest.mark.parametrize("acks", [0, -1])
def test_others_are_served_while_produces_take_all_they_may(
    tmp_path: Path, acks: int
) -> None:
    async def story() -> None:
        files = ForgetfulFiles()
        async with rig(tmp_path, files=files) as broker:
            partition = await create(broker, "t")
            async with serving(
                broker=broker, inflight_bytes_max=BUDGET_BYTES
            ) as server:
                producer, behind, other = [
                    await Wire.open(server.address) for _ in range(3)
                ]
                await produces(producer, acks=-1)
                free = files.hold("pwritev")
                try:
                    for _ in range(250):
                        producer.send(produced("t", b"A", acks))
                    await until(lambda: server.hub.producing.spent)
                    behind.send(produced("t", b"B"))
                    fetched = await other.ask(fetch_request("t", (0, 0)), 11)
                    assert fetched.responses[0].partitions[0].high_watermark == 1
                    await other.ask(ApiVersionsRequest("a", "1"), 3)
                    await other.ask(HeartbeatRequest("no group"), 4)
                    assert server.hub.producing.taken < 2 * BUDGET_BYTES
                    assert partition.log.next < 252
                finally:
                    free.set()
                await until(lambda: partition.high_watermark == 252)
                await until(lambda: server.hub.producing.taken == 0)

    on_loop(story)


async def produces(wire: Wire, acks: int) -> None:
    wire.send(produced("t", b"A", acks))
    await asyncio.wait_for(wire.receive(), IDLE_S)


def test_a_small_produce_weighs_what_it_takes(tmp_path: Path) -> None:
    async def story() -> None:
        files, count = ForgetfulFiles(), 5_000
        async with rig(tmp_path, files=files) as broker:
            partition = await create(broker, "t")
            async with serving(broker=broker, pipeline_max=2 * count) as server:
                wire = await Wire.open(server.address)
                await produces(wire, acks=-1)
                free = files.hold("pwritev")
                request = produce_request("t", (0, bytes(batch_of(b"A"))))
                frames = frame_of(request, 9) * count
                tracemalloc.start()
                try:
                    wire.send(frames)
                    await until(lambda: partition.log.next == 1 + count)
                    taken_bytes, _ = tracemalloc.get_traced_memory()
                finally:
                    tracemalloc.stop()
                    free.set()
                assert server.hub.producing.taken * 2 > taken_bytes
                await until(lambda: server.hub.producing.taken == 0)

    on_loop(story)
