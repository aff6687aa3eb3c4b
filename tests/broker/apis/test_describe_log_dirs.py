"""DescribeLogDirs: one directory, and how much of it each partition takes."""

import asyncio
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from broker.apis.describe_log_dirs import describe_log_dirs
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from tests.support.patience import IDLE_S
from tests.support.rig import (
    Tables,
    batch_of,
    call,
    create,
    produce_one,
    rig,
    run,
    start,
)
from tests.support.warehouses import Further


def test_sizes_count_segments_and_tables(tmp_path: Path) -> None:
    async def scenario() -> None:
        tables = Tables()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t", partitions=2)
            batch = batch_of(b"x" * 100)
            await produce_one(broker, "t", batch)
            tables.compact(broker, partition)
            await produce_one(broker, "t", batch_of(b"x" * 100))
            request = DescribeLogDirsRequest(None)
            response = await call(describe_log_dirs, request, broker)
            (result,) = response.results
            assert result.log_dir == str(tmp_path)
            assert result.total_bytes >= result.usable_bytes > 0
            internal, topic = result.topics
            assert internal.name == "__consumer_offsets"
            sizes = {p.partition_index: p.partition_size for p in topic.partitions}
            assert sizes == {0: 2 * len(batch), 1: 0}

    run(scenario)


@pytest.mark.parametrize("is_there", [True, False])
def test_tables_that_lie_elsewhere_are_counted_there(
    tmp_path: Path, is_there: bool
) -> None:
    away, tables = tmp_path / "away", Tables()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "tables").symlink_to(away)
    if is_there:
        away.mkdir()

    async def scenario() -> None:
        async with rig(tmp_path / "data", tables=tables) as broker:
            partition = await create(broker, "t", partitions=2)
            batch = batch_of(b"x" * 100)
            await produce_one(broker, "t", batch)
            tables.compact(broker, partition)
            await produce_one(broker, "t", batch_of(b"x" * 10))
            request = DescribeLogDirsRequest(None)
            response = await call(describe_log_dirs, request, broker)
            log, elsewhere = response.results
            of_log = {topic.name: topic.partitions for topic in log.topics}
            small = len(batch_of(b"x" * 10))
            assert [p.partition_size for p in of_log["t"]] == [small, 0]
            assert elsewhere.log_dir == str(away)
            if is_there:
                assert elsewhere.total_bytes >= elsewhere.usable_bytes > 0
                [topic] = elsewhere.topics
                sizes = {p.partition_index: p.partition_size for p in topic.partitions}
                assert (topic.name, sizes) == ("t", {0: len(batch)})
            else:
                assert elsewhere.error_code == ErrorCode.KAFKA_STORAGE_ERROR
                assert (elsewhere.topics, elsewhere.total_bytes) == ([], -1)

    run(scenario)


def test_a_disk_of_tables_that_hangs_takes_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often tools ask, and give up: others read the log on these threads."""
    away, goes_on, look = tmp_path / "away", threading.Event(), shutil.disk_usage
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "tables").symlink_to(away)
    away.mkdir()

    def hangs(path: Path) -> Any:
        if path == away:
            goes_on.wait()
        return look(path)

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(2))
        async with rig(tmp_path / "data") as broker:
            monkeypatch.setattr(shutil, "disk_usage", hangs)
            try:
                asked = [
                    asyncio.ensure_future(
                        call(describe_log_dirs, DescribeLogDirsRequest(None), broker)
                    )
                    for _ in range(3)
                ]
                left = start(describe_log_dirs, DescribeLogDirsRequest(None), broker)
                await asyncio.sleep(0.01)
                left.abandon()
                await asyncio.wait_for(loop.run_in_executor(None, look, "/"), IDLE_S)
                assert not any(one.done() for one in asked)
            finally:
                goes_on.set()
            for one in asked:
                assert [r.error_code for r in (await one).results] == [0, 0]
            response = await call(
                describe_log_dirs, DescribeLogDirsRequest(None), broker
            )
            assert len(response.results) == 2

    run(scenario)


def test_only_what_was_asked_for_and_is_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", partitions=2)
            asked = [
                DescribableLogDirTopic("t", [1, 9, -1]),
                DescribableLogDirTopic("nowhere", [0]),
            ]
            response = await call(
                describe_log_dirs, DescribeLogDirsRequest(asked), broker
            )
            (topic,) = response.results[0].topics
            assert [p.partition_index for p in topic.partitions] == [1]

    run(scenario)


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_each_further_warehouse_has_the_tables_of_its_topics(
    tmp_path: Path, *, is_elsewhere: bool
) -> None:
    data, away = tmp_path / "data", tmp_path / "away"
    if is_elsewhere:
        away.mkdir()
        data.mkdir()
        (data / "tables").symlink_to(away)
    two = Further(tmp_path, "fast", "slow", warehouse=data / "tables")
    sizes = dict[str, int]()

    async def scenario() -> None:
        tables, named = Tables(), "fast=/mnt/fast,slow=/mnt/slow"
        async with rig(data, tables=tables, warehouses=named) as broker:
            for number, name in enumerate(("", "fast", "slow"), 1):
                topic = f"of-{name or 'none'}"
                partition = await create(broker, topic, lake_warehouse=name)
                batch = batch_of(b"x" * 100 * number)
                await produce_one(broker, topic, batch)
                tables.compact(broker, partition)
                sizes[topic] = broker.partitions.table_bytes(*partition.key)
            two.unmount("slow")
            request = DescribeLogDirsRequest(None)
            response = await call(describe_log_dirs, request, broker)
            log, *others = response.results
            plain = others.pop(0) if is_elsewhere else log
            fast, slow = others
            assert log.log_dir == str(data)
            assert (slow.error_code, slow.topics) == (
                ErrorCode.KAFKA_STORAGE_ERROR, []
            )  # fmt: skip
            assert [one.log_dir for one in others] == [
                str(tmp_path / "disk-fast"), str(tmp_path / "disk-slow")
            ]  # fmt: skip
            of_log = {one.name: one.partitions[0].partition_size for one in log.topics}
            assert of_log.keys() == sizes.keys() | {"__consumer_offsets"}
            assert of_log["of-fast"] == 0, "it is in its table alone"
            [of_fast] = fast.topics
            assert of_fast.name == "of-fast"
            assert of_fast.partitions[0].partition_size == sizes["of-fast"] > 0
            of_plain = {one.name: one for one in plain.topics}
            assert (
                of_plain["of-none"].partitions[0].partition_size >= (sizes["of-none"])
            )
            if is_elsewhere:
                assert of_plain.keys() == {"of-none"}

    run(scenario)
