"""Compiled loops that read records: from the bytes of a batch to positions and columns.

A record is a handful of variable-length numbers around a key, a value and headers.
Python reads half a million of them a second; these loops read ten million, without
holding the interpreter's lock. They run over bytes that strangers sent, so nothing
here is trusted: each length is compared with what is left before it is used, each sum
with what its type holds, and the last byte of a record must be the last byte of its
last field. A loop returns a code, never raises, never writes outside its arrays.

The price: a first compilation of some seconds, kept in a cache beside this file. The
cache is keyed by this file's own time stamp, so functions that call each other stay
in one file.

Source: Kafka's ``DefaultRecord.readFrom`` (layout and checks), ``ByteUtils`` (varints).
"""

from typing import Any, Final

import numpy as np
from numba import njit, types

from broker.records.kernels_copy import copy_bytes
from broker.records.kernels_load import byte_at
from broker.records.layout import (
    ATTRIBUTES_AT,
    BASE_OFFSET_AT,
    BASE_TIMESTAMP_AT,
    HEADER_BYTES,
    LAST_OFFSET_DELTA_AT,
    MAX_TIMESTAMP_AT,
    RECORD_COUNT_AT,
    TIMESTAMP_BIT,
)

OK: Final = 0
BAD_LENGTH: Final = 1
BAD_OFFSET: Final = 2
BAD_TIMESTAMP: Final = 3
BAD_KEY: Final = 4
BAD_VALUE: Final = 5
BAD_HEADERS: Final = 6
BAD_HEADER_KEY: Final = 7
BAD_END: Final = 8

WHY: Final = {
    BAD_LENGTH: "its length does not fit",
    BAD_OFFSET: "its offset delta is out of order",
    BAD_TIMESTAMP: "its timestamp is out of range",
    BAD_KEY: "its key does not fit",
    BAD_VALUE: "its value does not fit",
    BAD_HEADERS: "its headers do not fit",
    BAD_HEADER_KEY: "a header has no key in UTF-8",
    BAD_END: "its length is not that of its fields",
}

TIMESTAMP_MS_MAX: Final = (2**63 - 1) // 1000
"""A Delta timestamp is an int64 of microseconds."""

NOTHING: Final = (0, 0, 0, 0, 0, 0, 0, 0)
"""The fields of what could not be read."""

BYTES: Final = types.Array(types.uint8, 1, "C", readonly=True)
_I64: Final = types.int64


def compiled(*signature: Any) -> Any:
    """``njit`` as used here: no lock held, kept on disk, compiled when imported."""
    return njit(*signature, nogil=True, cache=True)


def inlined() -> Any:
    """``njit`` of what loops call for each record: part of their own code."""
    return njit(nogil=True, cache=True, forceinline=True)


@inlined()
def read_varint(b, at, end):  # type: ignore[no-untyped-def]
    """A zigzag int32 at ``at``: (value, position after it), position -1 if bad."""
    if at + 1 < end:  # nearly all have one byte or two
        raw = byte_at(b, at)
        if raw < 0x80:
            return (raw >> 1) ^ -(raw & 1), np.int64(at + 1)
        byte = byte_at(b, at + 1)
        if byte < 0x80:
            raw = (raw & 0x7F) | byte << 7
            return (raw >> 1) ^ -(raw & 1), np.int64(at + 2)
    return _read_any_varint(b, at, end)


@compiled()
def _read_any_varint(b, at, end):  # type: ignore[no-untyped-def]
    """As `read_varint`, however long it is."""
    raw = np.int64(0)
    shift = 0
    while at < end and shift < 35:
        byte = byte_at(b, at)
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if raw > 0xFFFFFFFF:
                return np.int64(0), np.int64(-1)
            return (raw >> 1) ^ -(raw & 1), np.int64(at)
        shift += 7
    return np.int64(0), np.int64(-1)


@inlined()
def read_varlong(b, at, end):  # type: ignore[no-untyped-def]
    """A zigzag int64 at ``at``: (value, position after it), position -1 if bad."""
    raw = np.int64(0)
    shift = 0
    while at < end and shift < 70:
        byte = byte_at(b, at)
        at += 1
        if shift == 63 and byte > 1:
            break
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            half = (raw >> 1) & 0x7FFFFFFFFFFFFFFF
            return half ^ -(raw & 1), np.int64(at)
        shift += 7
    return np.int64(0), np.int64(-1)


@compiled()
def big_endian(b, at, size):  # type: ignore[no-untyped-def]
    """The signed integer of ``size`` bytes at ``at``."""
    value = byte_at(b, at)
    if value >= 0x80:
        value -= 0x100
    for i in range(1, size):
        value = (value << 8) | byte_at(b, at + i)
    return value


@compiled()
def _continuation(byte):  # type: ignore[no-untyped-def]
    return (byte & 0xC0) == 0x80


