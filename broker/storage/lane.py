"""The fast lane: how ordinary batches get from the event loop to the disk and back.

The problem and the compiled loop: see ``kernels_append.py``. This is the table
that both sides share, and who may touch what of it:

    the event loop      puts rows, announces them, calls, and takes what is finished
    the writer's thread runs `serve`; when that comes back, `load`, `fold`, `finished`

The order is that of the rows. A call is handled behind all rows that were announced
before it; who calls puts no more rows until the call was answered (``writer.py``).

A batch's memory is kept alive by its append, which stays in the ring until it is taken.

The price: two eventfds, and a table of some megabytes of addresses that are only
touched where they are used.
"""

import contextlib
import os
import threading
from ctypes import addressof, c_char
from struct import Struct
from typing import Any, Final

import numpy as np

from broker.records.limits import HEADERS_MAX, RECORDS_MAX
from broker.status.histogram import TIMES, HistogramState
from broker.storage import kernels_append as kernels
from broker.storage.active_segment import ActiveSegment
from broker.storage.appender import SegmentAppender
from broker.storage.columns import ROW_BYTES, Rows, rows_of
from broker.storage.entry import Append

CAPACITY: Final = 8192
BATCH_BYTES_MAX: Final = 8 << 20

_MASK: Final = CAPACITY - 1
_CODEC_BITS: Final = 0x07
_TIMESTAMP_BIT: Final = 0x08
_CONTROL_BIT: Final = 0x20
_ROW: Final = Struct("<10q")
_ROW_SIZE: Final = 8 * kernels.FIELDS

Bounds = tuple[int, int, int]
"""Whether keys are needed, oldest and newest time accepted, in milliseconds."""


