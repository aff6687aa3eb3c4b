"""MaintenanceScheduler of a real broker: segments are let go, logs begin later."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import deltalake
import uvloop

from broker.lake.lake import Lake
from broker.node import Node
from broker.protocol.errors import ErrorCode
from broker.runtime.partitions.partition import Partition
from broker.settings import load
from tests.support.batches import read_batch
from tests.support.patience import STUCK_S
from tests.support.rig import batch_of, batches_in, create, fetch_one, produce_one
from tests.support.tables import FIRST_MS, Writer
from tests.support.tables import value as table_value

DAY_MS = 86_400_000


def with_node(
    tmp_path: Path, story: Callable[[Node], Coroutine[Any, Any, None]], **more: str
) -> None:
    flags = {
        "data_dir": str(tmp_path),
        "listener": "127.0.0.1:0",
        "wal.segment_bytes": "1Mi",
        "wal.keep_ms": "0",
        "wal.idle_seal_ms": "0",
        "lake.follow_ms": "20",
    }

    async def main() -> None:
        node = await Node.start(load(flags | more, environment={}))
        try:
            await asyncio.wait_for(story(node), STUCK_S)
        finally:
            await node.stop()

    uvloop.run(main())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.02)


async def compacted(node: Node, count: int, **configs: str) -> Partition:
    """A topic whose records have just been written to its table."""
    partition = await create(node.broker, "orders", **configs)
    values = [table_value(offset) or b"" for offset in range(count)]
    answer = await produce_one(node.broker, "orders", batch_of(*values))
    assert answer.error_code == 0
    topic = node.broker.topics.get("orders")
    assert topic is not None
    Writer(str(node.directory.tables), "orders", topic.id.hex()).add(0, 0, count)
    lake = node.broker.lake
    await until(lambda: lake.table_end(*partition.key) == count)
    return partition


def test_a_quiet_segment_whose_records_stand_in_tables_is_let_go(
    tmp_path: Path,
) -> None:
    async def story(node: Node) -> None:
        partition = await compacted(node, 100)
        wal = node.broker.wal
        assert len(wal.segments()) == 1
        await until(lambda: not wal.segments())
        assert len(partition.log.index) == 0
        data = await fetch_one(node.broker, "orders", 0)
        assert data.error_code == 0
        assert data.records

    with_node(tmp_path, story)


def test_a_segment_that_is_not_in_tables_stays(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        await compacted(node, 100)
        await produce_one(node.broker, "orders", batch_of(b"later"))
        await asyncio.sleep(1.2)
        assert len(node.broker.wal.segments()) >= 1
        data = await fetch_one(node.broker, "orders", 100)
        assert b"later" in bytes(b"".join(data.records or []))

    with_node(tmp_path, story)


def test_a_segment_is_sealed_when_it_is_old(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        await create(node.broker, "orders")
        await produce_one(node.broker, "orders", batch_of(b"x"))
        wal = node.broker.wal
        await until(lambda: any(segment.sealed for segment in wal.segments()))

    with_node(tmp_path, story, **{"wal.roll_ms": "100"})


def test_records_past_their_retention_are_below_the_log_start(tmp_path: Path) -> None:
    assert FIRST_MS < 1_750_000_000_000  # the table's records are old

    async def story(node: Node) -> None:
        partition = await compacted(node, 100, retention_ms=str(DAY_MS))
        await until(lambda: partition.log_start == 100)

    with_node(tmp_path, story, **{"lake.retention_check_ms": "100"})


def test_without_a_limit_nothing_goes(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        partition = await compacted(node, 100, retention_ms="-1")
        await asyncio.sleep(0.5)
        assert partition.log_start == 0

    with_node(tmp_path, story, **{"lake.retention_check_ms": "100"})


def test_records_that_nobody_has_are_a_problem_in_the_status(tmp_path: Path) -> None:
    table = tmp_path / "tables" / "orders"

    async def before(node: Node) -> None:
        await compacted(node, 100)
        await until(lambda: not node.broker.wal.segments())

    async def after(node: Node) -> None:
        await until(lambda: bool(node._facts().problems))
        (problem,) = node._facts().problems
        assert "offsets 0 to 99 of orders-0 are in no segment" in problem
        assert f"there is no table at {table}" in problem
        data = await fetch_one(node.broker, "orders", 0)
        assert data.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        table.with_suffix(".moved").rename(table)
        await until(lambda: not node._facts().problems)

    with_node(tmp_path, before)
    table.rename(table.with_suffix(".moved"))
    with_node(tmp_path, after)


def test_without_a_compactor_retention_frees_segments(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        limits = {"retention_bytes": "100", "retention_ms": "-1"}
        partition = await create(node.broker, "orders", **limits)
        for _ in range(3):
            await produce_one(node.broker, "orders", batch_of(b"x" * 200))
            node.broker.wal.roll()
        await until(lambda: partition.log_start == 2)
        await until(lambda: len(node.broker.wal.segments()) == 1)
        data = await fetch_one(node.broker, "orders", 2)
        assert (data.error_code, data.log_start_offset) == (0, 2)
        data = await fetch_one(node.broker, "orders", 1)
        assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    more = {"lake.retention_check_ms": "100", "lake.flush_ms": "10"}
    with_node(tmp_path, story, **more)


def test_a_cache_is_served_until_an_owner_changes_rows(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        partition = await create(node.broker, "orders")
        topic, lake = node.broker.topics.get("orders"), cast("Lake", node.broker.lake)
        assert topic is not None
        table = lake._follower.get(partition.number)
        assert table is not None
        await until(lambda: table._was_absent)  # else the load may hide a change
        await produce_one(node.broker, "orders", batch_of(*[b"x"] * 150))
        writer = Writer(str(node.directory.tables), "orders", topic.id.hex())
        writer.add(0, 0, 150)
        await until(lambda: lake.table_end(*partition.key) == 150)
        index = partition.log.index
        await looked(node)
        assert index.end_offset == 150
        deltalake.DeltaTable(writer.path).optimize.compact()
        await looked(node)
        assert index.end_offset == 150
        deltalake.DeltaTable(writer.path).delete("offset < 120")
        await until(lambda: index.end_offset is None)
        data = await fetch_one(node.broker, "orders", 100)
        found = [r.offset for b in batches_in(data) for r in read_batch(b)]
        assert found == list(range(120, 150))

    async def looked(node: Node) -> None:
        """Until the follower has seen all, and maintenance has acted on it."""
        number = node.broker.partitions.named("orders", 0).number
        table = deltalake.DeltaTable(str(node.directory.tables / "orders"))
        lake = cast("Lake", node.broker.lake)
        await until(lambda: lake.table_version(number) == table.version())
        maintenance = node.maintenance
        await maintenance.release()

    never = {"wal.keep_ms": "600000", "wal.idle_seal_ms": "600000"}
    with_node(tmp_path, story, **never)
