"""Fetch, ListOffsets: what a reader of committed records is given, and when."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.apis.fetch import fetch
from broker.apis.list_offsets import list_offsets
from broker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from broker.records.batch import read_header
from broker.runtime.services import Broker
from tests.support.batches import BASE_TIMESTAMP
from tests.support.rig import (
    Tables,
    batch_of,
    batches_in,
    create,
    fetch_one,
    fetch_request,
    produce_one,
    rig,
    run,
    start,
)
from tests.support.transacting import NOW_MS, marker, record

COMMITTED = 1


async def read(broker: Broker, offset: int, isolation: int = COMMITTED, **more: Any):
    """(base offsets, aborted, last stable offset) of a fetch."""
    data = await fetch_one(broker, "t", offset, isolation_level=isolation, **more)
    aborted = data.aborted_transactions
    return (
        [read_header(batch).base_offset for batch in batches_in(data)],
        aborted and [(one.producer_id, one.first_offset) for one in aborted],
        data.last_stable_offset,
    )


def test_nothing_is_read_from_the_first_open_transaction_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"plain"))
            await record(partition, 1)
            await produce_one(broker, "t", batch_of(b"behind"))
            assert await read(broker, 0) == ([0], [], 1)
            assert await read(broker, 1) == ([], [], 1)
            assert await read(broker, 0, isolation=0) == ([0, 1, 2], None, 1)
            await marker(partition, 1, commit=True)
            assert await read(broker, 1) == ([1, 2, 3], [], 4)

    run(scenario)


@pytest.mark.parametrize("hot_bytes", [8 << 20, 1])
def test_what_was_aborted_is_told_of_what_is_read_and_of_no_more(tmp_path, hot_bytes):
    async def scenario() -> None:
        async with rig(tmp_path, hot_bytes=hot_bytes) as broker:
            partition = await create(broker, "t")
            for producer in (1, 2, 3):
                await record(partition, producer)
            await marker(partition, 3, commit=False)
            await marker(partition, 1, commit=False)
            await marker(partition, 2, commit=True)
            await record(partition, 4)
            await marker(partition, 4, commit=False)
            everything = [(1, 0), (3, 2), (4, 6)]
            assert await read(broker, 0) == (list(range(8)), everything, 8)
            assert (await read(broker, 5))[1] == [(4, 6)]
            offsets, aborted, _ = await read(broker, 0, bytes_max=1)
            assert (offsets, aborted) == ([0], [(1, 0)])
            assert (await read(broker, 0, isolation=0))[1] is None

    run(scenario)


def test_of_what_stands_in_a_table_nothing_was_aborted(tmp_path: Path) -> None:
    async def scenario() -> None:
        tables = Tables()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            await record(partition, 1)
            await marker(partition, 1, commit=False)
            tables.compact(broker, partition)
            partition.log.release(1 << 20)
            _, aborted, stable = await read(broker, 0)
            assert (aborted, stable) == ([], 2)

    run(scenario)


def waiting(broker: Broker, offset: int, isolation: int = COMMITTED) -> Any:
    request = fetch_request(
        "t", (0, offset), max_wait_ms=60_000, isolation_level=isolation
    )
    return asyncio.ensure_future(start(fetch, request, broker, 12))


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_reader_waits_for_the_end_of_a_transaction_and_not_for_its_records(tmp_path):
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            await record(partition, 1)
            asked = waiting(broker, 0)
            await record(partition, 1, 1)
            await turns()
            assert not asked.done()
            await marker(partition, 1, commit=True)
            data = (await asked).responses[0].partitions[0]
            assert len(batches_in(data)) == 3
            behind = waiting(broker, 3)
            await produce_one(broker, "t", batch_of(b"x"))
            assert len(batches_in((await behind).responses[0].partitions[0])) == 1

    run(scenario)


def test_a_reader_of_everything_waits_for_records_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            asked = waiting(broker, 0, isolation=0)
            await record(partition, 1)
            data = (await asked).responses[0].partitions[0]
            assert len(batches_in(data)) == 1

    run(scenario)


def test_a_reader_waits_for_enough_bytes_that_are_committed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            request = fetch_request(
                "t",
                (0, 0),
                max_wait_ms=60_000,
                min_bytes=300,
                isolation_level=COMMITTED,
            )
            asked = asyncio.ensure_future(start(fetch, request, broker, 12))
            await record(partition, 1, 0, bytes(50))
            await marker(partition, 1, commit=True)
            await turns()
            assert not asked.done()
            await record(partition, 1, 1, bytes(50))
            await turns()
            assert not asked.done(), "it is open"
            await marker(partition, 1, commit=True)
            data = (await asked).responses[0].partitions[0]
            assert len(batches_in(data)) == 4

    run(scenario)


async def listed(broker: Broker, timestamp: int, isolation: int) -> tuple[int, int]:
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        isolation_level=isolation, topics=[ListOffsetsTopic("t", [asked])]
    )
    answer = start(list_offsets, request, broker, 7)
    answer = await answer if hasattr(answer, "__await__") else answer
    found = answer.topics[0].partitions[0]
    assert found.error_code == 0
    return found.offset, found.timestamp


def test_no_offset_behind_what_is_stable_is_found_for_a_reader_of_what_is_committed(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"plain"))
            await record(partition, 1)
            latest, at_first, newest = -1, BASE_TIMESTAMP, -3
            assert await listed(broker, latest, COMMITTED) == (1, -1)
            assert await listed(broker, latest, 0) == (2, -1)
            assert await listed(broker, at_first, COMMITTED) == (0, BASE_TIMESTAMP)
            partition.log.move_start(1)
            assert await listed(broker, at_first, COMMITTED) == (-1, -1)
            assert await listed(broker, newest, COMMITTED) == (-1, -1)
            assert (await listed(broker, at_first, 0))[0] == 1
            await marker(partition, 1, commit=True)
            assert (await listed(broker, at_first, COMMITTED))[0] == 1
            assert NOW_MS == BASE_TIMESTAMP

    run(scenario)