class Lane:
    """Shared by the event loop and the writer's thread; see the module."""

    def __init__(self, appender: SegmentAppender) -> None:
        self._appender = appender
        self._table = np.zeros((CAPACITY, kernels.FIELDS), np.int64)
        self._cells = self._table.data.cast("B")
        self._numbers = self._cells.cast("q")
        self._heads = np.zeros(kernels.GROUP_MAX * kernels.ENTRY_BYTES, np.uint8)
        self._rows = np.zeros(kernels.ROWS_MAX * ROW_BYTES, np.uint8)
        self._joined = np.zeros(kernels.JOINED_BYTES_MAX, np.uint8)
        self._state = np.zeros(kernels.STATE, np.int64)
        self._appends: list[Append | None] = [None] * CAPACITY
        self._put = self._taken = 0
        self._segment: ActiveSegment | None = None
        self._folded = 0
        self._closed = False
        self._lock = threading.Lock()
        self._in = os.eventfd(0, os.EFD_CLOEXEC)
        self.out = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        """Readable when something is finished."""
        state = self._state
        state[kernels.IN], state[kernels.OUT] = self._in, self.out
        state[kernels.COMMITTED_POSITION] = appender.committed_position_file
        state[kernels.SYNC] = not appender.is_relaxed
        state[kernels.RECORDS_MAX] = RECORDS_MAX
        state[kernels.HEADERS_MAX] = HEADERS_MAX

    # The event loop's side

    def put(self, append: Append, bounds: Bounds) -> bool:
        """Fill the next row, to be announced; False: it cannot go this way.

        That is a batch that is compressed, or very large, or there is no room.
        """
        batch: Any = append.batch
        attributes, length, number = append.header.attributes, len(batch), self._put
        if (
            attributes & _CODEC_BITS
            or length > BATCH_BYTES_MAX
            or number - self._taken >= CAPACITY
            or type(batch) is bytes
        ):
            return False
        flags, oldest_ms, newest_ms = bounds
        if attributes & _TIMESTAMP_BIT:
            flags |= kernels.UNTIMED
        if attributes & _CONTROL_BIT:
            flags |= kernels.DURABLE
        at = number & _MASK
        _ROW.pack_into(
            self._cells, at * _ROW_SIZE, addressof(c_char.from_buffer(batch)),
            length, append.topic_number, append.partition, append.base_offset,
            append.last_offset, append.max_timestamp, flags, oldest_ms, newest_ms,
        )  # fmt: skip
        self._appends[at] = append
        self._put = number + 1
        return True

    def announce(self, count: int) -> None:
        """Let the writer's thread begin with so many more rows."""
        os.eventfd_write(self._in, count)

    def call(self) -> None:
        """Let `serve` come back behind all that was announced."""
        os.eventfd_write(self._in, kernels.CALL)

    def take(self) -> list[Append]:
        """What was finished since the last time, in order."""
        if self._closed:
            return []
        try:
            count = os.eventfd_read(self.out)
        except BlockingIOError:
            return []
        appends, numbers, taken = self._appends, self._numbers, self._taken
        found = []
        for number in range(taken, taken + count):
            at = number & _MASK
            append = appends[at]
            assert append is not None
            appends[at] = None
            if append.location < 0 and append.error is None:
                append.location = numbers[at * kernels.FIELDS + kernels.LOCATION]
            found.append(append)
        self._taken = taken + count
        return found

    # The writer's thread's side

    def serve(self, *, usable: bool) -> None:
        """Make durable what is announced, until Python is needed.

        Then something is ``waiting``, or else it was called. Without ``usable`` it is
        needed for each batch. Raises OSError if a write or sync failed.
        """
        reason = kernels.ROWS_FULL
        while reason == kernels.ROWS_FULL:
            self._load(self._appender.active if usable else None)
            reason = kernels.serve(
                self._state, self._table, self._heads, self._rows, self._joined
            )
            self._fold()
        if reason == kernels.FAILED:
            self._appender.give_up()
            number = int(self._state[kernels.ERRNO])
            raise OSError(number, os.strerror(number))

    def calls(self) -> int:
        """How often it was called since the last time."""
        count = int(self._state[kernels.CALLS])
        self._state[kernels.CALLS] = 0
        return count

    def waiting(self) -> list[Append]:
        """The announced batches that are not finished."""
        done, end = self._state[[kernels.DONE, kernels.ANNOUNCED]].tolist()
        found = [self._appends[number & _MASK] for number in range(done, end)]
        return [append for append in found if append is not None]

    def finished(self, count: int) -> None:
        """Hand back so many of ``waiting``, which Python made durable or refused."""
        self._state[kernels.DONE] += count
        os.eventfd_write(self.out, count)

    def _load(self, segment: ActiveSegment | None) -> None:
        """Go on in the segment as Python left it."""
        state = self._state
        with self._lock:
            state[kernels.ROWS] = self._folded = 0
            if segment is None or segment.empty:
                self._segment = None
                state[kernels.FILE] = -1
                return
            self._segment = segment
            state[kernels.FILE] = segment.slot.file
            state[kernels.SEQUENCE] = segment.sequence
            state[kernels.END] = segment.end
            state[kernels.SYNCED] = segment.synced
            state[kernels.SLOT_BYTES] = segment.slot.size
            state[kernels.ROWS_BYTES] = len(segment.rows)
            state[kernels.WRITTEN] = segment.slot.written

    def _fold(self) -> None:
        """Let the segment know of all that is durable in it."""
        with self._lock:
            segment, new = self._segment, self._pending_rows()
            if segment is None or not new:
                return
            segment.add_rows(new)
            segment.synced = int(self._state[kernels.SYNCED])
            self._folded += len(new) // ROW_BYTES

    def _pending_rows(self) -> bytes:
        rows = int(self._state[kernels.ROWS])
        return self._rows[self._folded * ROW_BYTES : rows * ROW_BYTES].tobytes()

    # Any thread's

    def sync_times(self) -> HistogramState:
        """How long its syncs took."""
        first, state = kernels.SYNC_TIMES, self._state
        buckets = state[first : first + TIMES].tolist()
        return HistogramState(tuple(buckets), int(state[kernels.SYNC_NS]))

    def pending(self) -> tuple[int, Rows]:
        """The segment that the compiled loop writes, 0 if none, and the rows of batches
        that are durable in it and that it does not know of yet."""
        with self._lock:
            if self._segment is None:
                return 0, rows_of(b"")
            return self._segment.sequence, rows_of(self._pending_rows())

    def close(self) -> None:
        """Close the two eventfds; only when the writer's thread has ended."""
        self._closed = True
        for file in (self._in, self.out):
            with contextlib.suppress(OSError):
                os.close(file)
