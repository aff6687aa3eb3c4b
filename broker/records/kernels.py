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

BYTES: Final = types.Array(types.uint8, 1, "C", readonly=True)
_I64: Final = types.int64


def compiled(*signature: Any) -> Any:
    """``njit`` as used here: no lock held, kept on disk, compiled when imported."""
    return njit(*signature, nogil=True, cache=True)


@compiled()
def read_varint(b, at, end):  # type: ignore[no-untyped-def]
    """A zigzag int32 at ``at``: (value, position after it), position -1 if bad."""
    raw = np.int64(0)
    shift = 0
    while at < end and shift < 35:
        byte = np.int64(b[at])
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if raw > 0xFFFFFFFF:
                return np.int64(0), np.int64(-1)
            return (raw >> 1) ^ -(raw & 1), np.int64(at)
        shift += 7
    return np.int64(0), np.int64(-1)


@compiled()
def read_varlong(b, at, end):  # type: ignore[no-untyped-def]
    """A zigzag int64 at ``at``: (value, position after it), position -1 if bad."""
    raw = np.int64(0)
    shift = 0
    while at < end and shift < 70:
        byte = np.int64(b[at])
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
    value = np.int64(b[at])
    if value >= 0x80:
        value -= 0x100
    for i in range(1, size):
        value = (value << 8) | np.int64(b[at + i])
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
        lead = b[at]
        if lead < 0x80:
            at += 1
            continue
        if lead < 0xC2 or lead > 0xF4:
            return False
        extra = 1 + (lead >= 0xE0) + (lead >= 0xF0)
        if at + extra >= end:
            return False
        if extra > 1 and not _wide_lead_is_good(lead, b[at + 1]):
            return False
        for i in range(1, extra + 1):
            if not _continuation(b[at + i]):
                return False
        at += extra + 1
    return True


@compiled()
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


@compiled()
def _record_end(b, at, end):  # type: ignore[no-untyped-def]
    """(start of the fields, end of the record), end -1 if it does not fit."""
    length, at = read_varint(b, at, end)
    # The shortest record: attributes, two deltas, key, value, header count.
    if at < 0 or length < 6 or length > end - at:
        return np.int64(0), np.int64(-1)
    return at + 1, at + length


@compiled()
def read_record(b, at, end, out):  # type: ignore[no-untyped-def]
    """Read the record at ``at`` into ``out``; returns (position after it, code).

    out: timestamp delta, offset delta, key at, key length, value at, value length,
    headers at, header count. A length of -1 is null.
    """
    at, stop = _record_end(b, at, end)
    if stop < 0:
        return stop, BAD_LENGTH
    out[0], at = read_varlong(b, at, stop)
    if at < 0:
        return at, BAD_TIMESTAMP
    out[1], at = read_varint(b, at, stop)
    if at < 0 or out[1] < 0:
        return np.int64(-1), BAD_OFFSET
    out[2], out[3], at = _skip_bytes(b, at, stop)
    if at < 0:
        return at, BAD_KEY
    out[4], out[5], at = _skip_bytes(b, at, stop)
    if at < 0:
        return at, BAD_VALUE
    out[7], at = read_varint(b, at, stop)
    # A header has at least two bytes, so no count makes the loop run on.
    if at < 0 or out[7] < 0 or out[7] > (stop - at) // 2:
        return np.int64(-1), BAD_HEADERS
    out[6] = at
    at, code = _skip_headers(b, at, stop, out[7])
    if code != OK:
        return np.int64(-1), code
    if at != stop:
        return np.int64(-1), BAD_END
    return at, OK


@compiled()
def in_time(base, delta):  # type: ignore[no-untyped-def]
    """Whether ``base + delta`` neither overflows nor leaves a Delta timestamp."""
    if base > TIMESTAMP_MS_MAX or base < -TIMESTAMP_MS_MAX:
        return False
    if delta > 2 * TIMESTAMP_MS_MAX or delta < -2 * TIMESTAMP_MS_MAX:
        return False
    return -TIMESTAMP_MS_MAX <= base + delta <= TIMESTAMP_MS_MAX


@compiled()
def _read_head(b, at, head):  # type: ignore[no-untyped-def]
    """What records take from their batch, into ``head``: see `_read_row`."""
    head[0] = big_endian(b, at + BASE_OFFSET_AT, 8)
    head[1] = big_endian(b, at + LAST_OFFSET_DELTA_AT, 4)
    head[2] = big_endian(b, at + BASE_TIMESTAMP_AT, 8)
    head[3] = big_endian(b, at + MAX_TIMESTAMP_AT, 8)
    head[4] = (b[at + ATTRIBUTES_AT + 1] & TIMESTAMP_BIT) != 0
    head[5] = big_endian(b, at + RECORD_COUNT_AT, 4)


@compiled()
def _read_row(b, at, stop, head, previous, out):  # type: ignore[no-untyped-def]
    """As `read_record`; offsets must also grow and times be in range."""
    at, code = read_record(b, at, stop, out)
    if code != OK:
        return at, code
    if out[1] <= previous or out[1] > head[1]:
        return at, BAD_OFFSET
    # With LogAppendTime all records have the batch's time, whatever their delta.
    if head[4] != 0:
        head[2], out[0] = head[3], 0
    if not in_time(head[2], out[0]):
        return at, BAD_TIMESTAMP
    return at, OK


@compiled()
def _put_row(rows, i, head, out):  # type: ignore[no-untyped-def]
    rows[0, i] = head[0] + out[1]
    rows[1, i] = head[2] + out[0]
    rows[2, i] = head[4]
    for field in range(6):
        rows[3 + field, i] = out[2 + field]


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
    out, head = np.zeros(8, np.int64), np.zeros(6, np.int64)
    filled = 0
    for batch in range(progress[0], len(starts) - 1):
        stop = starts[batch + 1]
        _read_head(b, starts[batch], head)
        if progress[1] == 0:
            progress[2], progress[3] = starts[batch] + HEADER_BYTES, -1
        progress[0] = batch
        while progress[1] < head[5]:
            if filled == rows.shape[1]:
                return filled
            at, progress[4] = _read_row(b, progress[2], stop, head, progress[3], out)
            if progress[4] != OK:
                return filled
            progress[1] += 1
            progress[2], progress[3] = at, out[1]
            if first <= head[0] + out[1] < end:
                _put_row(rows, filled, head, out)
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
    n = 0
    end = np.int64(len(b))
    for i in range(len(at)):
        position = at[i]
        for _ in range(count[i]):
            spans[0, n], spans[1, n], position = _skip_bytes(b, position, end)
            spans[2, n], spans[3, n], position = _skip_bytes(b, position, end)
            n += 1
