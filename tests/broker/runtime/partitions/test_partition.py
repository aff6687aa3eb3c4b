"""A partition: appending, settling, and what happens when the disk fails."""

import asyncio
import errno
from pathlib import Path

import pytest

from broker.apis.produce import produce
from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.partitions.partition import UNKNOWN_BYTES, check_leader_epoch
from tests.support.files import ForgetfulFiles
from tests.support.rig import (
    Tables,
    batch_of,
    create,
    fetch_one,
    produce_one,
    produce_request,
    rig,
    run,
    start,
    values_in,
)


def test_nothing_is_visible_before_it_is_durable(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            asked = start(produce, produce_request("t", (0, batch_of(b"a"))), broker, 9)
            assert (partition.log.next, partition.high_watermark) == (1, 0)
            assert values_in(await fetch_one(broker, "t", 0)) == []
            await asked
            assert partition.high_watermark == 1

    run(scenario)


def test_a_failed_sync_refuses_writes_and_reads_go_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = ForgetfulFiles()
        async with rig(tmp_path, files=files) as broker:
            partition = await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"kept"))
            files.fail("fdatasync", OSError(errno.EIO, "broken"))
            numbered = batch_of(b"lost", producer=(5, 0, 0))
            asked = [
                start(
                    produce, produce_request("t", (0, bytearray(numbered))), broker, 9
                )
                for _ in range(2)
            ]
            for response in await asyncio.gather(*asked):
                answer = response.responses[0].partition_responses[0]
                assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            later = await produce_one(broker, "t", batch_of(b"later"))
            assert later.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            old = await produce_one(broker, "t", batch_of(b"later"), version=3)
            assert old.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (partition.log.next, partition.high_watermark) == (1, 1)
            assert values_in(await fetch_one(broker, "t", 0)) == [b"kept"]

    run(scenario)


def test_appends_are_counted_when_they_are_durable(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            batch = batch_of(b"a", b"b")
            await produce_one(broker, "t", batch)
            await produce_one(broker, "t", batch[:-1])
            counters = broker.counters
            assert (counters.batches_in, counters.records_in) == (1, 2)
            assert counters.bytes_in == len(batch)
            await fetch_one(broker, "t", 0)
            assert counters.bytes_out == len(batch)

    run(scenario)


def test_available_bytes_are_counted_from_the_offset(tmp_path: Path) -> None:
    async def scenario() -> None:
        tables = Tables()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            size = len(batch_of(b"a"))
            for _ in range(3):
                await produce_one(broker, "t", batch_of(b"a"))
            assert [partition.available(offset, 0) for offset in range(5)] == [
                3 * size, 2 * size, size, 0, 0,
            ]  # fmt: skip
            tables.compact(broker, partition)
            assert partition.available(1, 3) == UNKNOWN_BYTES
            assert partition.available(3, 3) == 0

    run(scenario)


def test_what_segments_hold_is_not_cold(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            for _ in range(3):
                await produce_one(broker, "t", batch_of(b"a"))
            assert not partition.is_cold(1, table_end=3)
            partition.log.index.trim_below(2)
            assert partition.is_cold(1, table_end=3)
            assert not partition.is_cold(2, table_end=3)
            assert not partition.is_cold(1, table_end=1)

    run(scenario)


def test_epochs_above_ours_are_unknown() -> None:
    check_leader_epoch(-1)
    check_leader_epoch(0)
    with pytest.raises(KafkaError) as refused:
        check_leader_epoch(1)
    assert refused.value.code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_deleted_partition_takes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            partition.deleted = True
            answer = await produce_one(broker, "t", batch_of(b"a"))
            assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(scenario)
