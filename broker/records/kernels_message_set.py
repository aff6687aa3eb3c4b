"""Compiled loops between the messages of Kafka 0.8 to 0.10 and records.

The problem: a message of 30 bytes with a checksum of its own, against a record of ten;
Python converts half a million a second. The idea: two passes each way, the first
measures and checks, the second writes into memory that has exactly that size; nothing
is kept per message, so that a megabyte which decompresses to two million of them needs
no more than its own bytes twice.

Up, the checksums are what costs: zlib's CRC-32, eight bytes a step by tables. As in
`kernels`, nothing that came from outside is trusted: a loop returns a code and the
number of the message at fault, never raises, never leaves its arrays.

Source: Kafka's ``LegacyRecord`` and ``AbstractLegacyRecordBatch`` (layout and checks);
``DefaultRecord`` for what they become.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
from numba import types

from broker.records.kernels import (
    BAD_KEY,
    BAD_LENGTH,
    BAD_TIMESTAMP,
    BAD_VALUE,
    BYTES,
    NOTHING,
    OK,
    TIMESTAMP_MS_MAX,
    big_endian,
    compiled,
    inlined,
    read_record,
)
from broker.records.kernels_copy import copy_bytes
from broker.records.kernels_encode import put_big_endian, put_varint, varint_bytes
from broker.records.kernels_load import byte_at

BAD_CHECKSUM: Final = 20
BAD_MAGIC: Final = 21
IS_COMPRESSED: Final = 22
BROKER_TIME: Final = 23
BAD_CODEC: Final = 24

WHY: Final = {
    BAD_LENGTH: "its size does not fit",
    BAD_KEY: "its key does not fit",
    BAD_VALUE: "its value does not fit",
    BAD_TIMESTAMP: "its timestamp is out of range",
    BAD_CHECKSUM: "it fails its checksum",
    BAD_MAGIC: "its magic is not that of its message set",
    IS_COMPRESSED: "a compressed message inside another",
    BROKER_TIME: "LogAppendTime is the broker's to set",
    BAD_CODEC: "its codec is unknown",
}

SIZE_AT: Final = 8
CRC_AT: Final = 12
MAGIC_AT: Final = 16
ATTRIBUTES_AT: Final = 17
TIMESTAMP_AT: Final = 18
LOG_OVERHEAD_BYTES: Final = CRC_AT
"""Offset and size, which ``size`` does not count."""
BODY_BYTES_MIN: Final = 14
"""Checksum, magic, attributes, two lengths."""
CODEC_BITS: Final = 0x07
TIMESTAMP_BIT: Final = 0x08
LZ4: Final = 3
NO_TIMESTAMP: Final = -1

COUNT: Final = 0
BYTE_COUNT: Final = 1
BASE_TIMESTAMP: Final = 2
MAX_TIMESTAMP: Final = 3
LAST_OFFSET: Final = 4
WALKED: Final = 5
TOTALS: Final = 6
"""What is added up over the messages, and over the sets of one batch."""

_I64: Final = types.int64
_OUT: Final = types.Array(types.uint8, 1, "C")
_INTS: Final = types.Array(_I64, 1, "C")
_POLYNOMIAL: Final = 0xEDB88320


def _crc_tables() -> npt.NDArray[np.uint32]:
    """How each of eight bytes moves the checksum (slicing by eight)."""
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        tables[0, byte] = value
    for step in range(1, 8):
        before = tables[step - 1]
        tables[step] = (before >> 8) ^ tables[0][before & 0xFF]
    return tables


_CRC: Final = _crc_tables()


@compiled()
def _crc_step(b, at, step):  # type: ignore[no-untyped-def]
    return _CRC[step, byte_at(b, at)]


@compiled()
def _crc32(b, at, end):  # type: ignore[no-untyped-def]
    """zlib's CRC-32 of the bytes from ``b + at`` to ``b + end``."""
    crc = np.int64(0xFFFFFFFF)
    while end - at >= 8:
        low = crc ^ (
            byte_at(b, at)
            | byte_at(b, at + 1) << 8
            | byte_at(b, at + 2) << 16
            | byte_at(b, at + 3) << 24
        )
        crc = np.int64(
            _CRC[7, low & 0xFF]
            ^ _CRC[6, (low >> 8) & 0xFF]
            ^ _CRC[5, (low >> 16) & 0xFF]
            ^ _CRC[4, low >> 24]
            ^ _crc_step(b, at + 4, 3)
            ^ _crc_step(b, at + 5, 2)
            ^ _crc_step(b, at + 6, 1)
            ^ _crc_step(b, at + 7, 0)
        )
        at += 8
    while at < end:
        crc = np.int64(_CRC[0, (crc ^ byte_at(b, at)) & 0xFF]) ^ (crc >> 8)
        at += 1
    return crc ^ 0xFFFFFFFF


