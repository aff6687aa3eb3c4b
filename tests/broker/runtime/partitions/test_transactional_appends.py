"""Transactional batches and markers on a real log: durable, restarted, refused."""

import errno
from pathlib import Path

import pytest

from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import read_header
from broker.records.markers import Marker, read_marker
from broker.storage.files import Files
from tests.support.files import ForgetfulFiles
from tests.support.rig import (
    batch_of,
    batches_in,
    create,
    fetch_one,
    produce_one,
    rig,
    run,
)
from tests.support.transacting import marker, record


def test_a_transaction_is_open_until_its_marker_is_durable(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            assert await record(partition, 1) == 0
            assert (partition.log.stable, partition.high_watermark) == (0, 1)
            assert await marker(partition, 1, commit=False) == 1
            assert (partition.log.stable, partition.high_watermark) == (2, 2)
            assert partition.log.aborted(0, 2) == [(1, 0)]
            _, second = batches_in(await fetch_one(broker, "t", 0))
            assert read_header(second).base_offset == 1
            assert read_marker(second) == Marker(False)

    run(scenario)


@pytest.mark.parametrize("loses_checkpoint", [False, True])
def test_a_start_knows_every_transaction(tmp_path, loses_checkpoint) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            await record(partition, 1)
            await record(partition, 2)
            await marker(partition, 1, commit=False)
            if not loses_checkpoint:
                broker.partitions.checkpoint()
            await record(partition, 3)
            await marker(partition, 3, commit=False)
            await produce_one(broker, "t", batch_of(b"plain"))
            before = partition.log.transactions.snapshot()
        if loses_checkpoint:
            for found in tmp_path.rglob("checkpoint"):
                found.unlink()
        async with rig(tmp_path) as broker:
            log = broker.partitions.named("t", 0).log
            assert log.transactions.snapshot() == before
            assert (log.stable, log.durable) == (1, 6)
            assert log.aborted(0, 1) == [(1, 0)]
            await marker(broker.partitions.named("t", 0), 2, commit=True)
            assert (log.stable, log.aborted(0, 7)) == (7, [(1, 0), (3, 3)])

    run(scenario)


def test_a_marker_that_the_disk_refused_leaves_the_transaction_open(tmp_path) -> None:
    async def scenario() -> None:
        files: Files = ForgetfulFiles()
        async with rig(tmp_path, files=files) as broker:
            partition = await create(broker, "t")
            await record(partition, 1)
            files.fail("fdatasync", OSError(errno.EIO, "broken"))
            with pytest.raises(KafkaError) as caught:
                await marker(partition, 1, commit=True)
            assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
            assert (partition.log.stable, partition.log.next) == (0, 1)
            with pytest.raises(KafkaError):
                await marker(partition, 1, commit=True)

    run(scenario)


def test_a_topics_rules_do_not_stand_in_a_markers_way(tmp_path: Path) -> None:
    rules = {
        "message_timestamp_before_max_ms": "0",
        "message_timestamp_type": "LogAppendTime",
        "cleanup_policy": "compact",
    }

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t", **rules)
            assert await marker(partition, 1, commit=True) == 0

    run(scenario)


def test_a_partition_that_was_deleted_takes_no_marker(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            partition.deleted = True
            with pytest.raises(KafkaError) as caught:
                await marker(partition, 1, commit=True)
            assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(scenario)


def test_a_marker_of_an_old_epoch_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"x", producer=(1, 4, 0)))
            with pytest.raises(KafkaError) as caught:
                await marker(partition, 1, commit=True)
            assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
            assert partition.log.next == 1

    run(scenario)
