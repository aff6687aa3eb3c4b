"""Rows of a table from an offset on, sorted, whatever its owner did to the files.

The problem: the broker serves old offsets from the table, and the table is its owner's:
rows may be deleted, by deletion vectors too, files rewritten unsorted, merged,
vacuumed, rows inserted that have no offset and so are no records. The idea: the index
finds the cluster of files, its plan finds the chunk, and a chunk is read whole; rows
are sorted by offset when they are not. An offset that is not there is a gap, which is
legal. A file that is not there raises FileVanished: the caller's index is old.

Nothing here is of one table: chunks are named by file and deletion vector, and these
never change. So one reader serves all tables, and any thread may use it.

The price: a row group of a million rows is decoded more than once (`large_groups`).
"""

import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from lakehouse.errors import ChunkTooLarge, FileVanished, TableUnreadable
from lakehouse.files.chunks import Chunk, Piece, Source, plan
from lakehouse.files.deletion_vectors import placed
from lakehouse.files.footers import WHOLE_BYTES_MAX, Footers
from lakehouse.files.large_groups import (
    LargeGroups,
    as_records,
    as_written,
    batch_rows,
    sorted_rows,
)
from lakehouse.files.page_source import Take
from lakehouse.files.pages import read_places
from lakehouse.index import Cluster, PartitionFiles
from lakehouse.location import path_inside
from lakehouse.places import Places
from lakehouse.plain import column_of, numbers
from lakehouse.schema import READ

ROWS_BYTES_MAX = 128 << 20
"""Rows of one chunk, out of many row groups, that take more are read in two."""
PLANS_KEPT = 256
PIECES_KEPT = 400_000
"""Of all plans together; each takes about 150 bytes."""
NO_END = 1 << 63
_LAST_OFFSET: Final = attrgetter("last_offset")
T = TypeVar("T")
HEADERS_BYTES_MAX = 1 << 30
"""A row group whose headers take more is refused: millions of empty ones are some bytes
in a file, and would take the memory of everybody."""


class Found(NamedTuple):
    """A chunk, and the files among whose chunks it is."""

    cluster: tuple[Source, ...]
    chunk: Chunk

    @property
    def name(self) -> tuple[object, ...]:
        """What nothing else is called that was ever found."""
        return self.cluster, self.chunk.first_offset, self.chunk.last_offset


