"""Which offset stands at a time: in the table, in the segments, in one record.

The problem: clients ask for the first record stamped t or later. The table answers for
what it holds by its statistics; the index of the segments knows each batch's greatest
timestamp and no more. The idea: find the batch by the index, and read that one batch,
on a thread, for the record in it. The price: timestamps of a partition need not grow,
so "first" is by offset, as in Kafka (``UnifiedLog.fetchOffsetByTimestamp``).
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from broker.log.index import Entry
from broker.protocol.buffers import Buffer
from broker.runtime.partition import Partition
from broker.runtime.ports import Lake
from broker.storage.wal import Wal

MICROS = 1000


class Found(NamedTuple):
    """A record: its offset and its timestamp, ms."""

    offset: int
    timestamp_ms: int


class Times:
    """Looks records up by their timestamps."""

    def __init__(self, wal: Wal, lake: Lake) -> None:
        self._wal = wal
        self._lake = lake

    async def first_at(self, partition: Partition, timestamp_ms: int) -> Found | None:
        """The first record stamped ``timestamp_ms`` or later; None: there is none."""
        start = partition.log_start
        if self._has_cold(partition):
            cold = await self._lake.find_timestamp(
                partition.number, partition.index, timestamp_ms, start
            )
            if cold is not None:
                return Found(*cold)
        index = partition.log.index
        at = index.find_timestamp(timestamp_ms, start)
        if at is None:
            return None
        return await self._in_batch(index[at], start, timestamp_ms)

    async def latest(self, partition: Partition) -> Found | None:
        """The first record with the greatest timestamp; None: the log is empty."""
        start = partition.log_start
        cold = None
        if self._has_cold(partition):
            cold = await self._lake.max_timestamp(
                partition.number, partition.index, start
            )
        index = partition.log.index
        at = index.max_timestamp(start)
        if at is None:
            return None if cold is None else Found(*cold)
        entry = index[at]
        if cold is not None and cold[1] >= entry.max_timestamp:
            return Found(*cold)
        return await self._in_batch(entry, start, entry.max_timestamp)

    def _has_cold(self, partition: Partition) -> bool:
        """Whether the log begins in the table."""
        table_end = self._lake.table_end(partition.number, partition.index)
        return partition.is_cold(partition.log_start, table_end)

    async def _in_batch(
        self, entry: Entry, start: int, timestamp_ms: int
    ) -> Found | None:
        batch: Buffer | None = self._wal.view(entry.location, entry.length)
        if batch is None:
            read = [(entry.location, entry.length)]
            look: Callable[[], Found | None] = lambda: _record_at(  # noqa: E731
                self._wal.read(read)[0], start, timestamp_ms
            )
        else:
            kept = batch
            look = lambda: _record_at(kept, start, timestamp_ms)  # noqa: E731
        return await asyncio.get_running_loop().run_in_executor(None, look)


def _record_at(batch: Buffer, start: int, timestamp_ms: int) -> Found | None:
    """The first record of a batch from offset ``start`` on, stamped so or later."""
    from broker.records.columns import to_columns  # loads compiled code: on a thread

    rows = to_columns([batch], start)
    micros = rows.column("timestamp").cast("int64").to_numpy(zero_copy_only=False)
    late = micros >= timestamp_ms * MICROS
    at = int(late.argmax()) if len(late) else 0
    if not len(late) or not late[at]:
        return None
    offset = rows.column("offset")[at].as_py()
    return Found(offset, int(micros[at]) // MICROS)
