"""The segment that is being written, until it is sealed.

The problem. While a segment is written its end moves, its footer grows, and the loop,
the recycler and readers look at it. Afterwards it never changes. One object for both
needs flags that one thread sets and others trust.

The idea. Two types. An `ActiveSegment` is changed by one thread alone, which has begun
it: the writer's, or the recycler's for what it carries. Its `seal` gives a
`SealedSegment`, which nobody changes, and it must not be used any more. Who holds on to
an active one while it is sealed sees where it ended.

The first write to a block of a file is dear to sync: the file system must note that it
is no hole any more. A large group carries that; a small one, whose blocks nobody wrote
before, writes half a megabyte of zeros behind itself, and hundreds after it are cheap.

The price. Sealing writes and syncs the footer while the next group waits: some
milliseconds once per segment.
"""

from collections.abc import Sequence
from typing import Final

from crc32c import crc32c

from broker.clock import ticks_ns
from broker.failpoints import passing
from broker.ids import TopicPartition
from broker.storage.columns import ROW_BYTES, Rows, rows_of
from broker.storage.entry import ENTRY_HEADER_BYTES, Append, location_of
from broker.storage.files import Buffer, Files
from broker.storage.layout import (
    HEADER_BLOCK_BYTES,
    SEAL_AT,
    Identity,
    Seal,
    pack_identity,
    pack_seal,
)
from broker.storage.ranges import Range, pack_ranges, widen
from broker.storage.readable import PAGE_BYTES
from broker.storage.segment import SealedSegment, SegmentInfo, Slot

JOIN_BELOW_BYTES: Final = 16 << 10  # mean entry size under which copying is cheaper
AHEAD_BYTES: Final = 512 << 10
_ZEROS: Final = memoryview(bytes(AHEAD_BYTES))


class ActiveSegment:
    """One generation of a slot while it is written; see the module for who may.

    ``end``: behind the last entry that is written and synced (in the relaxed mode:
    written). ``synced``: up to where it would survive a power cut. ``rows``: the footer
    so far. ``ranges``: as in `SegmentInfo`.
    """

    __slots__ = (
        "_files", "carried", "created_ms", "end", "ranges", "rows", "sequence", "slot",
        "sync_ns",
        "synced",
    )  # fmt: skip

    def __init__(
        self,
        files: Files,
        slot: Slot,
        sequence: int,
        created_ms: int,
        *,
        carried: bool = False,
    ) -> None:
        self._files = files
        self.slot = slot
        self.sequence = sequence
        self.created_ms = created_ms
        self.carried = carried
        self.end = self.synced = HEADER_BLOCK_BYTES
        self.sync_ns = 0
        self.rows = bytearray()
        self.ranges: dict[TopicPartition, Range] = {}

    @property
    def empty(self) -> bool:
        return self.end == HEADER_BLOCK_BYTES

    @property
    def room_end(self) -> int:
        """Up to where entries may lie, so that the footer has its place behind them."""
        return self.slot.size - len(self.rows)

    def identify(self) -> None:
        """Say in the file's first sector whose generation it is now. Raises OSError.

        All of the block is written: of a page that is written in part the kernel reads
        the rest, and of a file that was used before it may be unreadable.
        """
        identity = pack_identity(
            Identity(self.sequence, self.slot.size, self.created_ms)
        )
        block = identity.ljust(HEADER_BLOCK_BYTES, b"\0")
        self._files.pwritev(self.slot.file, [block], 0)

    def write(self, parts: list[Buffer], end: int, *, sync: bool) -> None:
        """Write entries from the end on up to ``end``; they do not count yet.

        Raises OSError if what was written may or may not be there.
        """
        slot, position = self.slot, self.end
        passing("wal.before_write")
        if self.empty:
            self.identify()
        if end - position < JOIN_BELOW_BYTES * len(parts) // 2:
            parts = [b"".join(parts)]
        if end > slot.written:
            _write_ahead(slot, parts, end, end - position)
        self._files.pwritev(slot.file, parts, position)
        passing("wal.after_write")
        if sync:
            self.sync()
        passing("wal.after_sync")

    def add_appends(self, appends: Sequence[Append], rows: Sequence[bytes]) -> None:
        """These batches, which were written, count from now on; say where they lie."""
        self.rows += b"".join(rows)
        ranges, sequence, position = self.ranges, self.sequence, self.end
        for append in appends:
            position += ENTRY_HEADER_BYTES
            append.location = location_of(sequence, position)
            position += len(append.batch)
            key = (append.topic_number, append.partition)
            known = ranges.get(key)
            first = append.base_offset if known is None else known[0]
            ranges[key] = (first, append.last_offset + 1)
        self.end = position

    def add_rows(self, rows: bytes) -> None:
        """The batches of these footer rows, written by other means, count as well."""
        self.rows += rows
        new = rows_of(rows)
        widen(self.ranges, new)
        self.end = _end_of(new)

    def sync(self) -> None:
        """Make durable what was written. Raises OSError."""
        started_ns = ticks_ns()
        self._files.fdatasync(self.slot.file)
        self.sync_ns = ticks_ns() - started_ns

    def seal(self, now_ms: int) -> SealedSegment:
        """Close it with footer and seal, durably. Raises OSError."""
        footer = bytes(self.rows)
        write_seal(self._files, self.slot, self.sequence, self.end, footer, now_ms)
        ranges = pack_ranges(self.ranges)
        info = SegmentInfo(
            self.sequence, True, self.end, ranges, self.created_ms, now_ms,
            self.slot.path, batches=len(footer) // ROW_BYTES,
        )  # fmt: skip
        return SealedSegment(self.slot, info, self.carried)

    def info(self, more: Rows) -> SegmentInfo:
        """How others see it now: a copy. Any thread.

        ``more``: rows of batches that are durable in it and that it may not have heard
        of yet.
        """
        end, ranges = self.end, self.ranges.copy()
        if len(more):
            widen(ranges, more)
            end = max(end, _end_of(more))
        return SegmentInfo(
            self.sequence, False, end, ranges, self.created_ms, path=self.slot.path
        )


def write_seal(
    files: Files, slot: Slot, sequence: int, end: int, footer: bytes, now_ms: int
) -> None:
    """Write the footer behind the entries and the seal that vouches for it; sync.

    Nothing depends on their order: without a right seal the segment is scanned.
    """
    seal = Seal(sequence, end, end, len(footer), crc32c(footer), now_ms)
    # Up to the end of its page, which need not be readable, then: see `identify`.
    footer_end = end + len(footer)
    rest = max(0, min(-footer_end % PAGE_BYTES, slot.size - footer_end))
    files.pwritev(slot.file, [footer + bytes(rest)], end)
    files.pwritev(slot.file, [pack_seal(seal)], SEAL_AT)
    passing("wal.seal")
    files.fdatasync(slot.file)


def _write_ahead(slot: Slot, parts: list[Buffer], end: int, size: int) -> None:
    """Let a small group touch the blocks of the next ones with zeros."""
    ahead = min(AHEAD_BYTES, slot.size - end) if size < AHEAD_BYTES // 2 else 0
    if ahead:
        parts.append(_ZEROS[:ahead])
    slot.written = end + ahead


def _end_of(rows: Rows) -> int:
    """Where the entry of the last row ends."""
    return int(rows[-1]["position"]) + int(rows[-1]["length"])
