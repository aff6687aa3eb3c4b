"""Compiled loops that write records: from columns back to the bytes of batches.

Two passes. The first measures each record, which depends on the batch that it falls
into (deltas are against its first record), and so decides where batches begin. The
second writes, knowing each size. Input are spans into Arrow's own buffers: nothing is
copied but into the batch.

The price: sizes are computed twice for a record that opens a new batch.

Source: Kafka's ``DefaultRecord.writeTo``, ``DefaultRecordBatch.writeHeader``.
"""

from typing import Any, Final

import numpy as np
from numba import njit, types

from broker.records.kernels_copy import copy_bytes
from broker.records.layout import (
    ATTRIBUTES_AT,
    BASE_OFFSET_AT,
    BASE_TIMESTAMP_AT,
    CRC_AT,
    HEADER_BYTES,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    LENGTH_AT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    PRODUCER_ID_AT,
    RECORD_COUNT_AT,
    TIMESTAMP_BIT,
)
from lakehouse.places import (
    HEADER_COUNT,
    HEADERS_AT,
    KEY_AT,
    KEY_LENGTH,
    KIND,
    OFFSET,
    TIMESTAMP,
    VALUE_AT,
    VALUE_LENGTH,
)

_I64: Final = types.int64
_OUT: Final = types.Array(types.uint8, 1, "C")
_INTS: Final = types.Array(_I64, 1, "C")
_TABLE: Final = types.Array(_I64, 2, "A")
_INT32_MAX: Final = 2**31 - 1


def _compiled(*signature: Any) -> Any:
    return njit(*signature, nogil=True, cache=True)


@_compiled()
def varint_bytes(value):  # type: ignore[no-untyped-def]
    """Bytes of a zigzag varint."""
    raw = (value << 1) ^ (value >> 63)
    size = 1
    while raw < 0 or raw >= 0x80:
        raw = (raw >> 7) & 0x01FFFFFFFFFFFFFF
        size += 1
    return size


@_compiled()
def put_varint(out, at, value):  # type: ignore[no-untyped-def]
    """Write a zigzag varint; the position after it."""
    raw = (value << 1) ^ (value >> 63)
    while raw < 0 or raw >= 0x80:
        out[at] = (raw & 0x7F) | 0x80
        raw = (raw >> 7) & 0x01FFFFFFFFFFFFFF
        at += 1
    out[at] = raw
    return at + 1


@_compiled()
def put_big_endian(out, at, value, size):  # type: ignore[no-untyped-def]
    """Write an integer of ``size`` bytes."""
    for i in range(size):
        out[at + i] = (value >> (8 * (size - 1 - i))) & 0xFF


@_compiled()
def _bytes_bytes(length):  # type: ignore[no-untyped-def]
    return varint_bytes(length) + max(length, 0)


@_compiled()
def _put_bytes(out, at, data, start, length):  # type: ignore[no-untyped-def]
    at = put_varint(out, at, length)
    if length <= 0:
        return at
    copy_bytes(out, at, data, start, length)
    return at + length


@_compiled()
def _body_bytes(rows, i, base, headers):  # type: ignore[no-untyped-def]
    """Bytes of record ``i`` in a batch that begins with row ``base``."""
    size = np.int64(1)
    size += varint_bytes(rows[TIMESTAMP, i] - rows[TIMESTAMP, base])
    size += varint_bytes(rows[OFFSET, i] - rows[OFFSET, base])
    size += _bytes_bytes(rows[KEY_LENGTH, i]) + _bytes_bytes(rows[VALUE_LENGTH, i])
    size += varint_bytes(rows[HEADER_COUNT, i])
    first = rows[HEADERS_AT, i]
    for h in range(first, first + rows[HEADER_COUNT, i]):
        size += _bytes_bytes(headers[1, h]) + _bytes_bytes(headers[3, h])
    return size


@_compiled()
def _shares(rows, i, base):  # type: ignore[no-untyped-def]
    """Whether row ``i`` may stand in a batch that begins with row ``base``.

    A batch has one timestamp type, and with LogAppendTime one timestamp.
    """
    if rows[KIND, i] != rows[KIND, base]:
        return False
    if rows[KIND, i] != 0 and rows[TIMESTAMP, i] != rows[TIMESTAMP, base]:
        return False
    return rows[OFFSET, i] - rows[OFFSET, base] <= _INT32_MAX


