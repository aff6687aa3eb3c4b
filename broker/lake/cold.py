"""Old offsets, served out of the table: file -> row group -> columns -> batches.

The problem: a consumer that catches up reads faster than anybody else, from data that
must be found, decompressed, sorted perhaps, and turned into record batches again; and
none of it may be felt by a producer or by a consumer at the tail. The idea: all of it
happens on a few threads (decoding and encoding leave the interpreter's lock), a chunk
of about ten thousand rows at a time. Rebuilt chunks are kept in a bounded cache, and
while one is sent the next ones are made, beside each other. What is made by the time it
is asked for is answered at once, on the loop: a hop to a thread and back takes longer
than that. What all of it does to others is bounded (``cpu_throttle.py``).

What can go wrong on the way: a file that its owner vacuumed is looked for again in the
newest log entries, once. A table that cannot be read gives KAFKA_STORAGE_ERROR, whose
message says why; what stands before the file that is gone or damaged is served. An
offset that is not in the table is a gap. A row at the table's end or above is its
owner's INSERT: that offset is, or will be, another record's.

The price: rebuilt batches are not compressed, and not those that were produced.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import Any, Final, NamedTuple, TypeVar

from broker.lake.cache import Cache
from broker.lake.cpu_throttle import CpuThrottle
from broker.lake.faults import LOOK_S, Fault, Faults
from broker.lake.rebuilt import Rebuilt, Taken
from broker.lake.table import TopicTable, View
from broker.memory import give_back_compiler
from broker.protocol.errors import ErrorCode, KafkaError
from broker.status.histogram import TIMES, Histogram, HistogramState
from lakehouse.errors import ChunkTooLarge, FileVanished, LakehouseError
from lakehouse.index import PartitionFiles

CROSS_BELOW_BYTES = 256 << 10
"""An answer smaller than this waits for the next chunk, a larger one does not."""
AHEAD_CHUNKS = 2
COMING_KEPT = 64
"""Of so many partitions it is known what comes next: each keeps a view alive."""
REST_S = 10.0
"""What was kept for readers goes when nobody has read old offsets for so long."""

_UNREADABLE: Final = (LakehouseError, ValueError, OSError)
"""What a file raises that is gone or damaged."""

T = TypeVar("T")


class ColdRead(NamedTuple):
    """Whole batches in order, and the offset at which reading goes on.

    The first batch may begin below the offset that was asked for. Without batches there
    is nothing up to ``next_offset``, which is then the end of the table.
    """

    batches: list[memoryview]
    next_offset: int


class Searched(NamedTuple):
    """What a search by time found: (offset, timestamp ms) or None.

    ``end``: the table's end when it was searched; what follows was not looked at.
    """

    found: tuple[int, int] | None
    end: int


class ColdFigures(NamedTuple):
    """What was read for consumers since the start, and found in memory."""

    times: HistogramState
    """In nanoseconds, what a read waited included."""
    bytes_out: int
    cache_hits: int
    cache_misses: int
    cache_bytes: int


class Coming(NamedTuple):
    """What a reader of a partition will want next, of one view of its table: from the
    offset ``first`` on, of each chunk the name in the cache, and where it stops."""

    view: View
    first: int
    chunks: list[tuple[tuple[Any, ...], int]]


class ColdReader:
    """Reads tables on threads of its own; used from the event loop."""

    def __init__(self, cache_bytes: int, threads: int, throttle: CpuThrottle) -> None:
        self._cache: Cache[Rebuilt] = Cache(cache_bytes)
        self._pool = ThreadPoolExecutor(threads, "lake-cold")
        self._ahead_pool = ThreadPoolExecutor(threads, "lake-ahead")
        """Who waits for an answer does not wait behind what nobody asked for yet."""
        self._coming: OrderedDict[tuple[str, int], Coming] = OrderedDict()
        self._throttle = throttle
        self._ahead: set[Hashable] = set()
        self._reader: Any = None
        self._buffers: Any = None
        self._reading = 0
        self._read_s = 0.0
        self._times, self._bytes_out = Histogram(TIMES), 0
        self._watch: asyncio.TimerHandle | None = None
        self.faults = Faults()
        """Where a read came to nothing, until it comes to something again."""
        self._look: Future[None] | None = None
        self._looked_s = 0.0

    async def read(
        self, table: TopicTable, partition: int, offset: int, bytes_max: int
    ) -> ColdRead:
        """Batches from ``offset`` on, about ``bytes_max`` bytes, one at least.

        Raises KafkaError KAFKA_STORAGE_ERROR if the table cannot be read.
        """
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        try:
            found = self._made(table, partition, offset, bytes_max)
            if found is None:
                found = await self._run(
                    table,
                    lambda view: self._read(table, view, partition, offset, bytes_max),
                )
        except KafkaError as error:
            if isinstance(error.__cause__, _UNREADABLE):
                self.faults.add(Fault(table, partition, offset, _why(error.__cause__)))
            raise
        self._times.add_time(int((loop.time() - begun_s) * 1e9))
        self._bytes_out += sum(map(len, found.batches))
        return found

    def look_again(self) -> None:
        """Try again what came to nothing, if that is some seconds ago: on one thread,
        however long it takes there."""
        if not self.faults:
            return
        now_s = asyncio.get_running_loop().time()
        if self._look is not None and not self._look.done():
            self._looked_s = now_s
        elif now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            with contextlib.suppress(RuntimeError):  # closing
                self._look = self._pool.submit(self._look_again)

    def _look_again(self) -> None:
        for fault in self.faults.all():
            table, partition, offset, _ = fault
            view = table.view
            if view.unreadable is not None:
                continue
            with contextlib.suppress(*_UNREADABLE):
                self._collect(table, view, partition, offset, bytes_max=1)
                self.faults.drop(fault)

    def figures(self) -> ColdFigures:
        """What was counted until now."""
        cache = self._cache
        return ColdFigures(
            self._times.state(),
            self._bytes_out,
            cache.hits,
            cache.misses,
            cache.size_bytes,
        )

    async def find_timestamp(
        self, table: TopicTable, partition: int, timestamp_ms: int, start_offset: int
    ) -> Searched:
        """The first record stamped ``timestamp_ms`` or later, in order of offsets."""
        return await self._search(
            table,
            partition,
            lambda files, end: self._table_reader().find_timestamp(
                table.path, files, timestamp_ms, start_offset, end
            ),
        )

    async def max_timestamp(
        self, table: TopicTable, partition: int, start_offset: int
    ) -> Searched:
        """The first record with the greatest timestamp."""
        return await self._search(
            table,
            partition,
            lambda files, end: self._table_reader().max_timestamp(
                table.path, files, start_offset, end
            ),
        )

    def warm(self) -> None:
        """Load what the first read would: imports and compiled loops, on a thread."""
        self._pool.submit(self._warm)

    def _warm(self) -> None:
        import pyarrow as pa

        from broker.records.rebatch import from_columns
        from lakehouse.schema import READ, WRITE

        self._table_reader()
        kinds = [WRITE.field(name).type for name in READ]
        from_columns(pa.table([_any_value(pa, kind) for kind in kinds], READ))
        give_back_compiler()

    def close(self) -> None:
        """Finish what is under way; blocks."""
        if self._watch is not None:
            self._watch.cancel()
        self._ahead_pool.shutdown(cancel_futures=True)
        self._pool.shutdown(cancel_futures=True)

    async def _search(
        self,
        table: TopicTable,
        partition: int,
        look: Callable[[PartitionFiles, int], Any],
    ) -> Searched:
        def work(view: View) -> Searched:
            end = view.ends.get(partition, 0)
            return Searched(look(view.files(partition), end), end)

        return await self._run(table, work)

    async def _run(self, table: TopicTable, work: Callable[[View], T]) -> T:
        loop = asyncio.get_running_loop()
        if self._watch is None:
            self._watch = loop.call_later(REST_S, self._rest_if_over, loop)
        self._reading += 1
        try:
            return await loop.run_in_executor(self._pool, _with_retry, table, work)
        finally:
            self._reading -= 1
            self._read_s = loop.time()

    def _rest_if_over(self, loop: asyncio.AbstractEventLoop) -> None:
        is_busy = self._reading or self._ahead
        left_s = REST_S if is_busy else self._read_s + REST_S - loop.time()
        if is_busy or left_s > 0:
            self._watch = loop.call_later(left_s, self._rest_if_over, loop)
            return
        self._watch = None
        with contextlib.suppress(RuntimeError):  # closing
            self._pool.submit(self.rest)

    def rest(self) -> None:
        """Drop what is kept for readers; any thread."""
        self._cache.clear()
        self._coming.clear()
        if self._reader is not None:
            self._reader.clear()
            self._buffers.clear()

    def _read(
        self, table: TopicTable, view: View, partition: int, offset: int, bytes_max: int
    ) -> ColdRead:
        found = self._collect(table, view, partition, offset, bytes_max)
        self._read_ahead(table, view, partition, found.next_offset)
        return found

    def _made(
        self, table: TopicTable, partition: int, offset: int, bytes_max: int
    ) -> ColdRead | None:
        """The same of what is made already; None if that is not enough."""
        coming = self._coming.get((table.path, partition))
        if coming is None or self._watch is None:
            return None
        if coming.view is not table.view or offset < coming.first:
            return None
        taken = Taken(offset, bytes_max)
        for name, stop in coming.chunks:
            if stop <= offset:
                continue
            rebuilt = self._cache.kept(name)
            if rebuilt is None or not taken.add(rebuilt, stop):
                break
        if taken.size_bytes < CROSS_BELOW_BYTES:
            return None
        self._read_s = asyncio.get_running_loop().time()
        self._read_ahead(table, coming.view, partition, taken.position)
        return ColdRead(taken.batches, taken.position)

    def _collect(
        self, table: TopicTable, view: View, partition: int, offset: int, bytes_max: int
    ) -> ColdRead:
        taken, table_end = Taken(offset, bytes_max), view.ends.get(partition, 0)
        while taken.size_bytes < bytes_max and taken.position < table_end:
            try:
                found = self._table_reader().find(
                    table.path, view.files(partition), taken.position
                )
                if found is None:
                    return ColdRead(taken.batches, table_end)
                ready = self._cache.is_ready(_name(found, table_end))
                if taken.size_bytes >= CROSS_BELOW_BYTES and not ready:
                    break
                rebuilt = self._rebuilt(found, table_end)
            except ChunkTooLarge as error:
                self._table_reader().split(found, error.fits)
                continue
            except _UNREADABLE:
                if not taken.batches:
                    raise
                break  # who reads on from there meets it
            if not taken.add(rebuilt, _stop(found, table_end)):
                break
        return ColdRead(taken.batches, taken.position)

    def _rebuilt(self, found: Any, table_end: int) -> Rebuilt:
        return self._cache.get(
            _name(found, table_end), lambda: self._rebuild(found.chunk, table_end)
        )

    def _rebuild(self, chunk: Any, table_end: int) -> Rebuilt:
        from broker.lake.buffer_pool import retained_bytes
        from broker.records.batch import read_header
        from broker.records.rebatch import from_columns, from_places

        take, reader = self._buffers.take, self._table_reader()
        with self._throttle.slot():
            parts = reader.read_places(
                chunk, take, lambda part: from_places(part, take=take), table_end
            )
            if parts is None:
                rows = reader.read(chunk, end_offset=table_end)
                parts = [from_columns(rows, take=take)]
        batches = list(chain.from_iterable(parts))
        lasts = [read_header(batch).last_offset for batch in batches]
        return Rebuilt(batches, lasts, retained_bytes(batches))

    def _read_ahead(
        self, table: TopicTable, view: View, partition: int, position: int
    ) -> None:
        """Have the next chunks made, beside each other."""
        key = table.path, partition
        self._go_ahead(key, lambda: self._find_ahead(key, view, position))

    def _go_ahead(self, name: Hashable, work: Callable[[], object]) -> None:
        """Do it on a thread, unless what has this name is to be done already."""

        def do() -> None:
            try:
                work()
            except _UNREADABLE:
                pass  # whoever wants the rows will meet it, and tell
            finally:
                self._ahead.discard(name)

        if name in self._ahead:
            return
        self._ahead.add(name)
        try:
            self._ahead_pool.submit(do)
        except RuntimeError:  # closing
            self._ahead.discard(name)

    def _find_ahead(self, key: tuple[str, int], view: View, position: int) -> None:
        """The chunk at which reading goes on, and those behind it."""
        path, partition = key
        table_end, first, chunks = view.ends.get(partition, 0), position, []
        for _ in range(1 + AHEAD_CHUNKS):
            found = self._table_reader().find(path, view.files(partition), position)
            if found is None:
                break
            position = _stop(found, table_end)
            chunks.append((_name(found, table_end), position))
            self._make_ahead(found, table_end)
        self._coming[key] = Coming(view, first, chunks)
        while len(self._coming) > COMING_KEPT:
            self._coming.popitem(last=False)

    def _make_ahead(self, found: Any, table_end: int) -> None:
        name = _name(found, table_end)
        if not self._cache.holds(name):
            self._go_ahead(name, lambda: self._rebuilt(found, table_end))

    def _table_reader(self) -> Any:
        """Made by the first cold read: pyarrow is not loaded before it is needed. What
        is rebuilt has buffers then, too."""
        if self._reader is None:
            from broker.lake.buffer_pool import BufferPool
            from lakehouse.files.reader import TableReader

            self._buffers, self._reader = BufferPool(), TableReader()
        return self._reader


def _name(found: Any, table_end: int) -> tuple[Any, ...]:
    """The name of a chunk in the cache; where the table ends inside, that counts."""
    cut = table_end if found.chunk.last_offset >= table_end else None
    return found.name, cut


def _stop(found: Any, table_end: int) -> int:
    """Where reading goes on behind a chunk."""
    return min(int(found.chunk.last_offset) + 1, table_end)


def _any_value(pa: Any, kind: Any) -> Any:
    """One zero or null, of a buffer: Arrow loads pandas, 50 MB, to look at lists."""
    if not pa.types.is_primitive(kind):
        return pa.nulls(1, kind)
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes(8))])


def _with_retry(table: TopicTable, work: Callable[[View], T]) -> T:
    """Do it on the newest view; once more after a search if a file is gone."""
    try:
        try:
            return work(_readable(table))
        except FileVanished:
            table.search()
            return work(_readable(table))
    except _UNREADABLE as error:
        raise _storage_error(table, _why(error)) from error


def _why(error: BaseException) -> str:
    """A file's path is all that some errors say."""
    return f"{error} is not there" if isinstance(error, FileVanished) else str(error)


def _readable(table: TopicTable) -> View:
    view = table.view
    if view.unreadable is not None:
        raise _storage_error(table, view.unreadable)
    return view


def _storage_error(table: TopicTable, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.KAFKA_STORAGE_ERROR, f"the table {table.path} cannot be read: {why}"
    )
