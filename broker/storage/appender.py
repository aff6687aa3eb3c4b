"""The appender: where a group of batches becomes durable, with one write and one sync.

The problem. A sync costs the same for one batch as for a thousand, and so nearly does a
write. What differs is what is done per batch, in Python, while everybody waits.

The idea. `commit` takes as many of the group as fit into the active segment, packs
their entries, writes them with one gathering write (small ones are joined first:
copying 100 bytes is cheaper than a vector of two), syncs once, and only then moves the
end of the segment, which is all that others look at. A full segment is sealed *before*
the next one is begun, so that a segment that has a successor is known to be complete.

The first write to a block of a file is dear to sync: the file system must note that it
is no hole any more. A large group carries that; a small one, whose blocks nobody wrote
before, writes half a megabyte of zeros behind itself, and hundreds after it are cheap.

In the relaxed mode (``wal.sync=interval``) the sync is left out, and `sync` is called
now and then. What this says of durability then holds for a process that dies, not for a
power cut; an entry still tells truly how much was synced before it.

Runs on the writer's thread alone, and knows no queue: it can be driven step by step.

The price. Sealing writes and syncs the footer while the next group waits: some
milliseconds once per segment.
"""

from collections.abc import Callable, Sequence
from typing import Final

from crc32c import crc32c

from broker.clock import Clock
from broker.failpoints import passing
from broker.storage.columns import ROW_BYTES, pack_row
from broker.storage.committed_position import CommittedPositionFile
from broker.storage.entry import (
    ENTRY_HEADER_BYTES,
    Append,
    location_of,
    pack_entry,
)
from broker.storage.files import Buffer, Files
from broker.storage.layout import (
    HEADER_BLOCK_BYTES,
    SEAL_AT,
    Identity,
    Seal,
    pack_identity,
    pack_seal,
)
from broker.storage.segment import STEP, Segment, Slot

JOIN_BELOW_BYTES: Final = 16 << 10  # mean entry size under which copying is cheaper
LONG_AGO_MS: Final = 60_000
AHEAD_BYTES: Final = 512 << 10
_ZEROS: Final = memoryview(bytes(AHEAD_BYTES))


