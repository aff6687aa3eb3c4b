"""What fetches read into memory is bounded over all connections, read or not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker.network import sending
from broker.network.connection import Connection
from broker.runtime.budget import Budget
from broker.runtime.services import Broker
from tests.support.patience import STUCK_S
from tests.support.rig import batch_of, create, fetch_request, produce_one, rig
from tests.support.serving import Serving, on_loop, serving, until
from tests.support.wire import Wire, frame_of

BATCH_BYTES = 500_000
BATCHES = 16
ANSWER_BYTES = 50 << 20
BOUND = 16 << 20


@asynccontextmanager
async def cold_log(path: Path, **limits: int) -> AsyncIterator[tuple[Broker, Serving]]:
    """A topic of 8 MB, all of which is read from disk."""
    limits = {"unsent_bytes_max": 1 << 20, **limits}
    async with rig(path, hot_bytes=0, fetch_max_bytes=ANSWER_BYTES) as broker:
        await create(broker, "t")
        batches = [batch_of(bytes(BATCH_BYTES)) for _ in range(BATCHES)]
        for batch in (*batches, batch_of(b"the last one, in a segment of its")):
            answer = await produce_one(broker, "t", batch)
            assert answer.error_code == 0, answer.error_message
        broker.fetched = Budget(BOUND)
        async with serving(broker=broker, **limits) as server:
            yield broker, server


def large_fetch() -> bytes:
    limits = {"bytes_max": ANSWER_BYTES, "partition_bytes_max": ANSWER_BYTES}
    return frame_of(fetch_request("t", (0, 0), **limits), 11)


def test_answers_that_nobody_reads_stay_within_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "TAKE_MS", 1_000 * STUCK_S)
    monkeypatch.setattr(sending, "LOOK_MS", 50)

    async def story() -> None:
        async with cold_log(tmp_path) as (broker, server):
            deaf = [await Wire.open(server.address) for _ in range(30)]
            for wire in deaf:
                wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
                wire.send(large_fetch() * 30)
            await until(lambda: broker.fetched.taken > BOUND / 2)
            for _ in range(200):
                assert broker.fetched.taken <= BOUND
                await asyncio.sleep(0.002)
            monkeypatch.setattr(sending, "TAKE_MS", 200)
            reader = await Wire.open(server.address)
            for _ in range(3):  # who reads is served, though nobody else does
                reader.send(large_fetch())
                _, response = await reader.response(1, 11)
                assert len(bytes(response.responses[0].partitions[0].records)) > 0
            for wire in (*deaf, reader):
                wire.close()
            await until(lambda: not server.hub.connections)
            await until(lambda: broker.fetched.taken == 0)

    on_loop(story)


def test_who_reads_gets_whole_answers_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async def story() -> None:
        async with cold_log(tmp_path) as (broker, server):
            wires = [await Wire.open(server.address) for _ in range(4)]

            async def reads(wire: Wire) -> None:
                for _ in range(5):
                    wire.send(large_fetch())
                    _, response = await wire.response(1, 11)
                    data = response.responses[0].partitions[0]
                    assert len(bytes(data.records)) >= BATCH_BYTES

            await asyncio.gather(*map(reads, wires))
            await until(lambda: broker.fetched.taken == 0)
            assert server.hub.counters.handler_errors == 0

    on_loop(story)


def test_an_answer_larger_than_the_bound_is_given_alone(tmp_path: Path) -> None:
    async def story() -> None:
        async with cold_log(tmp_path) as (broker, server):
            broker.fetched = Budget(1_000)
            wires = [await Wire.open(server.address) for _ in range(3)]
            for wire in wires:
                wire.send(large_fetch())
            for wire in wires:
                _, response = await wire.response(1, 11)
                data = response.responses[0].partitions[0]
                assert len(bytes(data.records)) >= BATCH_BYTES
            await until(lambda: broker.fetched.taken == 0)

    on_loop(story)


def test_an_answer_that_comes_while_its_connection_closes_is_given_back(
    tmp_path: Path,
) -> None:
    """The peer sends no more, and takes nothing of what was written before."""

    async def story() -> None:
        async with cold_log(tmp_path, half_frame_ms=2_000) as (broker, server):
            wire = await Wire.open(server.address)
            wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
            wire.send(large_fetch())
            await until(lambda: broker.fetched.taken > 0)
            (connection,) = server.hub.connections
            assert isinstance(connection, Connection)
            fetched = connection._pipeline[0].result
            connection._transport.write(bytes(16 << 20))
            wire.writer.write_eof()
            await until(connection._transport.is_closing)
            await until(fetched.done)
            await until(lambda: not server.hub.connections)
            assert broker.fetched.taken == 0
            wire.close()

    on_loop(story)