@_compiled(_I64(_TABLE, _TABLE, _I64, _INTS, _INTS, _INTS))
def plan(rows, headers, batch_bytes, sizes, firsts, ends):  # type: ignore[no-untyped-def]
    """Decide where batches begin; returns how many there are.

    Fills the body size of each record, and per batch its first row and the end of its
    bytes in the output. A record above ``batch_bytes`` has a batch of its own.
    """
    batches, base, at = 0, 0, np.int64(0)
    begun = at
    for i in range(rows.shape[1]):
        size = _body_bytes(rows, i, base, headers)
        whole = size + varint_bytes(size)
        fits = i > 0 and at + whole - begun <= batch_bytes
        if not (fits and _shares(rows, i, base)):
            if batches > 0:
                ends[batches - 1] = at
            firsts[batches] = i
            batches, base, begun = batches + 1, i, at
            at += HEADER_BYTES
            size = _body_bytes(rows, i, base, headers)
            whole = size + varint_bytes(size)
        sizes[i] = size
        at += whole
    if batches > 0:
        ends[batches - 1] = at
    return batches


@_compiled()
def _put_header(out, at, end, rows, first, stop):  # type: ignore[no-untyped-def]
    """The 61 bytes, but for the checksum, which is left zero."""
    time_max = rows[TIMESTAMP, first]
    for i in range(first, stop):
        time_max = max(time_max, rows[TIMESTAMP, i])
    put_big_endian(out, at + BASE_OFFSET_AT, rows[OFFSET, first], 8)
    put_big_endian(out, at + LENGTH_AT, end - at - LOG_OVERHEAD_BYTES, 4)
    put_big_endian(out, at + LEADER_EPOCH_AT, 0, 4)
    out[at + MAGIC_AT] = MAGIC
    put_big_endian(out, at + CRC_AT, 0, 4)
    put_big_endian(out, at + ATTRIBUTES_AT, rows[KIND, first] * TIMESTAMP_BIT, 2)
    delta = rows[OFFSET, stop - 1] - rows[OFFSET, first]
    put_big_endian(out, at + LAST_OFFSET_DELTA_AT, delta, 4)
    put_big_endian(out, at + BASE_TIMESTAMP_AT, rows[TIMESTAMP, first], 8)
    put_big_endian(out, at + MAX_TIMESTAMP_AT, time_max, 8)
    # Producer id, epoch and sequence: none.
    for i in range(at + PRODUCER_ID_AT, at + RECORD_COUNT_AT):
        out[i] = 0xFF
    put_big_endian(out, at + RECORD_COUNT_AT, stop - first, 4)


@_compiled()
def _put_record(out, at, rows, i, base, columns, headers):  # type: ignore[no-untyped-def]
    keys, values, header_keys, header_values = columns
    out[at] = 0  # attributes
    at = put_varint(out, at + 1, rows[TIMESTAMP, i] - rows[TIMESTAMP, base])
    at = put_varint(out, at, rows[OFFSET, i] - rows[OFFSET, base])
    at = _put_bytes(out, at, keys, rows[KEY_AT, i], rows[KEY_LENGTH, i])
    at = _put_bytes(out, at, values, rows[VALUE_AT, i], rows[VALUE_LENGTH, i])
    at = put_varint(out, at, rows[HEADER_COUNT, i])
    first = rows[HEADERS_AT, i]
    for h in range(first, first + rows[HEADER_COUNT, i]):
        at = _put_bytes(out, at, header_keys, headers[0, h], headers[1, h])
        at = _put_bytes(out, at, header_values, headers[2, h], headers[3, h])
    return at


@_compiled(
    types.void(
        _TABLE, _TABLE, types.UniTuple(types.uint64, 4), _INTS, _INTS, _INTS, _OUT
    )
)
def encode(rows, headers, columns, sizes, firsts, ends, out):  # type: ignore[no-untyped-def]
    """Write the batches that `plan` laid out. ``firsts`` ends with the row count.

    ``columns`` are the addresses from which the places of keys, values, header keys and
    header values count.
    """
    at = np.int64(0)
    for batch in range(len(ends)):
        first, stop = firsts[batch], firsts[batch + 1]
        _put_header(out, at, ends[batch], rows, first, stop)
        at += HEADER_BYTES
        for i in range(first, stop):
            at = put_varint(out, at, sizes[i])
            at = _put_record(out, at, rows, i, first, columns, headers)
