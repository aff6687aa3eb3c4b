"""The write-ahead log: segments of all partitions, one writer, and reading back.

This is the face of the package; see the README for the life of a batch. The parts:

    Writer       groups what waits          its own thread
    Journal      writes and syncs a group   on the writer's thread
    Housekeeper  spare files, checkpoints   its own thread
    HotWindow    recent segments as memory
    recover      what the disk says, at start

`Wal` itself runs on the loop and only hands over; the one exception is `read`, which
blocks and belongs on a thread.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from broker.clock import Clock, SystemClock
from broker.protocol.errors import KafkaError
from broker.storage.entry import Append, location_of, position_of, sequence_of
from broker.storage.files import Files
from broker.storage.horizon import HorizonFile
from broker.storage.housekeeper import QUIET_MS, Housekeeper
from broker.storage.journal import Journal, write_seal
from broker.storage.manifest import write_manifest
from broker.storage.pool import NEW_SUFFIX, SlotPool
from broker.storage.recovery import Found, Recovery, recover
from broker.storage.scan import read_batch
from broker.storage.segment import Segment, SegmentInfo, StaleSegment
from broker.storage.window import HotWindow
from broker.storage.writer import CallSoon, Inspect, Writer

__all__ = ["Append", "Recovery", "SegmentInfo", "StaleSegment", "Wal", "location_of"]


class Wal:
    """Made by `open`. All methods but `read` belong to the loop's thread."""

    def __init__(
        self,
        files: Files,
        directory: Path,
        found: Found,
        *,
        segment_bytes: int,
        call_soon: CallSoon,
        next_turn: CallSoon | None,
        inspect: Inspect | None,
        spare_segments: int,
        free_segments_max: int,
        hot_bytes: int,
        on_sealed: Callable[[SegmentInfo], None] | None,
        clock: Clock,
    ) -> None:
        self._files = files
        self._clock = clock
        self._segments = found.segments
        self._call_soon = call_soon
        self._on_sealed = on_sealed
        self._window = HotWindow(files, hot_bytes)
        self._horizon = HorizonFile(files, directory)
        self._pool = SlotPool(
            files, directory, segment_bytes, spare_segments, free_segments_max,
            self._wake,
        )  # fmt: skip
        self._pool.next_number = found.last_number + 1
        self._journal = Journal(
            files,
            self._horizon,
            clock,
            next_sequence=found.highest_sequence + 1,
            take_slot=self._pool.take,
            began=self._began,
            sealed=self._sealed,
        )
        self._writer = Writer(
            self._journal,
            segment_bytes=segment_bytes,
            call_soon=call_soon,
            next_turn=next_turn,
            inspect=inspect,
        )
        self._housekeeper = Housekeeper(
            files,
            directory,
            pool=self._pool,
            window=self._window,
            segments=self._segments,
            manifest=found.manifest,
            last_durable=lambda: self._journal.last_durable,
            quiet_ms=self._quiet_ms,
            fail=self._writer.fail,
        )
        self.append: Callable[[Append], None] = self._writer.append
        """Queue a batch; its ``done`` is called when it is durable or refused."""

    @classmethod
    def open(
        cls,
        files: Files,
        directory: Path,
        *,
        call_soon: CallSoon,
        next_turn: CallSoon | None = None,
        segment_bytes: int = 64 << 20,
        inspect: Inspect | None = None,
        spare_segments: int = 8,
        free_segments_max: int = 16,
        hot_bytes: int = 128 << 20,
        on_sealed: Callable[[SegmentInfo], None] | None = None,
        clock: Clock | None = None,
    ) -> tuple["Wal", Recovery]:
        """Recover what is in ``directory`` (made if missing) and go on behind it.

        ``call_soon``: hands a callable to the loop, from any thread. ``next_turn``: the
        same from the loop's thread; what is appended in one turn may then be handed
        over together. ``inspect``: may refuse a batch by raising KafkaError; runs on
        the writer's thread. Raises OSError if the disk cannot be read or written.
        """
        clock = clock or SystemClock()
        files.mkdir(directory)
        for name in files.listdir(directory):
            if name.endswith(NEW_SUFFIX):
                files.unlink(directory / name)
        found, recovery = recover(files, directory)
        _begin_anew(files, directory, found, clock.now_ms())
        wal = cls(
            files, directory, found,
            segment_bytes=segment_bytes, call_soon=call_soon, next_turn=next_turn,
            inspect=inspect, spare_segments=spare_segments,
            free_segments_max=free_segments_max,
            hot_bytes=hot_bytes, on_sealed=on_sealed, clock=clock,
        )  # fmt: skip
        for slot in found.free:
            wal._pool.give(slot)
        wal._housekeeper.start()
        wal._writer.start()
        return wal, recovery

    @property
    def failed(self) -> KafkaError | None:
        """Why nothing is written any more; None while all is well."""
        return self._writer.failed

    @property
    def trouble(self) -> str | None:
        """What keeps it from being written, for good or until there is room again."""
        failed = self._writer.failed
        return str(failed) if failed is not None else self._pool.trouble

    @property
    def is_short_of_slots(self) -> bool:
        """Whether a segment that is released now is used again at once."""
        return self._pool.is_short

    def is_busy(self) -> bool:
        """Whether it is being written now. Any thread."""
        return self._quiet_ms() < QUIET_MS

    def _quiet_ms(self) -> int:
        return self._clock.monotonic_ms() - self._journal.last_write_ms

    def checkpoint(self, payload: bytes) -> None:
        """Once all that was appended is durable, note that it is in ``payload``."""

        def note() -> None:
            if self._writer.failed is None:
                sequence, position = self._journal.position()
                self._housekeeper.checkpoint(payload, sequence, position)

        self._writer.call(note)

    def roll(self) -> None:
        """Seal the active segment, behind all that was appended."""
        self._writer.call(self._seal)

    def view(self, location: int, length: int) -> memoryview | None:
        """The batch at ``location``, not copied; None if it is not in memory."""
        sequence = sequence_of(location)
        return self._window.view(sequence, position_of(location), length)

    def read(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """The batches at these (location, length), read and verified. Blocks.

        It ends before a batch that is not what was written. Raises KafkaError
        CORRUPT_MESSAGE if that is the first one, StaleSegment if one was let go (look
        in the tables), OSError.
        """
        found: list[bytes] = []
        for location, length in spans:
            try:
                found.append(self._read(location, length))
            except KafkaError:
                if not found:
                    raise
                break
        return found

    def segments(self) -> list[SegmentInfo]:
        """Those that are not released, by sequence; the active one is the last."""
        live = self._segments.copy()
        return [
            segment.info()
            for _, segment in sorted(live.items())
            if not segment.released and not segment.empty
        ]

    def release(self, sequence: int) -> None:
        """Nothing of this sealed segment is needed any more.

        Its file is used again when no view of it is alive and the checkpoint lies
        behind it. Raises StaleSegment if there is no such segment.
        """
        segment = self._segments.get(sequence)
        if segment is None or segment.released:
            raise StaleSegment(sequence)
        assert segment is not self._journal.active, "the active segment is needed"
        segment.released = True
        self._window.drop(sequence)
        self._wake()

    def close(self) -> None:
        """Finish what waits, then close the files. Blocks; views stay readable."""
        if self._writer.failed is None:
            self._writer.stop()
        else:
            self._pool.close()
            self._writer.stop()
        self._housekeeper.stop()
        self._pool.close()
        self._horizon.close()
        for segment in self._segments.values():
            self._files.close(segment.slot.file)

    def _read(self, location: int, length: int) -> bytes:
        segment = self._segments.get(sequence_of(location))
        if segment is None or segment.released:
            raise StaleSegment(sequence_of(location))
        try:
            return read_batch(self._files, segment.slot.file, location, length)
        finally:
            if segment.released:  # its file may have been used again meanwhile
                raise StaleSegment(segment.sequence)

    def _wake(self) -> None:
        self._housekeeper.wake()

    def _began(self, segment: Segment) -> None:
        self._window.begin(segment)
        self._segments[segment.sequence] = segment

    def _seal(self) -> None:
        if self._writer.failed is None:
            self._journal.seal()

    def _sealed(self, segment: Segment) -> None:
        self._wake()
        told = self._on_sealed
        if told is not None:
            info = segment.info()
            self._call_soon(lambda: told(info))


def _begin_anew(files: Files, directory: Path, found: Found, now_ms: int) -> None:
    """Leave nothing half open: what comes goes into segments of its own.

    The last segment is sealed, never continued: behind its end may lie entries of an
    unfinished write, right in every respect but that nobody was promised them; the
    next entries of the same generation could make them look like a part of the log.
    For the same reason a sequence is left out: it may have been begun and lost.
    """
    for sequence, segment in list(found.segments.items()):
        if segment.sealed:
            continue
        if not segment.intact:  # nothing is written to it any more, not even a seal
            segment.sealed, segment.sealed_at_ms = True, now_ms
        elif segment.empty:
            del found.segments[sequence]
            found.free.append(segment.slot)
        else:
            write_seal(files, segment, now_ms)
    found.highest_sequence += 1
    found.manifest = found.manifest.with_live(
        frozenset(found.segments), found.highest_sequence
    )
    write_manifest(files, directory, found.manifest)
