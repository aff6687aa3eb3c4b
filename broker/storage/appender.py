"""The appender: where a group of batches becomes durable, with one write and one sync.

The problem. A sync costs the same for one batch as for a thousand, and so nearly does a
write. What differs is what is done per batch, in Python, while everybody waits.

The idea. `commit` takes as many of the group as fit into the active segment, packs
their entries, writes them with one gathering write (small ones are joined first:
copying 100 bytes is cheaper than a vector of two), syncs once, and only then moves the
end of the segment, which is all that others look at. A full segment is sealed *before*
the next one is begun, so that a segment that has a successor is known to be complete.

In the relaxed mode (``wal.sync=interval``) the sync is left out, and `sync` is called
now and then. What this says of durability then holds for a process that dies, not for a
power cut; an entry still tells truly how much was synced before it. A group with a
marker is synced all the same: that a transaction is over is noted elsewhere, durably,
and must not outlive its markers and its records.

Runs on the writer's thread alone, and knows no queue: it can be driven step by step.

The price. All wait for the seal of a full segment (`active_segment`).
"""

from collections.abc import Callable, Sequence
from typing import Final

from broker.clock import Clock
from broker.status.histogram import TIMES, Histogram
from broker.storage.active_segment import ActiveSegment
from broker.storage.columns import ROW_BYTES, pack_row
from broker.storage.committed_position import CommittedPositionFile
from broker.storage.entry import ENTRY_HEADER_BYTES, Append, pack_entry
from broker.storage.files import Buffer
from broker.storage.layout import HEADER_BLOCK_BYTES
from broker.storage.segment import STEP, SealedSegment

LONG_AGO_MS: Final = 60_000


class SegmentAppender:
    """Writes entries; one segment is active, or none before the first entry.

    ``begin`` makes a segment of this sequence to write or raises NoSlot; ``sealed`` is
    given each one when it is whole. Both are called on the writer's thread.
    """

    def __init__(
        self,
        committed_position: CommittedPositionFile,
        clock: Clock,
        *,
        next_sequence: int,
        sync: bool = True,
        begin: Callable[[int], ActiveSegment],
        sealed: Callable[[SealedSegment], None],
    ) -> None:
        self._committed_position = committed_position
        self._clock = clock
        self._begin_segment = begin
        self._sealed = sealed
        self._next_sequence = next_sequence
        self._sync = sync
        self.active: ActiveSegment | None = None
        self.syncs = Histogram(TIMES)
        """How long syncs of groups took; those of seals are not among them."""
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
            self._finish(self.active)

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
        parts, rows, end = _gather(segment, group, start)
        if not parts:
            self.seal()
            return start
        stop = start + len(rows)
        synced = self._sync or _has_marker(group[start:stop])
        try:
            segment.write(parts, end, sync=synced)
            self._committed_position.write(segment.sequence, end, synced=synced)
        except OSError:  # what is refused must not be found again by a restart
            self._finish(segment)
            raise
        segment.add_appends(group[start:stop], rows)
        if synced:
            self._note_synced(segment)
        return stop

    def sync(self) -> None:
        """Make durable what was written since the last time, in the relaxed mode.

        Raises OSError: what was acknowledged since then may be lost.
        """
        segment = self.active
        if segment is None or segment.empty:
            return
        if segment.synced < segment.end:
            segment.sync()
            self._note_synced(segment)
            self._committed_position.write(segment.sequence, segment.end)
        self.last_durable = segment.sequence  # what the compiled writer synced, too

    def seal(self) -> None:
        """Close the active segment with its footer; nothing to do if there is none."""
        active, self.active = self.active, None
        if active is None:
            return
        segment = active.seal(self._clock.now_ms())
        self.last_durable = segment.sequence
        self._sealed(segment)

    def _begin(self) -> ActiveSegment:
        self.active = segment = self._begin_segment(self._next_sequence)
        self._next_sequence += STEP
        return segment

    def _finish(self, segment: ActiveSegment) -> None:
        """What was tried to be written behind the end of the segment never counts."""
        end = segment.end
        is_synced = segment.synced >= end
        self._committed_position.finish(segment.sequence, end, synced=is_synced)

    def _note_synced(self, segment: ActiveSegment) -> None:
        """All of the segment up to its end would survive a power cut."""
        segment.synced = segment.end
        self.syncs.add_time(segment.sync_ns)
        self.last_durable = segment.sequence


def _has_marker(group: Sequence[Append]) -> bool:
    return any(append.header.is_control for append in group)


def _gather(
    segment: ActiveSegment, group: Sequence[Append], start: int
) -> tuple[list[Buffer], list[bytes], int]:
    """Header and batch of each entry that fits, their rows, and where they end."""
    sequence, synced, position = segment.sequence, segment.synced, segment.end
    room = segment.room_end
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
