"""DeleteRecords: the log start moves, durably, and nothing below it is served."""

from pathlib import Path
from typing import Any

import pytest

from broker.apis.delete_records import delete_records
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
