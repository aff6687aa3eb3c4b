"""Upkeep of a real broker: segments are let go, logs begin later."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import uvloop

from broker.node import Node
from broker.runtime.partition import Partition
from broker.settings import load
from tests.support.rig import batch_of, create, fetch_one, produce_one
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
            await asyncio.wait_for(story(node), 30)
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