@compiled()
def _put_field(out, at, b, start, length):  # type: ignore[no-untyped-def]
    if length > 0:
        copy_bytes(out, at, b, start, length)
        return at + length
    return at


@inlined()
def _read_message(b, at, end):  # type: ignore[no-untyped-def]
    """Read the message at ``at``: (position after it, code, fields).

    Fields: offset, magic, attributes, timestamp, key at, key length, value at, value
    length; nothing if the code is not ``OK``. A length of -1 is null; magic 0 has no
    timestamp, which is -1.
    """
    if end - at < LOG_OVERHEAD_BYTES + BODY_BYTES_MIN:
        return np.int64(-1), BAD_LENGTH, NOTHING
    size = big_endian(b, at + SIZE_AT, 4)
    if size < BODY_BYTES_MIN or size > end - at - LOG_OVERHEAD_BYTES:
        return np.int64(-1), BAD_LENGTH, NOTHING
    stop = at + LOG_OVERHEAD_BYTES + size
    magic = byte_at(b, at + MAGIC_AT)
    if magic > 1:
        return np.int64(-1), BAD_MAGIC, NOTHING
    key_at = at + TIMESTAMP_AT + 4
    timestamp = np.int64(NO_TIMESTAMP)
    if magic == 1:
        if size < BODY_BYTES_MIN + 8:
            return np.int64(-1), BAD_LENGTH, NOTHING
        timestamp = big_endian(b, at + TIMESTAMP_AT, 8)
        key_at += 8
    key_length = big_endian(b, key_at - 4, 4)
    # The four bytes of the value's length are behind the key.
    if key_length < -1 or key_length > stop - key_at - 4:
        return np.int64(-1), BAD_KEY, NOTHING
    value_at = key_at + max(key_length, 0) + 4
    value_length = big_endian(b, value_at - 4, 4)
    if value_length < -1 or value_at + max(value_length, 0) != stop:
        return np.int64(-1), BAD_VALUE, NOTHING
    offset, flags = big_endian(b, at, 8), byte_at(b, at + ATTRIBUTES_AT)
    fields = (
        offset, magic, flags, timestamp, key_at, key_length, value_at, value_length,
    )  # fmt: skip
    return stop, OK, fields


@compiled()
def _is_sound(b, at, stop):  # type: ignore[no-untyped-def]
    stored = big_endian(b, at + CRC_AT, 4) & 0xFFFFFFFF
    return stored == _crc32(b, at + MAGIC_AT, stop)


@compiled(types.UniTuple(_I64, 3)(BYTES, _I64, _I64, _INTS))
def next_wrapper(b, at, end, out):  # type: ignore[no-untyped-def]
    """The first compressed message from ``at`` on, its checksum compared.

    ``out`` becomes offset, magic, attributes, timestamp, key at, key length, value at,
    value length. Returns (where it begins, where it ends, code); both ``end`` if there
    is none. Messages on the way are hopped over, by their sizes.
    """
    data = b.ctypes.data
    while at < end:
        stop, code, fields = _read_message(data, at, end)
        if code != OK:
            return at, stop, np.int64(code)
        if fields[2] & CODEC_BITS:
            for field in range(8):
                out[field] = fields[field]
            if (out[2] & CODEC_BITS) > LZ4:
                return at, stop, np.int64(BAD_CODEC)
            if out[1] == 1 and out[2] & TIMESTAMP_BIT:
                return at, stop, np.int64(BROKER_TIME)
            if not _is_sound(data, at, stop):
                return at, stop, np.int64(BAD_CHECKSUM)
            if out[7] <= 0:
                return at, stop, np.int64(BAD_VALUE)
            return at, stop, np.int64(OK)
        at = stop
    return end, end, np.int64(OK)


@compiled()
def _up_bytes(message, count, base):  # type: ignore[no-untyped-def]
    """Bytes of the record that a message becomes, without its length in front."""
    delta = message[3] - base
    return (
        2  # attributes, no headers
        + varint_bytes(delta)
        + varint_bytes(count)
        + varint_bytes(message[5])
        + max(message[5], 0)
        + varint_bytes(message[7])
        + max(message[7], 0)
    )


