"""The compiled loop that makes batches durable without the interpreter's lock.

The problem. A small request costs the log 20 us of Python on the writer's thread, while
the event loop wants the same lock for the next requests: the lock is what is full, not
the disk. And each hop between the two threads waits for it.

The idea. What the writer does for an ordinary batch needs no object: look at its
records, put a header in front, write, sync, say so. `serve` does that in a loop over a
table of plain integers which the event loop fills (``lane.py``). It waits on one
eventfd for batches and says on another how many are durable; the kernel's eventfds also
are the memory barriers between the two sides. Whatever is not ordinary (a batch that
may have to be refused, a full segment, an error) ends the loop in front of that batch,
and Python goes on from there.

The price. The checks of ``inspect``, ``inspector``, ``entry`` and ``appender`` exist
twice for the ordinary case; tests hold both against each other.
"""

from typing import Any, Final

import numpy as np
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from broker.records.kernels import OK
from broker.records.kernels_check import check_records
from broker.records.kernels_copy import copy_bytes
from broker.records.layout import (
    BASE_OFFSET_AT,
    BASE_TIMESTAMP_AT,
    CRC_AT,
    HEADER_BYTES,
    LEADER_EPOCH_AT,
    RECORD_COUNT_AT,
)
from broker.status.histogram import TIMES, UNIT_NS

# Fields of a row of the table: one batch.
ADDRESS: Final = 0
LENGTH: Final = 1
TOPIC: Final = 2
PARTITION: Final = 3
BASE: Final = 4
LAST: Final = 5
MAX_TIMESTAMP: Final = 6
FLAGS: Final = 7
OLDEST: Final = 8
NEWEST: Final = 9
LOCATION: Final = 10
"""Where the batch is durable; written by `serve`."""
FIELDS: Final = 16

NEEDS_KEYS: Final = 1
UNTIMED: Final = 2
"""The broker stamped it: its records' own times do not count."""
DURABLE: Final = 4
"""It is synced in the relaxed mode, too."""

# What both sides know of the work.
IN: Final = 0
OUT: Final = 1
FILE: Final = 2
COMMITTED_POSITION: Final = 3
SEQUENCE: Final = 4
END: Final = 5
SLOT_BYTES: Final = 6
ROWS_BYTES: Final = 7
"""Bytes that the footer takes so far, those of this visit included."""
WRITTEN: Final = 8
DONE: Final = 9
"""Batches of the table that are finished, counted from the first ever."""
ANNOUNCED: Final = 10
ROWS: Final = 11
"""Footer rows that wait in the buffer to be taken."""
SYNC: Final = 12
ERRNO: Final = 13
RECORDS_MAX: Final = 14
HEADERS_MAX: Final = 15
CALLS: Final = 16
"""How often Python was called, behind what was announced."""
SYNCED: Final = 17
"""Up to where the segment would survive a power cut."""
SYNC_NS: Final = 18
"""How long all syncs took."""
SYNC_TIMES: Final = 20
"""How often a sync took so long: buckets as `broker.status.histogram` has them."""
STATE: Final = SYNC_TIMES + TIMES

# Why `serve` came back.
CALLED: Final = 0
UNUSUAL: Final = 1
FAILED: Final = 2
ROWS_FULL: Final = 3

CALL: Final = 1 << 32
"""Added to the eventfd: Python has something to do, behind what was announced."""
GROUP_MAX: Final = 512
GROUP_BYTES_MAX: Final = 8 << 20
JOINED_BYTES_MAX: Final = 512 << 10
ROWS_MAX: Final = 8192
ENTRY_BYTES: Final = 48
ROW_BYTES: Final = 36

_JOIN_BELOW: Final = 16 << 10
_MAGIC: Final = 0x1E6B57A1
_SYNCED_POSITION_MAGIC: Final = int.from_bytes(b"LAKEHRZ1", "little")
_WRITTEN_POSITION_MAGIC: Final = int.from_bytes(b"LAKEHRZW", "little")
_COMMITTED_POSITION_BYTES: Final = 28
_EINTR: Final = 4
_CLOCK_MONOTONIC: Final = 1
_EIO: Final = 5
_POLYNOMIAL: Final = 0x82F63B78  # CRC-32C, reflected

