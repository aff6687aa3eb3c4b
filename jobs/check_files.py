"""The data files of a table, each read whole, and their offsets compared: none twice.

The problem: of a billion rows the offsets alone would take eight gigabytes of memory.
The idea: a file is read some rows at a time, and only its bounds are kept, and whether
its offsets rise. Where no other file reaches into the range of one that does, none is
there twice. Where files overlap, or one is in no order (an owner's OPTIMIZE), their
offsets are read again, a share of all offsets at a time: equal ones are of one share.

The price: a large table in no order is read as many times as it has `ROWS_AT_ONCE`,
though of it nothing but offsets.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from jobs.check_report import Report
from lakehouse.errors import FileVanished
from lakehouse.files.chunks import Source
from lakehouse.files.deletion_vectors import DeletedRows, placed
from lakehouse.files.footers import Footers
from lakehouse.files.large_groups import BATCH_ROWS, as_written, with_offsets
from lakehouse.files.repeated import open_parquet
from lakehouse.log.actions import NO_PARTITION, UNKNOWN_MAX, UNKNOWN_MIN, DataFile
from lakehouse.plain import column_of, numbers

ROWS_AT_ONCE: Final = 8 << 20
"""Offsets that are compared at once: 64 MiB, and as much to sort them."""
OFFSETS_A_READ: Final = 1 << 16
_SPREAD: Final = 0x9E3779B97F4A7C15
"""Makes shares alike, whatever offsets an owner deleted: 2 ** 64 / the golden ratio."""

_deleted_rows = DeletedRows()


class Span(NamedTuple):
    """What the rows of a file span; offsets and times are inclusive, and times those of
    rows that have one.

    ``rises``: each row's offset is above that of the row before it.
    """

    source: Source
    rows: int
    first_offset: int
    last_offset: int
    first_us: int
    last_us: int
    rises: bool
    partitions: frozenset[int]
    """What the rows say themselves, if they do."""


def check_file(path: str, file: DataFile, where: str, report: Report) -> Span | None:
    """Read a file whole, and hold it against its ``add``; None if it has no records.

    Raises FileVanished, and whatever Arrow does when it is damaged.
    """
    full = os.path.join(path, file.relative_path)
    span, others = _read(Source(full, placed(path, file.vector)))
    rows = others + (0 if span is None else span.rows)
    report.count("rows", rows)
    if others:
        report.remarks.append(
            f"{where} has {others} rows without an offset: its owner's, and no records"
        )
    if os.path.getsize(full) != file.size:
        report.problems.append(f"{where} has not the size that the log says")
    if file.rows not in (-1, rows):
        report.problems.append(f"{where} has {rows} rows, not {file.rows}")
    if span is not None:
        _check_bounds(where, file, span, report)
    return span


def _check_bounds(where: str, file: DataFile, span: Span, report: Report) -> None:
    """Statistics may be wider than the rows (after a rewrite), never narrower."""
    if span.partitions - {file.partition}:
        report.problems.append(f"{where} holds rows of other partitions")
    if span.first_offset < file.first_offset or span.last_offset > file.last_offset:
        report.problems.append(f"{where} has offsets outside its statistics")
    first_ms, last_ms = span.first_us // 1000, span.last_us // 1000
    if first_ms < file.timestamp_min_ms or last_ms > file.timestamp_max_ms:
        report.problems.append(f"{where} has timestamps outside its statistics")


def _read(source: Source) -> tuple[Span | None, int]:
    """What the records of a file span, and how many rows have no offset."""
    left, footers = _Left(source), Footers()
    span, others = None, 0
    for number in range(len(footers.get(source.path).groups)):
        with footers.open_in_pieces(source.path, number) as parquet:
            for batch in parquet.iter_batches(
                BATCH_ROWS, row_groups=[number], use_threads=False
            ):
                rows = left.of(batch)
                missing = _rows_without_offset(rows)
                others += missing
                if rows.num_rows > missing:
                    some = _span_of(source, rows)
                    span = some if span is None else _joined(span, some)
    return span, others


class _Left:
    """Of a file's rows, taken batch by batch in their order, those that its owner has
    not deleted. Raises FileVanished and TableUnreadable."""

    def __init__(self, source: Source) -> None:
        self._deleted = _deleted_rows.of(source.vector)
        self._row = 0

    def of(self, batch: Any) -> Any:
        """The next batch, without deleted rows."""
        import numpy as np
        import pyarrow as pa

        first, self._row = self._row, self._row + batch.num_rows
        low, high = np.searchsorted(self._deleted, (first, self._row))
        if low == high:
            return batch
        kept = np.ones(batch.num_rows, bool)
        kept[self._deleted[low:high] - first] = False
        return batch.take(column_of(np.flatnonzero(kept), pa.int64()))


def _span_of(source: Source, batch: Any) -> Span:
    import numpy as np
    import pyarrow as pa

    known = as_written(pa.Table.from_batches([batch]), ["offset", "timestamp"])
    if _rows_without_offset(batch):
        known = with_offsets(known)
    offsets, micros = numbers(known["offset"]), numbers(known["timestamp"].drop_null())
    partitions: list[int] = []
    if "partition" in batch.schema.names:
        found = batch.column("partition").unique().to_pylist()
        partitions = [NO_PARTITION if one is None else one for one in found]
    return Span(
        source,
        len(offsets),
        int(offsets.min()),
        int(offsets.max()),
        int(micros.min(initial=UNKNOWN_MAX)),
        int(micros.max(initial=UNKNOWN_MIN)),
        bool((np.diff(offsets) > 0).all()),
        frozenset(partitions),
    )


def _rows_without_offset(batch: Any) -> int:
    """None, if the file has not even the column."""
    known = "offset" in batch.schema.names
    return batch.column("offset").null_count if known else 0


def _joined(one: Span, other: Span) -> Span:
    """The span of rows and of those that follow them."""
    return Span(
        one.source,
        one.rows + other.rows,
        min(one.first_offset, other.first_offset),
        max(one.last_offset, other.last_offset),
        min(one.first_us, other.first_us),
        max(one.last_us, other.last_us),
        one.rises and other.rises and one.last_offset < other.first_offset,
        one.partitions | other.partitions,
    )


def doubled(spans: Iterable[Span], rows_at_once: int = ROWS_AT_ONCE) -> int:
    """How many rows of these files of one partition repeat the offset of another.

    A file that is not there any more is left out.
    """
    found = 0
    for cluster in _clusters(spans):
        if len(cluster) > 1 or not cluster[0].rises:
            found += _doubled_in(cluster, rows_at_once)
    return found


def _clusters(spans: Iterable[Span]) -> Iterator[list[Span]]:
    """Lists of files that overlap each other; those of two lists never do."""
    cluster: list[Span] = []
    reach = 0
    for span in sorted(spans, key=lambda span: span.first_offset):
        if cluster and span.first_offset > reach:
            yield cluster
            cluster = []
        reach = max(reach, span.last_offset) if cluster else span.last_offset
        cluster.append(span)
    if cluster:
        yield cluster


def _doubled_in(cluster: Sequence[Span], rows_at_once: int) -> int:
    import numpy as np

    shares = -(-sum(span.rows for span in cluster) // rows_at_once)
    found = 0
    for share in range(shares):
        parts = [np.empty(0, np.int64)]
        for span in cluster:
            parts += _offsets(span.source, share, shares)
        found += int((np.diff(np.sort(np.concatenate(parts))) == 0).sum())
    return found


def _offsets(source: Source, share: int, shares: int) -> Iterator[Any]:
    """The offsets of a file that are of this share."""
    import numpy as np
    import pyarrow as pa

    try:
        left = _Left(source)
        with open_parquet(source.path, buffered=True) as parquet:
            for batch in parquet.iter_batches(
                OFFSETS_A_READ, columns=["offset"], use_threads=False
            ):
                rows = pa.Table.from_batches([left.of(batch)])
                known = as_written(rows, ["offset"])
                offsets = numbers(with_offsets(known)["offset"])
                mixed = offsets.astype(np.uint64) * np.uint64(_SPREAD)
                yield offsets[(mixed >> np.uint64(32)) % np.uint64(shares) == share]
    except FileVanished:
        return
