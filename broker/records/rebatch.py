"""From the rows of a table to batches that a consumer takes for those of the log.

Offsets, keys, values, headers, timestamps and their type are those of the rows; the
rest of a batch is not kept in a table and comes out as a plain producer's would: not
compressed, no producer id. Rows that share a batch must share the timestamp type, and
with LogAppendTime the timestamp, so that some batches end early.

The buffers of the Arrow columns are read where they lie. Importing this loads numpy,
pyarrow and the compiled loops, as ``columns.py`` does.

Source: Kafka's ``DefaultRecordBatch``; Arrow's columnar format.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from broker.records import kernels_encode as kernels
from broker.records.batch import seal
from lakehouse import places
from lakehouse.places import Places
from lakehouse.plain import absent, numbers

BATCH_BYTES: Final = 256 << 10
_MICROSECONDS: Final = 1000

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


def _new_bytes(size: int) -> Bytes:
    return np.empty(size, np.uint8)


def from_columns(
    rows: pa.Table | pa.RecordBatch,
    batch_bytes: int = BATCH_BYTES,
    take: Callable[[int], Bytes] = _new_bytes,
) -> list[memoryview]:
    """Batches of at most ``batch_bytes`` (a larger record has one for itself).

    ``rows`` is a ``pa.RecordBatch`` or ``pa.Table`` with the columns of
    `lakehouse.schema.READ`, sorted by offset. Raises ValueError if they are not
    sorted, repeat an offset, or lack an offset or timestamp.

    The batches of one part of ``rows`` share their memory, which is theirs alone.
    ``take`` gives so many bytes, uint8, of any content.
    """
    parts = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
    return [batch for part in parts for batch in _from_part(part, batch_bytes, take)]


def _from_part(
    part: pa.RecordBatch, batch_bytes: int, take: Callable[[int], Bytes]
) -> list[memoryview]:
    if part.num_rows == 0:
        return []
    return from_places(_places(part), batch_bytes, take)


def from_places(
    found: Places,
    batch_bytes: int = BATCH_BYTES,
    take: Callable[[int], Bytes] = _new_bytes,
) -> list[memoryview]:
    """The same of rows as places in memory, one at least."""
    rows, headers, bases, held = found
    count = rows.shape[1]
    sizes, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    firsts = np.empty(count + 1, np.int64)
    batches = kernels.plan(rows, headers, batch_bytes, sizes, firsts, ends)
    firsts[batches] = count
    out = take(int(ends[batches - 1]))
    kernels.encode(
        rows, headers, bases, sizes, firsts[: batches + 1], ends[:batches], out
    )
    del held
    return _cut(out.data, [0, *ends[:batches].tolist()])


def _cut(out: memoryview, bounds: list[int]) -> list[memoryview]:
    batches: list[memoryview] = []
    for start, end in pairwise(bounds):
        batch = out[start:end]
        seal(batch)
        # Not a copy: that would hold the interpreter's lock while pages are faulted in.
        batches.append(batch.toreadonly())
    return batches


def _places(part: pa.RecordBatch) -> Places:
    """Where each field of Arrow's columns lies."""
    rows = np.empty((places.ROW_FIELDS, part.num_rows), np.int64)
    _numbers(part, rows)
    rows[places.KEY_AT], rows[places.KEY_LENGTH], keys = _binary(part["key"])
    rows[places.VALUE_AT], rows[places.VALUE_LENGTH], values = _binary(part["value"])
    at, counts, headers, (names, contents) = _headers(part["headers"])
    rows[places.HEADERS_AT], rows[places.HEADER_COUNT] = at, counts
    held = keys, values, names, contents
    one, other, third, fourth = (column.ctypes.data for column in held)
    return Places(rows, headers, (one, other, third, fourth), held)


def _numbers(part: pa.RecordBatch, rows: Ints) -> None:
    offset, timestamp = part["offset"], part["timestamp"]
    if offset.null_count or timestamp.null_count:
        raise ValueError("a row has no offset or no timestamp")
    rows[places.OFFSET] = numbers(offset)
    if np.any(np.diff(rows[places.OFFSET]) <= 0):
        raise ValueError("rows are not sorted by offset, or an offset repeats")
    # Casting loads 10 MB of Arrow, and mostly there is nothing to cast.
    if timestamp.type != pa.timestamp("us", "UTC"):
        timestamp = timestamp.cast(pa.timestamp("us", "UTC"))
    rows[places.TIMESTAMP] = numbers(timestamp) // _MICROSECONDS
    kind = part["timestampType"]
    kind = kind.fill_null(0) if kind.null_count else kind
    rows[places.KIND] = numbers(kind, np.int32) == 1


def _binary(column: Any) -> tuple[npt.NDArray[np.int32], Ints, Bytes]:
    """(start, length or -1 for null, bytes) of a binary or string column."""
    if column.type not in (pa.binary(), pa.string()):
        column = column.cast(pa.binary())
    _, offsets, data = column.buffers()
    if offsets is None or len(column) == 0:
        bounds = np.zeros(len(column) + 1, np.int32)
    else:
        bounds = np.frombuffer(offsets, np.int32)[column.offset :][: len(column) + 1]
    length = np.diff(bounds).astype(np.int64)
    if column.null_count:
        length[absent(column)] = -1
    content = np.frombuffer(data, np.uint8) if data is not None else _nothing()
    return bounds[:-1], length, content


def _nothing() -> Bytes:
    return np.zeros(0, np.uint8)


def _headers(column: Any) -> tuple[Ints | int, Ints | int, Ints, tuple[Bytes, Bytes]]:
    """(first header, count) per row, the spans of all headers, their bytes."""
    if column.null_count == len(column):
        return 0, 0, np.zeros((4, 0), np.int64), (_nothing(), _nothing())
    pairs = column.values
    bounds = numbers(column.offsets, np.int32).astype(np.int64)
    counts = np.diff(bounds)
    if column.null_count:
        counts[absent(column)] = 0
    headers = np.empty((4, len(pairs)), np.int64)
    headers[0], headers[1], keys = _binary(_field(pairs, "key"))
    headers[2], headers[3], values = _binary(_field(pairs, "value"))
    np.maximum(headers[1], 0, out=headers[1])  # a header without a key is not legal
    return bounds[:-1], counts, headers, (keys, values)


def _field(pairs: Any, name: str) -> Any:
    """A child column, cut as its parent is."""
    return (
        pairs.field(name)
        if pairs.offset == 0
        else pairs.flatten()[pairs.type.get_field_index(name)]
    )
