"""Old offsets, served out of the table: file -> row group -> columns -> batches.

The problem: a consumer that catches up reads faster than anybody else, from data that
must be found, decompressed, sorted perhaps, and turned into record batches again; and
none of it may be felt by a producer or by a consumer at the tail. The idea: all of it
happens on a few threads (decoding and encoding leave the interpreter's lock), a chunk
of about ten thousand rows at a time. Rebuilt chunks are kept in a bounded cache, and
while one is sent the next is made. What that does to others is bounded (`courtesy.py`).

What can go wrong on the way: a file that its owner vacuumed is looked for again in a
fresh snapshot, once. A table that cannot be read gives KAFKA_STORAGE_ERROR, whose
message says why. An offset that is not in the table is a gap.

The price: rebuilt batches are not compressed, and not those that were produced.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from broker.lake.cache import Cache
from broker.lake.courtesy import Courtesy
from broker.lake.table import TopicTable, View
from broker.memory import give_back_compiler
from broker.protocol.errors import ErrorCode, KafkaError
from lakehouse.errors import FileVanished, LakehouseError

CROSS_BELOW_BYTES = 256 << 10
"""An answer smaller than this waits for the next chunk, a larger one does not."""
AHEAD_CHUNKS = 2

T = TypeVar("T")


class ColdRead(NamedTuple):
    """Whole batches in order, and the offset at which reading goes on.

    The first batch may begin below the offset that was asked for. Without batches there
    is nothing up to ``next_offset``, which is then the end of the table.
    """

    batches: list[memoryview]
    next_offset: int


class Rebuilt(NamedTuple):
    """A chunk as record batches; ``lasts``: the last offset of each."""

    batches: list[memoryview]
    lasts: list[int]
    size_bytes: int

    def take(self, offset: int, bytes_max: int, *, greedy: bool) -> tuple[int, int]:
        """[from, to) of the batches from ``offset`` on that fit.

        ``greedy``: one at least.
        """
        start = end = bisect_left(self.lasts, offset)
        size = 0
        while end < len(self.batches):
            size += len(self.batches[end])
            if size > bytes_max and not (greedy and end == start):
                break
            end += 1
        return start, end


class ColdReader:
    """Reads tables on threads of its own; used from the event loop."""

    def __init__(self, cache_bytes: int, threads: int, courtesy: Courtesy) -> None:
        self._cache: Cache[Rebuilt] = Cache(cache_bytes)
        self._pool = ThreadPoolExecutor(threads, "lake-cold")
        self._courtesy = courtesy
        self._ahead: set[tuple[str, int]] = set()
        self._reader: Any = None

    @property
    def cached_bytes(self) -> int:
        return self._cache.size_bytes

    async def read(
        self, table: TopicTable, partition: int, offset: int, bytes_max: int
    ) -> ColdRead:
        """Batches from ``offset`` on, about ``bytes_max`` bytes, one at least.

        Raises KafkaError KAFKA_STORAGE_ERROR if the table cannot be read.
        """
        return await self._run(
            table, lambda view: self._read(table, view, partition, offset, bytes_max)
        )

    async def find_timestamp(
        self, table: TopicTable, partition: int, timestamp_ms: int, start_offset: int
    ) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record so late or later; None: none."""
        return await self._run(
            table,
            lambda view: self._table_reader().find_timestamp(
                table.path, view.files(partition), timestamp_ms, start_offset
            ),
        )

    async def max_timestamp(
        self, table: TopicTable, partition: int, start_offset: int
    ) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record with the greatest timestamp."""
        return await self._run(
            table,
            lambda view: self._table_reader().max_timestamp(
                table.path, view.files(partition), start_offset
            ),
        )

    def warm(self) -> None:
        """Load what the first read would: imports and compiled loops, on a thread."""
        self._pool.submit(self._warm)

    def _warm(self) -> None:
        import pyarrow as pa

        from broker.records.columns import from_columns
        from lakehouse.schema import READ, WRITE

        self._table_reader()
        kinds = [WRITE.field(name).type for name in READ]
        from_columns(pa.table([_any_value(pa, kind) for kind in kinds], READ))
        give_back_compiler()

    def close(self) -> None:
        """Finish what is under way; blocks."""
        self._pool.shutdown(cancel_futures=True)

    async def _run(self, table: TopicTable, work: Callable[[View], T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, _with_retry, table, work)

    def _read(
        self, table: TopicTable, view: View, partition: int, offset: int, bytes_max: int
    ) -> ColdRead:
        batches: list[memoryview] = []
        size, position = 0, offset
        while size < bytes_max:
            found = self._table_reader().find(
                table.path, view.files(partition), position
            )
            if found is None:
                position = max(position, view.ends.get(partition, 0))
                break
            ready = self._cache.is_ready(found[:2])
            if size >= CROSS_BELOW_BYTES and not ready:
                break
            rebuilt = self._rebuilt(found)
            start, end = rebuilt.take(position, bytes_max - size, greedy=not batches)
            batches += rebuilt.batches[start:end]
            size += sum(map(len, rebuilt.batches[start:end]))
            if end < len(rebuilt.batches):
                position = rebuilt.lasts[end - 1] + 1 if end > start else position
                break
            position = found.chunk.last_offset + 1
        self._read_ahead(table, view, partition, position)
        return ColdRead(batches, position)

    def _rebuilt(self, found: Any) -> Rebuilt:
        return self._cache.get(found[:2], lambda: self._rebuild(found.chunk))

    def _rebuild(self, chunk: Any) -> Rebuilt:
        from broker.records.batch import read_header
        from broker.records.columns import from_columns

        with self._courtesy.piece():
            batches = from_columns(self._table_reader().read(chunk))
        lasts = [read_header(batch).last_offset for batch in batches]
        return Rebuilt(batches, lasts, sum(map(len, batches)))

    def _read_ahead(
        self, table: TopicTable, view: View, partition: int, position: int
    ) -> None:
        """Have the next chunks made, unless that is under way for this partition."""
        key = table.path, partition
        if key in self._ahead:
            return
        self._ahead.add(key)
        try:
            self._pool.submit(self._make_ahead, key, view, position)
        except RuntimeError:  # closing
            self._ahead.discard(key)

    def _make_ahead(self, key: tuple[str, int], view: View, position: int) -> None:
        path, partition = key
        try:
            for _ in range(AHEAD_CHUNKS):
                found = self._table_reader().find(path, view.files(partition), position)
                if found is None:
                    return
                if not self._cache.holds(found[:2]):
                    self._rebuilt(found)
                position = found.chunk.last_offset + 1
        except (LakehouseError, ValueError):
            pass  # whoever wants the rows will meet it, and tell
        finally:
            self._ahead.discard(key)

    def _table_reader(self) -> Any:
        """Made by the first cold read: pyarrow is not loaded before it is needed."""
        if self._reader is None:
            from lakehouse.reader import TableReader

            self._reader = TableReader()
        return self._reader


def _any_value(pa: Any, kind: Any) -> Any:
    """One zero or null, of a buffer: Arrow loads pandas, 50 MB, to look at lists."""
    if not pa.types.is_primitive(kind):
        return pa.nulls(1, kind)
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes(8))])


def _with_retry(table: TopicTable, work: Callable[[View], T]) -> T:
    """Do it on the newest view; once more on a fresh one if a file is gone."""
    try:
        try:
            return work(_readable(table))
        except FileVanished:
            table.reload()
            return work(_readable(table))
    except (LakehouseError, ValueError, OSError) as error:
        raise _storage_error(table, str(error)) from error


def _readable(table: TopicTable) -> View:
    view = table.view
    if view.unreadable is not None:
        raise _storage_error(table, view.unreadable)
    return view


def _storage_error(table: TopicTable, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.KAFKA_STORAGE_ERROR, f"the table {table.path} cannot be read: {why}"
    )