@compiled(types.UniTuple(_I64, 2)(BYTES, _I64, _I64, _I64, _INTS))
def measure_up(b, at, end, magic, totals):  # type: ignore[no-untyped-def]
    """Check messages and add up what they need as records.

    All have ``magic`` (-1: each its own) and are not compressed. ``totals`` goes on
    from the sets before it. Returns (code, number of the message at fault).
    """
    data = b.ctypes.data
    while at < end:
        stop, code, message = _read_message(data, at, end)
        if code != OK:
            return np.int64(code), totals[COUNT]
        if magic >= 0 and message[1] != magic:
            return np.int64(BAD_MAGIC), totals[COUNT]
        if message[2] & CODEC_BITS:
            return np.int64(IS_COMPRESSED), totals[COUNT]
        if message[1] == 1 and message[2] & TIMESTAMP_BIT:
            return np.int64(BROKER_TIME), totals[COUNT]
        if not NO_TIMESTAMP <= message[3] <= TIMESTAMP_MS_MAX:
            return np.int64(BAD_TIMESTAMP), totals[COUNT]
        if not _is_sound(data, at, stop):
            return np.int64(BAD_CHECKSUM), totals[COUNT]
        if totals[COUNT] == 0:
            totals[BASE_TIMESTAMP] = totals[MAX_TIMESTAMP] = message[3]
        totals[MAX_TIMESTAMP] = max(totals[MAX_TIMESTAMP], message[3])
        size = _up_bytes(message, totals[COUNT], totals[BASE_TIMESTAMP])
        totals[BYTE_COUNT] += size + varint_bytes(size)
        totals[COUNT] += 1
        at = stop
    return np.int64(OK), np.int64(-1)


@compiled(types.UniTuple(_I64, 2)(BYTES, _I64, _I64, _I64, _I64, _OUT, _I64))
def write_up(b, at, end, count, base, out, to):  # type: ignore[no-untyped-def]
    """Write measured messages as records number ``count`` and on, from ``to``.

    ``base`` is the batch's first timestamp. Returns (count, position) after them.
    """
    data = b.ctypes.data
    while at < end:
        at, _, message = _read_message(data, at, end)
        to = put_varint(out, to, _up_bytes(message, count, base))
        out[to] = 0  # attributes
        to = put_varint(out, to + 1, message[3] - base)
        to = put_varint(out, to, count)
        to = put_varint(out, to, message[5])
        to = _put_field(out, to, b, message[4], message[5])
        to = put_varint(out, to, message[7])
        to = _put_field(out, to, b, message[6], message[7])
        out[to] = 0  # headers
        to += 1
        count += 1
    return count, to


@compiled()
def _down_bytes(record, magic):  # type: ignore[no-untyped-def]
    head = LOG_OVERHEAD_BYTES + BODY_BYTES_MIN + 8 * magic
    return head + max(record[3], 0) + max(record[5], 0)


@compiled(
    types.UniTuple(_I64, 2)(BYTES, _I64, _I64, _I64, _I64, _I64, _I64, _I64, _INTS)
)
def measure_down(b, at, end, count, base, first, magic, bytes_max, totals):  # type: ignore[no-untyped-def]
    """Add up what records need as messages: those from offset ``first`` on, as many as
    fill ``bytes_max``.

    ``base`` is the batch's base offset. ``totals``, zeros, gets their number, their
    bytes, the last offset, and how many records were looked at. Returns (code, number
    of the record at fault).
    """
    data = b.ctypes.data
    for i in range(count):
        at, code, record = read_record(data, at, end)
        if code != OK:
            return np.int64(code), np.int64(i)
        totals[WALKED] = i + 1
        if base + record[1] >= first:
            totals[COUNT] += 1
            totals[BYTE_COUNT] += _down_bytes(record, magic)
            totals[LAST_OFFSET] = base + record[1]
            if totals[BYTE_COUNT] >= bytes_max:
                break
    return np.int64(OK), np.int64(-1)


@compiled(
    types.void(
        BYTES, _I64, _I64, _I64, _I64, _I64, _I64, _I64, _I64, types.boolean, _OUT
    )
)
def write_down(  # type: ignore[no-untyped-def]
    b, at, end, count, base, first, magic, base_timestamp, stamp, is_relative, out
):
    """Write measured records as messages, each with its checksum.

    ``stamp`` is the time that the broker gave them all (-1: each has its own). With
    ``is_relative`` offsets count from the first message, as in wrappers of magic 1.
    """
    data, target = b.ctypes.data, out.ctypes.data
    origin = np.int64(-1)
    to = np.int64(0)
    for _ in range(count):
        at, _code, record = read_record(data, at, end)
        offset = base + record[1]
        if offset < first:
            continue
        if origin < 0:
            origin = offset if is_relative else np.int64(0)
        begun = to
        size = _down_bytes(record, magic) - LOG_OVERHEAD_BYTES
        put_big_endian(out, to, offset - origin, 8)
        put_big_endian(out, to + SIZE_AT, size, 4)
        out[to + MAGIC_AT] = magic
        out[to + ATTRIBUTES_AT] = 0
        to += TIMESTAMP_AT
        if magic == 1:
            if stamp >= 0:
                out[to - 1] = TIMESTAMP_BIT
                put_big_endian(out, to, stamp, 8)
            else:
                put_big_endian(out, to, base_timestamp + record[0], 8)
            to += 8
        put_big_endian(out, to, record[3], 4)
        to = _put_field(out, to + 4, b, record[2], record[3])
        put_big_endian(out, to, record[5], 4)
        to = _put_field(out, to + 4, b, record[4], record[5])
        put_big_endian(out, begun + CRC_AT, _crc32(target, begun + MAGIC_AT, to), 4)