class SegmentAppender:
    """Writes entries; one segment is active, or none before the first entry.

    ``take_slot`` gives a slot to write or raises NoSlot. ``began`` and ``sealed`` are
    called with each segment, on the writer's thread.
    """

    def __init__(
        self,
        files: Files,
        committed_position: CommittedPositionFile,
        clock: Clock,
        *,
        next_sequence: int,
        sync: bool = True,
        take_slot: Callable[[], Slot],
        began: Callable[[Segment], None],
        sealed: Callable[[Segment], None],
    ) -> None:
        self._files = files
        self._committed_position = committed_position
        self._clock = clock
        self._take_slot = take_slot
        self._began = began
        self._sealed = sealed
        self._next_sequence = next_sequence
        self._sync = sync
        self.synced = 0
        """Up to where the active segment would survive a power cut."""
        self.active: Segment | None = None
        self.last_durable = next_sequence - 1
        """The highest sequence whose segment would survive a power cut."""
        self.last_write_ms = clock.monotonic_ms() - LONG_AGO_MS
        """When the last group was written, on the monotonic clock."""

    @property
    def is_relaxed(self) -> bool:
        """Whether batches are acknowledged before they are synced."""
        return not self._sync

    @property
    def committed_position_file(self) -> int:
        """The descriptor of the committed position, for the compiled writer."""
        return self._committed_position.file

    def give_up(self) -> None:
        """The compiled writer failed: what it tried to write ends the segment."""
        if self.active is not None:
            self._committed_position.finish(self.active.sequence, self.active.end)

    def touch(self) -> None:
        """Note the time of a write that the compiled writer did."""
        self.last_write_ms = self._clock.monotonic_ms()

    def position(self) -> tuple[int, int]:
        """Everything that is durable lies before this (sequence, position)."""
        if self.active is None:
            return self._next_sequence, 0
        return self.active.sequence, self.active.end

    def fits_a_segment(self, length: int, segment_bytes: int) -> bool:
        """Whether an empty segment has room for a batch of this many bytes."""
        overhead = HEADER_BLOCK_BYTES + ENTRY_HEADER_BYTES + ROW_BYTES
        return length + overhead <= segment_bytes

    def commit(self, group: Sequence[Append], start: int) -> int:
        """Make some of ``group[start:]`` durable; returns where to go on.

        Raises OSError if what was written may or may not be there: then nothing more
        can be promised. Raises NoSlot before anything was written.
        """
        self.last_write_ms = self._clock.monotonic_ms()
        segment = self.active or self._begin()
        parts, rows, end = self._gather(segment, group, start)
        if not parts:
            self.seal()
            return start
        try:
            self._write(segment, parts, end)
            self._committed_position.write(segment.sequence, end)
        except OSError:  # what is refused must not be found again by a restart
            self._committed_position.finish(segment.sequence, segment.end)
            raise
        stop = start + len(rows)
        segment.rows += b"".join(rows)
        note_durable(segment, group[start:stop])
        if self._sync:
            self.note_synced(segment)
        return stop

    def sync(self) -> None:
        """Make durable what was written since the last time, in the relaxed mode.

        Raises OSError: what was acknowledged since then may be lost.
        """
        segment = self.active
        if segment is None or self.synced == segment.end:
            return
        self._files.fdatasync(segment.slot.file)
        self.note_synced(segment)

    def note_synced(self, segment: Segment) -> None:
        """All of the segment up to its end is durable."""
        self.synced = segment.end
        self.last_durable = segment.sequence

    def seal(self) -> None:
        """Close the active segment with its footer; nothing to do if it is empty."""
        segment, self.active = self.active, None
        if segment is None:
            return
        write_seal(self._files, segment, self._clock.now_ms())
        self.note_synced(segment)
        self._sealed(segment)

    def _begin(self) -> Segment:
        slot = self._take_slot()
        segment = Segment(self._next_sequence, slot, self._clock.now_ms())
        self._began(segment)
        self._next_sequence += STEP
        self.synced = segment.end
        self.active = segment
        return segment

    def _gather(
        self, segment: Segment, group: Sequence[Append], start: int
    ) -> tuple[list[Buffer], list[bytes], int]:
        """Header and batch of each entry that fits, their rows, and where they end."""
        sequence, synced, position = segment.sequence, self.synced, segment.end
        room = segment.slot.size - len(segment.rows)
        parts: list[Buffer] = []
        rows: list[bytes] = []
        for index in range(start, len(group)):
            append = group[index]
            length = len(append.batch)
            body = position + ENTRY_HEADER_BYTES
            room -= ROW_BYTES
            if body + length > room:
                break
            parts.append(pack_entry(append, sequence, synced, position))
            parts.append(append.batch)
            rows.append(pack_row(append, body, length))
            position = body + length
        return parts, rows, position

    def _write(self, segment: Segment, parts: list[Buffer], end: int) -> None:
        file, position = segment.slot.file, segment.end
        passing("wal.before_write")
        if segment.empty:
            identity = Identity(segment.sequence, segment.slot.size, segment.created_ms)
            self._files.pwritev(file, [pack_identity(identity)], 0)
        if end - position < JOIN_BELOW_BYTES * len(parts) // 2:
            parts = [b"".join(parts)]
        if end > segment.slot.written:
            self._write_ahead(segment.slot, parts, end, end - position)
        self._files.pwritev(file, parts, position)
        passing("wal.after_write")
        if self._sync:
            self._files.fdatasync(file)
        passing("wal.after_sync")

    def _write_ahead(
        self, slot: Slot, parts: list[Buffer], end: int, size: int
    ) -> None:
        """Let a small group touch the blocks of the next ones with zeros."""
        ahead = min(AHEAD_BYTES, slot.size - end) if size < AHEAD_BYTES // 2 else 0
        if ahead:
            parts.append(_ZEROS[:ahead])
        slot.written = end + ahead


def note_durable(segment: Segment, appends: Sequence[Append]) -> None:
    """Say where they lie, and widen the segment by them: they are durable now."""
    ranges, sequence, position = segment.ranges, segment.sequence, segment.end
    for append in appends:
        position += ENTRY_HEADER_BYTES
        append.location = location_of(sequence, position)
        position += len(append.batch)
        key = (append.topic_number, append.partition)
        known = ranges.get(key)
        first = append.base_offset if known is None else known[0]
        ranges[key] = (first, append.last_offset + 1)
    segment.end = position


def write_seal(files: Files, segment: Segment, now_ms: int) -> None:
    """Write the footer behind the entries and the seal that vouches for it; sync.

    Nothing depends on their order: without a right seal the segment is scanned.
    """
    footer = bytes(segment.rows)
    seal = Seal(
        segment.sequence, segment.end, segment.end, len(footer), crc32c(footer), now_ms
    )
    file = segment.slot.file
    files.pwritev(file, [footer], segment.end)
    files.pwritev(file, [pack_seal(seal)], SEAL_AT)
    passing("wal.seal")
    files.fdatasync(file)
    segment.sealed_at_ms = now_ms
    segment.batches = len(footer) // ROW_BYTES
    segment.sealed = True
    segment.rows = bytearray()