_i32, _i64, _u64 = types.int32, types.int64, types.uint64
_read = types.ExternalFunction("read", _i64(_i32, _u64, _u64))
_write = types.ExternalFunction("write", _i64(_i32, _u64, _u64))
_pwrite = types.ExternalFunction("pwrite", _i64(_i32, _u64, _u64, _i64))
_pwritev = types.ExternalFunction("pwritev", _i64(_i32, _u64, _i32, _i64))
_clock_gettime = types.ExternalFunction("clock_gettime", _i32(_i32, _u64))
_fdatasync = types.ExternalFunction("fdatasync", _i32(_i32))
_errno_at = types.ExternalFunction("__errno_location", types.CPointer(_i32)())

_STATE = types.Array(_i64, 1, "C")
_TABLE = types.Array(_i64, 2, "C")
_WRITABLE = types.Array(types.uint8, 1, "C")


def _crc_table() -> "np.ndarray[tuple[int], np.dtype[np.uint32]]":
    table = np.zeros(256, np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        table[byte] = crc
    return table


_CRC: Final = _crc_table()


@intrinsic
def _pointer(_context, address):  # type: ignore[no-untyped-def]
    """An address as a pointer to bytes."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.CPointer(types.uint8)(address), generate


@njit(nogil=True, cache=True)
def crc32c_of(data, at, end, seed):  # type: ignore[no-untyped-def]
    """CRC-32C of a few bytes, continued from ``seed``, as the library's."""
    crc = np.uint32(seed) ^ np.uint32(0xFFFFFFFF)
    for i in range(at, end):
        index = (crc ^ np.uint32(data[i])) & np.uint32(0xFF)
        crc = _CRC[index] ^ (crc >> np.uint32(8))
    return crc ^ np.uint32(0xFFFFFFFF)


@njit(nogil=True, cache=True)
def _put(out, at, value, size):  # type: ignore[no-untyped-def]
    """A little-endian integer."""
    for i in range(size):
        out[at + i] = np.uint8((value >> (8 * i)) & 0xFF)


@njit(nogil=True, cache=True)
def _get(data, at, size):  # type: ignore[no-untyped-def]
    """A big-endian integer of up to eight bytes, two's complement."""
    value = np.int64(data[at])
    if value >= 0x80:
        value -= 0x100
    for i in range(1, size):
        value = (value << 8) | np.int64(data[at + i])
    return value


@njit(nogil=True, cache=True)
def _errno():  # type: ignore[no-untyped-def]
    return np.int64(carray(_errno_at(), 1)[0])


@njit(nogil=True, cache=True)
def _is_ordinary(batch, row, state, seen):  # type: ignore[no-untyped-def]
    """Whether the batch is sound, kept by its topic's rules and tells its times."""
    if row[LENGTH] < HEADER_BYTES or _get(batch, BASE_OFFSET_AT, 8) != row[BASE]:
        return False
    count = _get(batch, RECORD_COUNT_AT, 4)
    if count > state[RECORDS_MAX]:
        return False
    base_timestamp = _get(batch, BASE_TIMESTAMP_AT, 8)
    if row[FLAGS] & UNTIMED:
        base_timestamp = row[MAX_TIMESTAMP]
    seen[:] = 0
    code, _ = check_records(
        batch, HEADER_BYTES, row[LENGTH], count, base_timestamp, seen
    )
    if code != OK or seen[6] > state[HEADERS_MAX]:
        return False
    if row[FLAGS] & NEEDS_KEYS and seen[0] > 0:
        return False
    if row[FLAGS] & UNTIMED:
        return True
    if seen[3] >= 0 and (seen[2] < row[OLDEST] or seen[4] > row[NEWEST]):
        return False
    return seen[4] == row[MAX_TIMESTAMP]


@njit(nogil=True, cache=True)
def _pack(batch, row, state, place, heads, at, rows, rows_at):  # type: ignore[no-untyped-def]
    """The entry's header (``entry.py``) and its row of the footer (``columns.py``)."""
    _put(heads, at, _MAGIC, 4)
    _put(heads, at + 4, state[SEQUENCE], 8)
    _put(heads, at + 12, state[SYNCED], 4)
    _put(heads, at + 16, row[TOPIC], 4)
    _put(heads, at + 20, row[PARTITION], 4)
    _put(heads, at + 24, row[BASE], 8)
    _put(heads, at + 32, _get(batch, LEADER_EPOCH_AT, 4), 4)
    _put(heads, at + 36, row[LENGTH], 4)
    _put(heads, at + 40, _get(batch, CRC_AT, 4), 4)
    checksum = crc32c_of(heads, at, at + 44, place - ENTRY_BYTES)
    _put(heads, at + 44, np.int64(checksum), 4)
    _put(rows, rows_at, row[TOPIC], 4)
    _put(rows, rows_at + 4, row[PARTITION], 4)
    _put(rows, rows_at + 8, row[BASE], 8)
    _put(rows, rows_at + 16, row[LAST] - row[BASE], 4)
    _put(rows, rows_at + 20, row[MAX_TIMESTAMP], 8)
    _put(rows, rows_at + 28, place, 4)
    _put(rows, rows_at + 32, row[LENGTH], 4)


@njit(nogil=True, cache=True)
def _prepare(state, table, heads, rows, vector, seen):  # type: ignore[no-untyped-def]
    """Pack what may be written together: (how many batches, where they end)."""
    position, rows_bytes = state[END], state[ROWS_BYTES]
    first, count = state[DONE], np.int64(0)
    waiting = min(state[ANNOUNCED] - first, np.int64(GROUP_MAX), ROWS_MAX - state[ROWS])
    if state[FILE] < 0:
        return count, position
    while count < waiting:
        row = table[(first + count) % len(table)]
        place = position + ENTRY_BYTES
        end = place + row[LENGTH]
        rows_bytes += ROW_BYTES
        if end + rows_bytes > state[SLOT_BYTES] or end > state[WRITTEN]:
            break
        if count > 0 and end - state[END] > GROUP_BYTES_MAX:
            break
        batch = carray(_pointer(row[ADDRESS]), row[LENGTH])
        if not _is_ordinary(batch, row, state, seen):
            break
        at = count * ENTRY_BYTES
        _pack(
            batch, row, state, place, heads, at, rows, (state[ROWS] + count) * ROW_BYTES
        )
        row[LOCATION] = state[SEQUENCE] << 32 | place
        vector[4 * count] = heads.ctypes.data + at
        vector[4 * count + 1] = ENTRY_BYTES
        vector[4 * count + 2] = row[ADDRESS]
        vector[4 * count + 3] = row[LENGTH]
        position = end
        count += 1
    return count, position


@njit(nogil=True, cache=True)
def _join(vector, count, joined):  # type: ignore[no-untyped-def]
    """Copy the parts behind each other."""
    at = np.int64(0)
    for i in range(2 * count):
        length = vector[2 * i + 1]
        part = carray(_pointer(vector[2 * i]), length)
        copy_bytes(joined, at, part, 0, length)
        at += length


@njit(nogil=True, cache=True)
def _write_all(file, address, length, position):  # type: ignore[no-untyped-def]
    """Write all of it; returns 0 or what is wrong."""
    while length > 0:
        written = _pwrite(
            np.int32(file), np.uint64(address), np.uint64(length), position
        )
        if written < 0:
            error = _errno()
            if error != _EINTR:
                return error
        elif written == 0:
            return np.int64(_EIO)
        else:
            address, length = address + written, length - written
            position += written
    return np.int64(0)


@njit(nogil=True, cache=True)
def _write_parts(file, vector, parts, position, total):  # type: ignore[no-untyped-def]
    """Write all parts; what a short write left over goes part by part."""
    written = np.int64(-1)
    while written < 0:
        written = _pwritev(
            np.int32(file), np.uint64(vector.ctypes.data), np.int32(parts), position
        )
        if written < 0:
            error = _errno()
            if error != _EINTR:
                return error
    if written == total:
        return np.int64(0)
    skip = written
    for i in range(parts):
        length = vector[2 * i + 1]
        if skip < length:
            error = _write_all(
                file, vector[2 * i] + skip, length - skip, position + skip
            )
            if error != 0:
                return error
        skip = max(skip - length, np.int64(0))
        position += length
    return np.int64(0)


@njit(nogil=True, cache=True)
def _note_committed_position(state, end, record):  # type: ignore[no-untyped-def]
    """Say to other processes how far the log is durable, or written in the relaxed mode
    (``committed_position.py``)."""
    magic = _SYNCED_POSITION_MAGIC
    if state[SYNCED] != end:
        magic = _WRITTEN_POSITION_MAGIC
    _put(record, 0, magic, 8)
    _put(record, 8, state[SEQUENCE], 8)
    _put(record, 16, end, 8)
    _put(record, 24, np.int64(crc32c_of(record, 0, 24, 0)), 4)
    return _write_all(
        state[COMMITTED_POSITION],
        record.ctypes.data,
        _COMMITTED_POSITION_BYTES,
        np.int64(0),
    )


@njit(nogil=True, cache=True)
def _now_ns(instant):  # type: ignore[no-untyped-def]
    """A clock that never goes back."""
    _clock_gettime(np.int32(_CLOCK_MONOTONIC), np.uint64(instant.ctypes.data))
    return instant[0] * 1_000_000_000 + instant[1]


@njit(nogil=True, cache=True)
def _sync(state, instant):  # type: ignore[no-untyped-def]
    """Sync the file and count how long it took; 0, or what is wrong."""
    started_ns = _now_ns(instant)
    if _fdatasync(np.int32(state[FILE])) != 0:
        return _errno()
    took_ns = _now_ns(instant) - started_ns
    left, number = took_ns // UNIT_NS, np.int64(0)
    while left > 0 and number < TIMES - 1:
        left, number = left >> 1, number + 1
    state[SYNC_TIMES + number] += 1
    state[SYNC_NS] += took_ns
    return np.int64(0)


@njit(nogil=True, cache=True)
def _is_synced(state, table, count):  # type: ignore[no-untyped-def]
    """Whether the prepared batches are to be synced now."""
    flags = np.int64(0)
    for i in range(count):
        flags |= table[(state[DONE] + i) % len(table)][FLAGS]
    return state[SYNC] != 0 or flags & DURABLE != 0


@njit(nogil=True, cache=True)
def _commit(state, table, count, end, vector, joined, record, instant):  # type: ignore[no-untyped-def]
    """Make the prepared batches durable; returns 0 or what is wrong."""
    total = end - state[END]
    if total <= JOINED_BYTES_MAX and total < _JOIN_BELOW * count:
        _join(vector, count, joined)
        error = _write_all(state[FILE], joined.ctypes.data, total, state[END])
    else:
        error = _write_parts(state[FILE], vector, 2 * count, state[END], total)
    if error == 0 and _is_synced(state, table, count):
        error = _sync(state, instant)
        if error == 0:
            state[SYNCED] = end
    if error == 0:
        error = _note_committed_position(state, end, record)
    return error


@njit(nogil=True, cache=True)
def _wait(state, number):  # type: ignore[no-untyped-def]
    """Sleep until there is something to do and take it down; 0, or what is wrong."""
    got = np.int64(-1)
    while got < 0:
        got = _read(np.int32(state[IN]), np.uint64(number.ctypes.data), np.uint64(8))
        if got < 0:
            error = _errno()
            if error != _EINTR:
                return error
    state[ANNOUNCED] += number[0] & (CALL - 1)
    state[CALLS] += number[0] >> 32
    return np.int64(0)


@njit(_i64(_STATE, _TABLE, _WRITABLE, _WRITABLE, _WRITABLE), nogil=True, cache=True)
def serve(state, table, heads, rows, joined):  # type: ignore[no-untyped-def]
    """Make durable what is announced, until Python is needed; returns why it is."""
    vector = np.empty(4 * GROUP_MAX, np.int64)
    seen = np.zeros(7, np.int64)
    record = np.zeros(32, np.uint8)
    number = np.zeros(1, np.int64)
    instant = np.zeros(2, np.int64)
    while True:
        if state[ANNOUNCED] == state[DONE]:
            if state[CALLS] != 0:
                return CALLED
            state[ERRNO] = _wait(state, number)
            if state[ERRNO] != 0:
                return FAILED
            continue
        if state[ROWS] == ROWS_MAX:
            return ROWS_FULL
        count, end = _prepare(state, table, heads, rows, vector, seen)
        if count == 0:
            return UNUSUAL
        state[ERRNO] = _commit(
            state, table, count, end, vector, joined, record, instant
        )
        if state[ERRNO] != 0:
            return FAILED
        state[END] = end
        state[ROWS_BYTES] += count * ROW_BYTES
        state[ROWS] += count
        state[DONE] += count
        number[0] = count
        _write(np.int32(state[OUT]), np.uint64(number.ctypes.data), np.uint64(8))
