"""A broker with real tables, and what compactor and broker do to them, done by hand."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pyarrow as pa

from broker.assembly import bring_segment_retention
from broker.lake.lake import Lake
from broker.records.columns import to_columns
from broker.runtime.partitions.partition import Partition
from broker.runtime.services import Broker
from lakehouse.log.commit import commit_files, create_table
from tests.support.rig import rig
from tests.support.tables import write_file


@asynccontextmanager
async def with_lake(path: Path) -> AsyncIterator[tuple[Broker, Lake]]:
    """A broker with real tables; the second one on a path starts as a restart does."""
    loop = asyncio.get_running_loop()
    lake = Lake(path / "tables", call_soon=loop.call_soon_threadsafe, follow_ms=10)
    async with rig(path, tables=lake) as broker:  # type: ignore[arg-type]
        yield broker, lake


async def compact(broker: Broker, lake: Lake, partition: Partition, turn: int) -> None:
    """What the compactor does in a round, and the broker after it."""
    topic = broker.topics.by_number(partition.number)
    assert topic is not None
    root, topic_id = str(broker.settings.data_dir / "tables"), topic.id.hex()
    path = create_table(root, topic.name, topic_id, topic.partitions)
    start, end = lake.table_end(*partition.key), partition.high_watermark
    spans = partition.spans(start, 1 << 30, True)
    assert spans is not None
    rows = to_columns(
        broker.wal.read(spans), start, end,
        topic=topic.name, partition=partition.index,
    )  # fmt: skip
    table = pa.Table.from_batches([rows])
    file = write_file(path, f"round-{turn}", table)
    commit_files(path, topic_id, turn, {partition.index: (start, end)}, [file])
    while lake.table_end(*partition.key) < end:
        lake.wake()
        await asyncio.sleep(0.01)


async def release(broker: Broker, lake: Lake) -> None:
    """Seal the active segment, and let go of all that tables have."""
    broker.wal.roll()
    broker.partitions.checkpoint()
    while any(not info.sealed for info in broker.wal.segments()):
        await asyncio.sleep(0.01)
    retention = bring_segment_retention(broker, lake)
    retention.to_evict = {info.sequence for info in broker.wal.segments()}
    try:
        assert set(await retention.tick()) == retention.to_evict
    finally:
        retention.close()