class TableReader:
    """Reads chunks of any table; keeps footers, plans and a few slabs of rows."""

    def __init__(self) -> None:
        self._footers = Footers()
        self._plans: OrderedDict[tuple[Source, ...], list[Chunk]] = OrderedDict()
        self._pieces = 0
        self._large_groups = LargeGroups(self._footers)
        self._lock = threading.Lock()

    def clear(self) -> None:
        """Drop footers, plans and slabs that are kept; they are read again."""
        self._footers.clear()
        self._large_groups.clear()
        with self._lock:
            self._plans.clear()
            self._pieces = 0

    def find(self, root: str, files: PartitionFiles, offset: int) -> Found | None:
        """The first chunk that may hold ``offset`` or a later one; None at the end."""
        for cluster in files.clusters(offset):
            sources = _sources(root, cluster)
            chunks = self._plan(sources)
            at = bisect_left(chunks, offset, key=_LAST_OFFSET)
            if at < len(chunks):
                return Found(sources, chunks[at])
        return None

    def split(self, found: Found, fits: int) -> None:
        """Make two chunks of one that was too large: see `ChunkTooLarge`."""
        first = found.chunk._replace(last_offset=fits, is_whole=False)
        rest = found.chunk._replace(first_offset=fits + 1, is_whole=False)
        with self._lock:
            known = self._plans.get(found.cluster, [])
            if found.chunk in known:  # no other thread was faster
                at = known.index(found.chunk)
                chunks = [*known[:at], first, rest, *known[at + 1 :]]
                self._plans[found.cluster] = chunks
                self._pieces += len(found.chunk.pieces)

    def read(
        self, chunk: Chunk, columns: list[str] = READ, end_offset: int = NO_END
    ) -> Any:
        """The rows of a chunk as a ``pa.Table`` sorted by offset, none twice, and none
        at ``end_offset`` or above.

        Raises FileVanished, TableUnreadable when bytes are damaged, and ChunkTooLarge.
        """
        try:
            if chunk.is_whole:
                table = self._row_group(chunk.pieces[0], columns)
            else:
                table = pa.concat_tables(self._parts(chunk, columns))
        except FileNotFoundError as error:
            raise FileVanished(chunk.pieces[0].path) from error
        except (pa.ArrowException, OSError) as error:
            raise TableUnreadable(f"{chunk.pieces[0].path}: {error}") from error
        rows = sorted_rows(table)
        if chunk.last_offset < end_offset:
            return rows
        return rows.slice(0, int((numbers(rows.column("offset")) < end_offset).sum()))

    def read_places(
        self,
        chunk: Chunk,
        take: Take,
        use: Callable[[Places], T],
        end_offset: int = NO_END,
    ) -> list[T] | None:
        """What ``use`` makes of the rows that `read` would read, a part at a time and
        without Arrow; None if only `read` can tell. ``take`` gives so many bytes.

        Raises FileVanished.
        """
        if not chunk.is_whole or chunk.last_offset >= end_offset:
            return None
        path, number, _, _, vector = chunk.pieces[0]
        group = self._footers.get(path).groups[number]
        if group.layout is None or group.is_guess:
            return None
        if len(self._footers.deleted(path, number, vector)):
            return None
        try:
            return read_places(path, group.layout, take, use)
        except FileNotFoundError as error:
            raise FileVanished(path) from error
        except OSError:
            return None

    def find_timestamp(
        self,
        root: str,
        files: PartitionFiles,
        timestamp_ms: int,
        start_offset: int = 0,
        end_offset: int = NO_END,
    ) -> tuple[int, int] | None:
        """(offset, timestamp) of the first row from ``start_offset`` on, and below
        ``end_offset``, whose timestamp is ``timestamp_ms`` or later; None if there is
        none. Raises as `read` does.
        """
        for cluster in files.clusters(start_offset):
            if max(file.timestamp_max_ms for file in cluster) < timestamp_ms:
                continue
            for chunk in self._plan(_sources(root, cluster)):
                found = self._first_at(chunk, timestamp_ms, start_offset, end_offset)
                if found is not None:
                    return found
        return None

    def max_timestamp(
        self,
        root: str,
        files: PartitionFiles,
        start_offset: int = 0,
        end_offset: int = NO_END,
    ) -> tuple[int, int] | None:
        """(offset, timestamp) of the first row with the greatest timestamp in between.

        Chunks are read greatest bound first, until no other can hold more.
        """
        best: tuple[int, int] | None = None
        chunks = [
            chunk
            for cluster in self._newest_first(files, start_offset, end_offset)
            for chunk in self._plan(_sources(root, cluster))
            if chunk.last_offset >= start_offset
        ]
        for chunk in sorted(chunks, key=lambda c: -c.timestamp_max_ms):
            if best is not None and chunk.timestamp_max_ms < best[1]:
                break
            best = _greater(best, self._newest(chunk, start_offset, end_offset))
        return best

    def _newest_first(
        self, files: PartitionFiles, start_offset: int, end_offset: int
    ) -> list[Cluster]:
        """The clusters that may hold the greatest timestamp of all."""
        clusters = list(files.clusters(start_offset))
        bound = [max(file.timestamp_max_ms for file in c) for c in clusters]
        floor = [
            min(file.timestamp_min_ms for file in c)  # one may repeat another's offsets
            for c in clusters
            if all(
                start_offset <= file.first_offset
                and file.last_offset < end_offset
                and file.is_timed  # else that may be the time of what is no record
                and file.vector is None  # else no row may be left
                for file in c
            )
        ]
        # Some row is as late as the greatest lower bound: earlier clusters are out.
        return [
            cluster
            for cluster, high in zip(clusters, bound, strict=True)
            if high >= max(floor, default=high)
        ]

    def _newest(
        self, chunk: Chunk, start_offset: int, end_offset: int
    ) -> tuple[int, int] | None:
        offsets, times = self._times(chunk, end_offset)
        keep = offsets >= start_offset
        offsets, times = offsets[keep], times[keep]
        if not len(times):
            return None
        at = int(times.argmax())
        return int(offsets[at]), int(times[at])

    def _first_at(
        self, chunk: Chunk, timestamp_ms: int, start_offset: int, end_offset: int
    ) -> tuple[int, int] | None:
        if chunk.timestamp_max_ms < timestamp_ms or chunk.last_offset < start_offset:
            return None
        offsets, times = self._times(chunk, end_offset)
        hits = np.flatnonzero((times >= timestamp_ms) & (offsets >= start_offset))
        return (int(offsets[hits[0]]), int(times[hits[0]])) if len(hits) else None

    def _times(self, chunk: Chunk, end_offset: int) -> tuple[Any, Any]:
        """The offsets and timestamps (ms) of a chunk, in order of offsets."""
        table = self.read(chunk, ["offset", "timestamp"], end_offset)
        micros = numbers(table.column("timestamp"))
        return numbers(table.column("offset")), micros // 1000

    def _plan(self, sources: tuple[Source, ...]) -> list[Chunk]:
        with self._lock:
            known = self._plans.get(sources)
            if known is not None:
                self._plans.move_to_end(sources)
                return known
        chunks = plan(sources, self._footers)
        with self._lock:
            self._keep_plan(sources, chunks)
        return chunks

    def _keep_plan(self, sources: tuple[Source, ...], chunks: list[Chunk]) -> None:
        """Let the least recently used go while there are too many; one stays."""
        if sources in self._plans:  # another thread was faster
            return
        self._plans[sources] = chunks
        self._pieces += _pieces(chunks)
        while len(self._plans) > 1 and (
            len(self._plans) > PLANS_KEPT or self._pieces > PIECES_KEPT
        ):
            _, gone = self._plans.popitem(last=False)
            self._pieces -= _pieces(gone)

    def _row_group(self, piece: Piece, columns: list[str]) -> Any:
        if "headers" in columns:
            self._check_headers(piece.path, piece.row_group)
        if (
            columns == READ
            and self._footers.get(piece.path).groups[piece.row_group].is_guess
        ):
            return self._records(piece, self._counted(piece), columns)
        with self._footers.open(piece.path) as file:
            table = file.read_row_group(
                piece.row_group, columns=columns, use_threads=False
            )
        return self._records(piece, table, columns)

    def _records(self, piece: Piece, table: Any, columns: list[str]) -> Any:
        """A row group as it was read, without what are no records."""
        deleted = self._footers.deleted(piece.path, piece.row_group, piece.vector)
        if len(deleted):
            kept = np.ones(table.num_rows, bool)
            kept[deleted] = False
            table = table.take(column_of(np.flatnonzero(kept), pa.int64()))
        return as_records(as_written(table, columns))

    def _counted(self, piece: Piece) -> Any:
        """A row group as a whole, of which nobody knows what it takes. Raises
        ChunkTooLarge."""
        batches: list[Any] = []
        size = 0
        path, number = piece[:2]
        rows = batch_rows(self._footers.get(path).groups[number])
        with self._footers.open(path, buffered=True) as file:
            for batch in file.iter_batches(
                rows, row_groups=[number], columns=READ, use_threads=False
            ):
                batches.append(batch)
                size += batch.nbytes
                if size > WHOLE_BYTES_MAX:
                    raise ChunkTooLarge(
                        path, _middle(self._footers.offsets(path, number))
                    )
        return pa.Table.from_batches(batches).combine_chunks()

    def _check_headers(self, path: str, number: int) -> None:
        group = self._footers.get(path).groups[number]
        if group.headers_bytes > HEADERS_BYTES_MAX:
            raise TableUnreadable(
                f"{path}: the headers of row group {number} would take about "
                f"{group.headers_bytes} bytes of memory"
            )

    def _parts(self, chunk: Chunk, columns: list[str]) -> list[Any]:
        """The rows of each row group that lie in the chunk's range; one row group at a
        time, since all of them may not fit into memory."""
        parts: list[Any] = []
        size = 0
        groups = {piece[:2]: piece.vector for piece in sorted(chunk.pieces)}
        for (path, number), vector in groups.items():
            low, high = chunk.first_offset, chunk.last_offset
            if columns == READ:
                self._check_headers(path, number)
                rows = self._large_groups.rows(path, number, low, high, vector)
                parts.append(rows)
                size += parts[-1].nbytes
                if size > ROWS_BYTES_MAX:
                    _check_size(chunk, parts)
            else:
                group = self._row_group(Piece(path, number, vector=vector), columns)
                parts.append(_inside(group, low, high))
        return parts


