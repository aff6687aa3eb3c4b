"""The whole way of a record with a real table: in, over, let go, and out again."""

import asyncio
from pathlib import Path
from typing import Any

import deltalake

from broker.apis.list_offsets import list_offsets
from broker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from broker.records.batch import read_header
from broker.runtime.services import Broker
from tests.support.batches import Record, make_batch, read_batch
from tests.support.lake_following import version_of
from tests.support.rig import (
    batches_in,
    call,
    create,
    fetch_one,
    produce_one,
    run,
)
from tests.support.tabled import compact, release, with_lake

T = 1_700_000_000_000


def records(first: int, count: int) -> list[Record]:
    """Every odd shape: nulls, empties, repeated headers, times that go back."""
    return [
        Record(
            key=None if i % 3 else b"k%d" % i,
            value=None if i % 7 == 0 else b"" if i % 5 == 0 else b"value %d" % i * 9,
            headers=() if i % 2 else ((b"h", b"1"), (b"h", None), (b"", b"")),
            timestamp=T + (i ^ 3) * 10,
        )
        for i in range(first, first + count)
    ]


async def consume(broker: Broker, end: int, **more: Any) -> list[Record]:
    """All records from offset 0 until the position is ``end``."""
    offset, found = 0, []
    for _ in range(200):
        if offset >= end:
            return found
        data = await fetch_one(broker, "t", offset, **more)
        assert data.error_code == 0
        batches = batches_in(data)
        assert batches, f"nothing at {offset}, the high watermark is {end}"
        for batch in batches:
            found += [r for r in read_batch(batch) if r.offset >= offset]
        offset = read_header(batches[-1]).last_offset + 1
    raise AssertionError("the position does not reach the high watermark")


def test_records_come_back_as_they_were_produced(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with with_lake(tmp_path) as (broker, lake):
            partition = await create(broker, "t")
            expected: list[Record] = []
            for turn in range(1, 4):
                for codec in (0, 1, 2, 3, 4):
                    produced = records(len(expected), 40)
                    batch = make_batch(produced, codec=codec)
                    answer = await produce_one(broker, "t", batch)
                    placed = bytes(batch)
                    assert read_header(placed).base_offset == answer.base_offset
                    expected += read_batch(placed)
                if turn < 3:
                    await compact(broker, lake, partition, turn)
                if turn == 1:
                    await release(broker, lake)
            end = partition.high_watermark
            assert end == 600
            for limit in (1 << 20, 700, 1):
                assert await consume(broker, end, bytes_max=limit) == expected

    run(scenario)


def test_times_are_found_across_table_and_segments(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with with_lake(tmp_path) as (broker, lake):
            partition = await create(broker, "t")
            await produce_one(broker, "t", make_batch(records(0, 100)))
            await compact(broker, lake, partition, 1)
            await release(broker, lake)
            await produce_one(broker, "t", make_batch(records(100, 100)))
            for wanted in (0, 15, 990, 1000, 1500, 1990, 5000):
                first = next((i for i in range(200) if (i ^ 3) * 10 >= wanted), None)
                asked = ListOffsetsPartition(0, -1, T + wanted)
                request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [asked])])
                response = await call(list_offsets, request, broker)
                answer = response.topics[0].partitions[0]
                if first is None:
                    assert (answer.offset, answer.timestamp) == (-1, -1)
                else:
                    assert answer.offset == first
                    assert answer.timestamp == T + (first ^ 3) * 10

    run(scenario)


def test_rows_that_their_owner_deleted_are_gaps(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with with_lake(tmp_path) as (broker, lake):
            partition = await create(broker, "t")
            await produce_one(broker, "t", make_batch(records(0, 100)))
            await compact(broker, lake, partition, 1)
            await release(broker, lake)
            table = deltalake.DeltaTable(str(tmp_path / "tables" / "t"))
            version = version_of(lake, partition.number)
            table.delete("offset >= 90 or (offset >= 20 and offset < 40)")
            while version_of(lake, partition.number) == version:
                await asyncio.sleep(0.01)
            found = await consume(broker, 100)
            assert [r.offset for r in found] == [*range(20), *range(40, 90)]
            assert partition.high_watermark == 100
            answer = await produce_one(broker, "t", make_batch(records(100, 1)))
            assert answer.base_offset == 100

    run(scenario)


def test_the_greatest_timestamp_is_that_of_what_a_compaction_left(
    tmp_path: Path,
) -> None:
    """As an Apache Kafka 4.3.1 answers -3 once its cleaner has run."""

    async def greatest(broker: Broker) -> tuple[int, int]:
        asked = ListOffsetsPartition(0, -1, -3)
        request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [asked])])
        response = await call(list_offsets, request, broker)
        answer = response.topics[0].partitions[0]
        return answer.offset, answer.timestamp - T

    async def scenario() -> None:
        async with with_lake(tmp_path) as (broker, lake):
            partition = await create(broker, "t")
            for times in ((100, 100), (100, 20), (60, 50)):
                stamped = [Record(timestamp=T + time) for time in times]
                await produce_one(broker, "t", make_batch(stamped))
            assert await greatest(broker) == (0, 100)
            await compact(broker, lake, partition, 1)
            await release(broker, lake)
            assert await greatest(broker) == (0, 100)
            table = deltalake.DeltaTable(str(tmp_path / "tables" / "t"))
            for gone, left in (("0", (1, 100)), ("1, 2", (4, 60)), ("4", (5, 50))):
                version = version_of(lake, partition.number)
                table.delete(f"offset in ({gone})")
                while version_of(lake, partition.number) == version:
                    await asyncio.sleep(0.01)
                assert await greatest(broker) == left
            await produce_one(broker, "t", make_batch([Record(timestamp=T + 50)]))
            assert await greatest(broker) == (5, 50)
            await produce_one(broker, "t", make_batch([Record(timestamp=T + 51)]))
            assert await greatest(broker) == (7, 51)

    run(scenario)
