"""DeleteRecords: the log start moves, durably, and nothing below it is served."""

from pathlib import Path
from typing import Any

import pytest

from broker.apis import delete_records as trimming
from broker.apis.delete_records import delete_records
from broker.dispatch.turns import at_once
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from broker.runtime.services import Broker
from tests.support.rig import (
    batch_of,
    call,
    create,
    fetch_one,
    produce_one,
    rig,
    run,
    values_in,
)


async def delete(broker: Broker, name: str, offset: int, partition: int = 0) -> Any:
    topic = DeleteRecordsTopic(name, [DeleteRecordsPartition(partition, offset)])
    response = await call(delete_records, DeleteRecordsRequest([topic]), broker)
    return response.topics[0].partitions[0]


def test_what_is_below_is_out_of_range_also_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            for value in (b"a", b"b", b"c"):
                await produce_one(broker, "t", batch_of(value))
            result = await delete(broker, "t", 2)
            assert (result.error_code, result.low_watermark) == (0, 2)
        async with rig(tmp_path) as broker:
            data = await fetch_one(broker, "t", 1)
            assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert (await fetch_one(broker, "t", 2)).log_start_offset == 2
            assert values_in(await fetch_one(broker, "t", 2)) == [b"c"]

    run(scenario)


def test_minus_one_is_the_high_watermark(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"a", b"b"))
            assert (await delete(broker, "t", -1)).low_watermark == 2
            assert (await fetch_one(broker, "t", 2)).error_code == 0
            assert (await produce_one(broker, "t", batch_of(b"c"))).base_offset == 2

    run(scenario)


def test_the_log_start_never_goes_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"a", b"b", b"c"))
            await delete(broker, "t", 2)
            assert (await delete(broker, "t", 1)).low_watermark == 2
        async with rig(tmp_path) as broker:
            assert broker.partitions.named("t", 0).log_start == 2

    run(scenario)


@pytest.mark.parametrize(
    ("name", "partition", "offset", "code"),
    [
        ("t", 0, 3, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("t", 0, -2, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("t", 1, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("nowhere", 0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("compacted", 0, 0, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_what_cannot_be_is_refused(
    tmp_path: Path, name: str, partition: int, offset: int, code: ErrorCode
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await create(broker, "compacted", cleanup_policy="compact")
            await produce_one(broker, "t", batch_of(b"a", b"b"))
            result = await delete(broker, name, offset, partition)
            assert (result.error_code, result.low_watermark) == (code, -1)

    run(scenario)


@pytest.mark.parametrize(
    ("offsets", "result", "start"),
    [
        ([1, 2], (2, 0), 2),
        ([2, 1], (1, 0), 1),
        ([3, 9], (-1, ErrorCode.OFFSET_OUT_OF_RANGE), 0),
        ([9, 3], (3, 0), 3),
    ],
)
def test_of_a_partition_that_is_named_twice_the_last_offset_counts(
    tmp_path: Path, offsets: list[int], result: tuple[int, int], start: int
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"a", b"b", b"c"))
            asked = [DeleteRecordsPartition(0, offset) for offset in offsets]
            request = DeleteRecordsRequest([DeleteRecordsTopic("t", asked)])
            response = await call(delete_records, request, broker)
            [one] = response.topics[0].partitions
            assert (one.low_watermark, one.error_code) == result
            assert partition.log_start == start

    run(scenario)


def test_a_topic_is_answered_once_and_not_without_partitions(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", 2)
            named = [("t", [1]), ("none", [0]), ("empty", []), ("t", [0, 1])]
            topics = [
                DeleteRecordsTopic(name, [DeleteRecordsPartition(i, 0) for i in parts])
                for name, parts in named
            ]
            request = DeleteRecordsRequest(topics)
            response = await call(delete_records, request, broker)
            answered = {
                topic.name: [one.partition_index for one in topic.partitions]
                for topic in response.topics
            }
            assert len(response.topics) == 2
            assert answered == {"t": [1, 0], "none": [0]}

    run(scenario)


def test_many_are_named_and_looked_at_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trimming, "COUNTED_A_TURN", 3)
    monkeypatch.setattr(trimming, "ITEMS_A_TURN", 2)

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", 8)
            asked = [DeleteRecordsPartition(index, 0) for index in range(8)]
            request = DeleteRecordsRequest([DeleteRecordsTopic("t", asked)])
            steps, turns = trimming._delete(request, broker), 1
            while (moved := at_once(steps)) is None:
                turns += 1
            assert turns == 9 // 3 + 8 // 2 + 1
            assert len((await moved).topics[0].partitions) == 8

    run(scenario)