def _sources(root: str, cluster: Cluster) -> tuple[Source, ...]:
    """Absolute paths; a file that lies elsewhere is none of ours to open."""
    sources = []
    for file in cluster:
        path = path_inside(root, file.relative_path)
        if path is None:
            raise TableUnreadable(f"{file.path} does not lie in {root}")
        sources.append(Source(path, placed(root, file.vector)))
    return tuple(sources)


def _pieces(chunks: list[Chunk]) -> int:
    return sum(len(chunk.pieces) for chunk in chunks)


def _check_size(chunk: Chunk, parts: list[Any]) -> None:
    """Raise ChunkTooLarge, unless all of these are of one offset: they are too much."""
    fits = _middle(np.concatenate([numbers(part.column("offset")) for part in parts]))
    if fits < chunk.last_offset:
        raise ChunkTooLarge(chunk.pieces[0].path, fits)


def _middle(offsets: Any) -> int:
    """The last offset of the first half: where to split what is too large."""
    return int(np.sort(offsets)[(len(offsets) - 1) // 2])


def _inside(group: Any, low: int, high: int) -> Any:
    """The rows of a row group with offsets in [low, high]."""
    offsets = numbers(group.column("offset"))
    chosen: Any = np.flatnonzero((offsets >= low) & (offsets <= high))
    return group.take(column_of(chosen, pa.int64()))


def _greater(
    one: tuple[int, int] | None, other: tuple[int, int] | None
) -> tuple[int, int] | None:
    """Of two rows the later in time; the lower offset if equal."""
    if one is None or other is None:
        return one or other
    return max(one, other, key=lambda row: (row[1], -row[0]))