@compiled()
def _wide_lead_is_good(lead, second):  # type: ignore[no-untyped-def]
    """No overlong forms, no surrogates, nothing above U+10FFFF."""
    if lead == 0xE0:
        return second >= 0xA0
    if lead == 0xED:
        return second < 0xA0
    if lead == 0xF0:
        return second >= 0x90
    if lead == 0xF4:
        return second < 0x90
    return True


@compiled()
def is_utf8(b, at, end):  # type: ignore[no-untyped-def]
    """Whether the bytes are UTF-8, as strictly as Arrow and Python take it."""
    while at < end:
        lead = byte_at(b, at)
        if lead < 0x80:
            at += 1
            continue
        if lead < 0xC2 or lead > 0xF4:
            return False
        extra = 1 + (lead >= 0xE0) + (lead >= 0xF0)
        if at + extra >= end:
            return False
        if extra > 1 and not _wide_lead_is_good(lead, byte_at(b, at + 1)):
            return False
        for i in range(1, extra + 1):
            if not _continuation(byte_at(b, at + i)):
                return False
        at += extra + 1
    return True


@inlined()
def _skip_bytes(b, at, end):  # type: ignore[no-untyped-def]
    """A nullable byte string: (start, length or -1, position after or -1)."""
    length, at = read_varint(b, at, end)
    if at < 0 or length < -1 or length > end - at:
        return np.int64(0), np.int64(0), np.int64(-1)
    return at, length, at + max(length, 0)


@compiled()
def _skip_headers(b, at, end, count):  # type: ignore[no-untyped-def]
    """The position after ``count`` headers, and a code."""
    for _ in range(count):
        start, length, at = _skip_bytes(b, at, end)
        if at < 0:
            return at, BAD_HEADERS
        if length < 0 or not is_utf8(b, start, start + length):
            return np.int64(-1), BAD_HEADER_KEY
        start, length, at = _skip_bytes(b, at, end)
        if at < 0:
            return at, BAD_HEADERS
    return at, OK


@inlined()
def _record_end(b, at, end):  # type: ignore[no-untyped-def]
    """(start of the fields, end of the record), end -1 if it does not fit."""
    length, at = read_varint(b, at, end)
    # The shortest record: attributes, two deltas, key, value, header count.
    if at < 0 or length < 6 or length > end - at:
        return np.int64(0), np.int64(-1)
    return at + 1, at + length


@inlined()
def read_record(b, at, end):  # type: ignore[no-untyped-def]
    """Read the record at ``at``: (position after it, code, fields).

    Fields: timestamp delta, offset delta, key at, key length, value at, value length,
    headers at, header count; nothing if the code is not ``OK``. A length of -1 is null.
    """
    at, stop = _record_end(b, at, end)
    if stop < 0:
        return stop, BAD_LENGTH, NOTHING
    time, at = read_varlong(b, at, stop)
    if at < 0:
        return at, BAD_TIMESTAMP, NOTHING
    offset, at = read_varint(b, at, stop)
    if at < 0 or offset < 0:
        return np.int64(-1), BAD_OFFSET, NOTHING
    key_at, key_length, at = _skip_bytes(b, at, stop)
    if at < 0:
        return at, BAD_KEY, NOTHING
    value_at, value_length, at = _skip_bytes(b, at, stop)
    if at < 0:
        return at, BAD_VALUE, NOTHING
    count, headers_at = read_varint(b, at, stop)
    # A header has at least two bytes, so no count makes the loop run on.
    if headers_at < 0 or count < 0 or count > (stop - headers_at) // 2:
        return np.int64(-1), BAD_HEADERS, NOTHING
    at, code = _skip_headers(b, headers_at, stop, count)
    if code != OK:
        return np.int64(-1), code, NOTHING
    if at != stop:
        return np.int64(-1), BAD_END, NOTHING
    fields = (
        time, offset, key_at, key_length, value_at, value_length, headers_at, count,
    )  # fmt: skip
    return at, OK, fields


@inlined()
def in_time(base, delta):  # type: ignore[no-untyped-def]
    """Whether ``base + delta`` neither overflows nor leaves a Delta timestamp."""
    if base > TIMESTAMP_MS_MAX or base < -TIMESTAMP_MS_MAX:
        return False
    if delta > 2 * TIMESTAMP_MS_MAX or delta < -2 * TIMESTAMP_MS_MAX:
        return False
    return -TIMESTAMP_MS_MAX <= base + delta <= TIMESTAMP_MS_MAX


