"""Which offset stands at a time: in the table, in the segments, in one record.

The problem: clients ask for the first record stamped t or later. The table answers for
what it holds by its statistics; the index of the segments knows each batch's greatest
timestamp and no more; and while one place is searched, segments are released, so that
records move from the one to the other. The idea: a position that walks from the log's
start to its end. Each step searches the place that has the position *now*, and says how
far it searched, so nothing falls between two places. A batch that the index finds is
read alone, on a thread, for the record in it. The price: timestamps of a partition need
not grow, so "first" is by offset, as in Kafka (``UnifiedLog.fetchOffsetByTimestamp``).
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from broker.lake.cold import Searched
from broker.log.index import Entry
from broker.protocol.buffers import Buffer
from broker.records.batch import empty_batches
from broker.runtime.partitions.coverage import missing_error
from broker.runtime.partitions.partition import Partition
from broker.runtime.ports import Tables
from broker.storage.wal import StaleSegment, Wal

MICROS = 1000


class Found(NamedTuple):
    """A record: its offset and its timestamp, ms."""

    offset: int
    timestamp_ms: int


Step = tuple[Found | None, int]
"""What was found, and the offset up to which was looked."""
Choose = Callable[[Any], int | None]
"""Which of some records is meant, by their timestamps in us; there is one at least."""
TableSearch = Callable[[int], Coroutine[Any, Any, Searched]]


class Times:
    """Looks records up by their timestamps. Raises KafkaError KAFKA_STORAGE_ERROR when
    a place that has to be searched cannot be."""

    def __init__(self, wal: Wal, lake: Tables) -> None:
        self._wal = wal
        self._lake = lake

    async def first_at(self, partition: Partition, timestamp_ms: int) -> Found | None:
        """The first record stamped ``timestamp_ms`` or later; None: there is none."""

        def in_table(position: int) -> Coroutine[Any, Any, Searched]:
            return self._lake.find_timestamp(*partition.key, timestamp_ms, position)

        position, end = partition.log_start, partition.high_watermark
        while position < end:
            if partition.log.is_in_segments(position):
                step = self._first_in_segments(partition, timestamp_ms, position)
            else:
                step = self._below_segments(partition, position, in_table)
            found, position = await step
            if found is not None:
                return found
        return None

    async def latest(self, partition: Partition) -> Found | None:
        """The first record with the greatest timestamp; None: the log is empty."""

        def in_table(position: int) -> Coroutine[Any, Any, Searched]:
            return self._lake.max_timestamp(*partition.key, position)

        best: Found | None = None
        position, end = partition.log_start, partition.high_watermark
        while position < end:
            if partition.log.is_in_segments(position):
                step = self._newest_in_segments(partition, best, position)
            else:
                step = self._below_segments(partition, position, in_table)
            found, position = await step
            if found is not None and (
                best is None or found.timestamp_ms > best.timestamp_ms
            ):
                best = found
        return best

    async def _below_segments(
        self, partition: Partition, position: int, in_table: TableSearch
    ) -> Step:
        """Search the table, or pass over a batch that was refused."""
        table_end = self._lake.table_end(*partition.key)
        if position >= table_end:
            hole_end = partition.log.hole_end(position)
            if hole_end is None:
                raise missing_error(partition, position, self._lake)
            return None, hole_end
        searched = await in_table(position)
        if searched.found is None and searched.end <= position:
            raise missing_error(partition, position, self._lake)
        found = None if searched.found is None else Found(*searched.found)
        return found, searched.end

    async def _first_in_segments(
        self, partition: Partition, timestamp_ms: int, position: int
    ) -> Step:
        index, end = partition.log.index, _end_in_segments(partition, position)
        at = index.find_timestamp(timestamp_ms, position, end)
        if at is None:
            return None, end
        return await self._in_batch(index[at], position, _at_or_later(timestamp_ms))

    async def _newest_in_segments(
        self, partition: Partition, best: Found | None, position: int
    ) -> Step:
        index, end = partition.log.index, _end_in_segments(partition, position)
        at = index.max_timestamp(position, end)
        if at is None:
            return None, end
        entry = index[at]
        if best is not None and best.timestamp_ms >= entry.max_timestamp:
            return None, end
        if entry.base < position:  # what its header says may be of a record before
            return await self._in_batch(entry, position, _newest)
        look = _at_or_later(entry.max_timestamp)
        found, looked = await self._in_batch(entry, position, look)
        if looked <= entry.last:  # its segment was released: all from here on once more
            return None, position
        return found, end if found is not None else looked

    async def _in_batch(self, entry: Entry, start: int, choose: Choose) -> Step:
        """Look into one batch from offset ``start`` on; if its segment was released
        meanwhile, look there again: by then the table has the batch."""
        batch: Buffer | None = self._wal.view(entry.location, entry.length)

        def look() -> Found | None:
            kept = batch
            if kept is None:
                kept = self._wal.read([(entry.location, entry.length)])[0]
            return _record_at(kept, start, choose)

        try:
            found = await asyncio.get_running_loop().run_in_executor(None, look)
        except StaleSegment:
            return None, max(start, entry.base)
        return found, entry.last + 1


def _end_in_segments(partition: Partition, position: int) -> int:
    """Up to where all from ``position`` on is in segments."""
    lost = partition.log.next_lost(position)
    if lost is not None:
        return lost.first
    return partition.log.index.end_offset or position


def warm() -> None:
    """Load the code that looks into a batch: half a second, or more for the first time.
    Blocks; for a thread."""
    _record_at(empty_batches(0, 1)[0], 0, _newest)


def _at_or_later(timestamp_ms: int) -> Choose:
    """The first that is stamped so or later."""

    def choose(micros: Any) -> int | None:
        late = micros >= timestamp_ms * MICROS
        at = int(late.argmax())
        return at if late[at] else None

    return choose


def _newest(micros: Any) -> int:
    """The first with the greatest timestamp."""
    return int(micros.argmax())


def _record_at(batch: Buffer, start: int, choose: Choose) -> Found | None:
    """The chosen record of a batch from offset ``start`` on."""
    from broker.records.columns import to_columns  # loads compiled code: on a thread
    from lakehouse.plain import numbers

    rows = to_columns([batch], start)
    micros = numbers(rows.column("timestamp"))
    at = choose(micros) if len(micros) else None
    if at is None:
        return None
    offset = int(numbers(rows.column("offset"))[at])
    return Found(offset, int(micros[at]) // MICROS)
