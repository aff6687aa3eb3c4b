"""Between batches and columns: the crossing from log to table, and back.

A batch is rows, a table is columns. Going over takes one compiled pass that finds each
field and one that copies it into place; coming back takes one that measures and one
that writes. Everything that a consumer could see survives both ways, byte for byte:
null and empty, the order and repetition of headers, timestamps and their type. What
only producers and brokers see (producer id, sequence, codec, how records were grouped)
does not.

Batches come one by one, or in runs (`broker.records.runs`) that were verified already.

Memory is bounded by what one call is given at a time: columns come in groups of about
`lakehouse.schema.ROW_GROUP_ROWS` rows or 16 MiB, whichever is first, however many
batches go in and however far they decompress.

Importing this loads numpy, pyarrow and the compiled loops: a broker does it on a
thread, when some table holds something.

Source: Kafka's ``DefaultRecordBatch``; Arrow's columnar format.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from broker.protocol.errors import ErrorCode, KafkaError
from broker.records import kernels
from broker.records.batch import (
    CODEC_NONE,
    BatchHeader,
    Buffer,
    checksum,
    read_header,
)
from broker.records.decompress import Decompressor
from broker.records.layout import HEADER_BYTES
from broker.records.limits import HEADERS_MAX, UNCOMPRESSED_BYTES_MAX
from broker.records.runs import Ints, Run
from lakehouse.plain import buffer_of, column_of
from lakehouse.schema import HEADERS, ROW_GROUP_ROWS, WRITE

GROUP_BYTES: Final = 16 << 20
_OFFSET_MAX: Final = 2**63 - 1
_ROW_FIELDS: Final = 9

Bytes = npt.NDArray[np.uint8]


def to_columns(
    batches: Sequence[Buffer],
    start_offset: int | None = None,
    end_offset: int | None = None,
    *,
    topic: str = "",
    partition: int = 0,
) -> pa.RecordBatch:
    """All records as one ``pa.RecordBatch`` of `lakehouse.schema.WRITE`.

    Only offsets in ``[start_offset, end_offset)`` are taken. Raises as `decode` does.
    """
    parts = list(
        decode(batches, start_offset, end_offset, topic=topic, partition=partition)
    )
    if len(parts) == 1:
        return parts[0]
    table = pa.Table.from_batches(parts, WRITE)
    whole = table.combine_chunks().to_batches()
    return whole[0] if whole else _no_rows()


def decode(
    batches: Iterable[Buffer | Run],
    start_offset: int | None = None,
    end_offset: int | None = None,
    *,
    topic: str = "",
    partition: int = 0,
    rows_max: int = 0,
    bytes_max: int = GROUP_BYTES,
) -> Iterator[pa.RecordBatch]:
    """The records of many batches as ``pa.RecordBatch`` es of bounded size.

    A group closes when it has ``rows_max`` rows (default: a row group's) or
    ``bytes_max`` bytes of decompressed records. Batches are taken as they are needed.

    Raises KafkaError CORRUPT_MESSAGE if a batch is cut off, fails its checksum or does
    not decompress, INVALID_RECORD if a record is not what it should be.
    """
    rows_max = rows_max or ROW_GROUP_ROWS
    first = 0 if start_offset is None else start_offset
    end = _OFFSET_MAX if end_offset is None else end_offset
    for group in _groups(batches, rows_max, bytes_max):
        for rows, arena in _scan(group, first, end, 2 * rows_max):
            for some in _by_headers(rows):
                yield _record_batch(some, arena, topic, partition)


class _Group:
    """Headers and decompressed records of some batches, which are scanned together."""

    def __init__(self, rows_max: int, bytes_max: int) -> None:
        self._rows_left, self._bytes_left = rows_max, bytes_max
        self._parts: list[Any] = []
        self._lengths: list[Ints] = []

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def is_full(self) -> bool:
        return self._rows_left <= 0 or self._bytes_left <= 0

    def add(self, header: Buffer, records: Buffer, count: int) -> None:
        """One more batch, decompressed; ``count``: the records that it claims."""
        self._parts += [header, records]
        self._lengths.append(np.array([HEADER_BYTES + len(records)], np.int64))
        self._rows_left -= count
        self._bytes_left -= len(records)

    def fill(self, run: Run) -> Run:
        """The first of these, which are not compressed: as many as it takes. What is
        left of them."""
        rows, sizes = np.cumsum(run.records), np.cumsum(run.length - HEADER_BYTES)
        enough = int(np.searchsorted(rows, self._rows_left))
        enough = 1 + min(enough, int(np.searchsorted(sizes, self._bytes_left)))
        taken = run.cut(slice(enough))
        self._parts.append(taken.joined())
        self._lengths.append(taken.length)
        self._rows_left -= int(rows[len(taken) - 1])
        self._bytes_left -= int(sizes[len(taken) - 1])
        return run.cut(slice(enough, None))

    def arena(self) -> tuple[Bytes, Ints]:
        """All of it in one buffer, because the loop takes one; where each batch begins
        in it, and its end. The copy costs a fiftieth of what writing the same bytes as
        Parquet does."""
        parts = self._parts
        whole = parts[0] if len(parts) == 1 else b"".join(parts)
        starts = np.cumsum(np.concatenate([np.zeros(1, np.int64), *self._lengths]))
        return np.frombuffer(whole, np.uint8), starts


def _groups(
    batches: Iterable[Buffer | Run], rows_max: int, bytes_max: int
) -> Iterator[_Group]:
    """Runs of batches that together are one group."""
    group, decompressor = _Group(rows_max, bytes_max), Decompressor()
    for one in _plain_or_single(batches):
        rest: Run | None = None
        if isinstance(one, Run):
            rest = one
        else:
            header, batch = one
            records = _decompressed(batch, header, decompressor)
            group.add(memoryview(batch)[:HEADER_BYTES], records, header.record_count)
        while rest or group.is_full:
            if rest:
                rest = group.fill(rest)
            if group.is_full:
                yield group
                group = _Group(rows_max, bytes_max)
    if group:
        yield group


def _plain_or_single(
    batches: Iterable[Buffer | Run],
) -> Iterator[Run | tuple[BatchHeader, Buffer]]:
    """The same batches, verified: in runs of which none is compressed, or by
    themselves."""
    for one in batches:
        if not isinstance(one, Run):
            yield _verified(one), one
        elif one.is_plain:
            yield one
        else:
            yield from ((read_header(batch), batch) for batch in one.batches())


def _verified(batch: Buffer) -> BatchHeader:
    header = read_header(batch)
    if header.size != len(batch) or checksum(batch) != header.crc:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"the batch at offset {header.base_offset} fails its checksum",
        )
    return header


def _decompressed(
    batch: Buffer, header: BatchHeader, decompressor: Decompressor
) -> Buffer:
    records = memoryview(batch)[HEADER_BYTES:]
    if header.codec == CODEC_NONE:
        return records
    return bytes(decompressor.decompress(header.codec, records, UNCOMPRESSED_BYTES_MAX))


def _scan(
    group: _Group, first: int, end: int, rows_max: int
) -> Iterator[tuple[Ints, Bytes]]:
    """Yield (rows, arena): what `kernels.scan` finds, and the bytes it points to."""
    arena, starts = group.arena()
    progress = np.zeros(5, np.int64)
    # A count may lie; a record has seven bytes at least.
    capacity = min(rows_max, len(arena) // 7 + 1)
    while progress[0] < len(starts) - 1:
        rows = np.empty((_ROW_FIELDS, capacity), np.int64)
        filled = kernels.scan(arena, starts, progress, first, end, rows)
        if progress[4] != kernels.OK:
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                f"record {progress[1]} of a batch: {kernels.WHY[int(progress[4])]}",
            )
        if filled:
            yield rows[:, :filled], arena


def _by_headers(rows: Ints) -> Iterator[Ints]:
    """The rows in runs of at most `HEADERS_MAX` headers, or of one row."""
    counts = rows[8]
    if counts.sum() <= HEADERS_MAX:
        yield rows
        return
    ends = np.cumsum(counts)
    start = 0
    while start < len(ends):
        before = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, before + HEADERS_MAX, side="right"))
        stop = max(stop, start + 1)
        yield rows[:, start:stop]
        start = stop


def _record_batch(
    rows: Ints, arena: Bytes, topic: str, partition: int
) -> pa.RecordBatch:
    count = rows.shape[1]
    columns = [
        column_of(np.full(count, partition, np.int32), pa.int32()),
        column_of(rows[0], pa.int64()),
        column_of(rows[1] * 1000, WRITE.field("timestamp").type),
        column_of(rows[2].astype(np.int32), pa.int32()),
        _repeated(topic, count),
        _binary(arena, rows[3], rows[4], pa.binary()),
        _binary(arena, rows[5], rows[6], pa.binary()),
        _headers(arena, rows[7], rows[8]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=WRITE)


def _repeated(text: str, count: int) -> "pa.Array[Any]":
    one = text.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(one))
    buffers = [None, buffer_of(offsets), pa.py_buffer(one * count)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def _binary(arena: Bytes, at: Ints, length: Ints, kind: pa.DataType) -> "pa.Array[Any]":
    at, length = np.ascontiguousarray(at), np.ascontiguousarray(length)
    count = len(at)
    offsets = np.empty(count + 1, np.int32)
    validity = np.zeros((count + 7) // 8, np.uint8)
    data = np.empty(int(np.maximum(length, 0).sum()), np.uint8)
    nulls = kernels.gather(arena, at, length, offsets, validity, data)
    buffers = [
        buffer_of(validity) if nulls else None,
        buffer_of(offsets),
        buffer_of(data),
    ]
    return pa.Array.from_buffers(kind, count, buffers, null_count=nulls)


def _headers(arena: Bytes, at: Ints, count: Ints) -> "pa.Array[Any]":
    """A list of (key, value) per row; null, not empty, where there are none."""
    total = int(count.sum())
    if total == 0:
        return pa.nulls(len(count), HEADERS)
    spans = np.empty((4, total), np.int64)
    kernels.locate_headers(
        arena, np.ascontiguousarray(at), np.ascontiguousarray(count), spans
    )
    pairs = pa.StructArray.from_arrays(
        [
            _binary(arena, spans[0], spans[1], pa.string()),
            _binary(arena, spans[2], spans[3], pa.binary()),
        ],
        fields=list(HEADERS.value_type),
    )
    offsets = np.zeros(len(count) + 1, np.int32)
    np.cumsum(count, out=offsets[1:])
    present = np.packbits(count > 0, bitorder="little")
    return pa.ListArray.from_buffers(
        HEADERS, len(count), [buffer_of(present), buffer_of(offsets)],
        children=[pairs],
    )  # fmt: skip


def _no_rows() -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.nulls(0, field.type) for field in WRITE], schema=WRITE
    )