@compiled()
def _read_head(b, at):  # type: ignore[no-untyped-def]
    """What records take from their batch: base offset, last offset delta, base and
    newest timestamp, timestamp type, record count."""
    return (
        big_endian(b, at + BASE_OFFSET_AT, 8),
        big_endian(b, at + LAST_OFFSET_DELTA_AT, 4),
        big_endian(b, at + BASE_TIMESTAMP_AT, 8),
        big_endian(b, at + MAX_TIMESTAMP_AT, 8),
        np.int64((byte_at(b, at + ATTRIBUTES_AT + 1) & TIMESTAMP_BIT) != 0),
        big_endian(b, at + RECORD_COUNT_AT, 4),
    )


@compiled()
def _put_row(rows, i, base, timestamp, kind, fields):  # type: ignore[no-untyped-def]
    rows[0, i] = base + fields[1]
    rows[1, i] = timestamp
    rows[2, i] = kind
    rows[3, i], rows[4, i] = fields[2], fields[3]
    rows[5, i], rows[6, i] = fields[4], fields[5]
    rows[7, i], rows[8, i] = fields[6], fields[7]


@compiled(
    _I64(
        BYTES,
        types.Array(_I64, 1, "C"),
        types.Array(_I64, 1, "C"),
        _I64,
        _I64,
        types.Array(_I64, 2, "C"),
    )
)
def scan(b, starts, progress, first, end, rows):  # type: ignore[no-untyped-def]
    """Fill ``rows`` from the batches that begin at ``starts``; go on where it stopped.

    Each batch is its 61-byte header and its decompressed records, up to the next start
    (``starts`` ends with the end of the buffer). Only offsets in ``[first, end)``
    are taken. ``progress`` is (batch, record, position, last offset delta, code) and
    starts as zeros: kept between calls, so that a batch of millions of tiny records
    still fills bounded columns.

    rows: offset, timestamp in ms, timestamp type, key at, key length, value at,
    value length, headers at, header count. Returns how many rows are filled.
    """
    data = b.ctypes.data
    filled = 0
    for batch in range(progress[0], len(starts) - 1):
        stop = starts[batch + 1]
        base, last_delta, first_ms, newest_ms, kind, count = _read_head(
            data, starts[batch]
        )
        if progress[1] == 0:
            progress[2], progress[3] = starts[batch] + HEADER_BYTES, -1
        progress[0] = batch
        while progress[1] < count:
            if filled == rows.shape[1]:
                return filled
            at, code, fields = read_record(data, progress[2], stop)
            if code == OK and not progress[3] < fields[1] <= last_delta:
                code = BAD_OFFSET
            # With LogAppendTime all records have the batch's time, not a delta of it.
            from_ms, delta_ms = (first_ms, fields[0]) if kind == 0 else (newest_ms, 0)
            if code == OK and not in_time(from_ms, delta_ms):
                code = BAD_TIMESTAMP
            progress[4] = code
            if code != OK:
                return filled
            progress[1] += 1
            progress[2], progress[3] = at, fields[1]
            if first <= base + fields[1] < end:
                _put_row(rows, filled, base, from_ms + delta_ms, kind, fields)
                filled += 1
        if progress[2] != stop:
            progress[4] = BAD_END
            return filled
        progress[0], progress[1] = batch + 1, 0
    return filled


@compiled(
    _I64(
        BYTES,
        types.Array(_I64, 1, "C"),
        types.Array(_I64, 1, "C"),
        types.Array(types.int32, 1, "C"),
        types.Array(types.uint8, 1, "C"),
        types.Array(types.uint8, 1, "C"),
    )
)
def gather(b, at, length, offsets, validity, data):  # type: ignore[no-untyped-def]
    """Copy spans into an Arrow binary column; returns the number of nulls.

    ``validity`` comes zeroed, one bit a row. A negative length is null. The spans are
    those that ``scan`` found, and ``data`` holds all of them: nothing is checked again.
    """
    nulls = 0
    to = np.int64(0)
    for i in range(len(at)):
        offsets[i] = to
        if length[i] < 0:
            nulls += 1
            continue
        validity[i >> 3] |= np.uint8(1 << (i & 7))
        copy_bytes(data, to, b, at[i], length[i])
        to += length[i]
    offsets[len(at)] = to
    return nulls


@compiled(
    types.void(
        BYTES,
        types.Array(_I64, 1, "C"),
        types.Array(_I64, 1, "C"),
        types.Array(_I64, 2, "C"),
    )
)
def locate_headers(b, at, count, spans):  # type: ignore[no-untyped-def]
    """Where each header of the rows lies: key at, length, value at, length.

    Only after ``scan`` walked the same rows: their lengths are known to fit.
    """
    data = b.ctypes.data
    n = 0
    end = np.int64(len(b))
    for i in range(len(at)):
        position = at[i]
        for _ in range(count[i]):
            spans[0, n], spans[1, n], position = _skip_bytes(data, position, end)
            spans[2, n], spans[3, n], position = _skip_bytes(data, position, end)
            n += 1
