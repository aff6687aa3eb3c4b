"""The write-ahead log: segments of all partitions, one writer, and who reads them.

This is the face of the package; see the README for the life of a batch. The parts:

    Writer           groups what waits          its own thread
    SegmentAppender  writes and syncs a group   on the writer's thread
    SegmentRecycler  spare files, checkpoints   its own thread
    SegmentRegistry  which segments exist, and what has become of each
    SegmentCache     recent segments as memory
    BatchReader      batches, by where they lie
    recover          what the disk says, at start

`Wal` itself runs on the loop and only hands over; the exceptions are `read` and
`part_of`, which block and belong on a thread.
"""

import contextlib
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker.clock import Clock, SystemClock
from broker.ids import TopicNumber
from broker.protocol.errors import KafkaError
from broker.status.histogram import HistogramState
from broker.status.schema import DiskState
from broker.storage.active_segment import ActiveSegment
from broker.storage.appender import SegmentAppender
from broker.storage.batch_reader import BatchReader
from broker.storage.cache import SegmentCache
from broker.storage.carrier import Request
from broker.storage.carry import Carried, Needed, NotCarried, part_of
from broker.storage.committed_position import CommittedPositionFile
from broker.storage.entry import Append, location_of
from broker.storage.files import Files
from broker.storage.layout import HEADER_BLOCK_BYTES
from broker.storage.pool import NEW_SUFFIX, SlotPool
from broker.storage.ranges import Ranges
from broker.storage.recovery import Found, Recovery, recover
from broker.storage.recycler import QUIET_MS, SegmentRecycler
from broker.storage.restart import begin_anew
from broker.storage.segment import STEP, SealedSegment, SegmentInfo, StaleSegment
from broker.storage.segment_registry import SegmentRegistry
from broker.storage.space import LOW_BYTES, Space
from broker.storage.writer import CallSoon, Inspect, Writer
from broker.threads import SYSTEM_THREADS, Threads

if TYPE_CHECKING:
    from broker.storage.lane import Bounds

__all__ = [
    "Append",
    "Carried",
    "Recovery",
    "SegmentInfo",
    "StaleSegment",
    "Wal",
    "location_of",
]


MAPPED_BYTES = 16 << 30
"""Segments that are mapped, hot and warm: addresses, not memory."""
SLOTS_AT_ONCE = 8
"""While it is being written, for the half second until somebody looks again."""


class Wal:
    """Made by `open`. All methods are the loop's but for `read` and `part_of`."""

    together: Callable[[Callable[[], None]], None] | None = None
    """What the compiled writer's finished groups are handed back through, if set."""

    stalled: str | None = None
    """That nothing moves, as whoever counts what waits has found out."""
    overfull: KafkaError | None = None
    """Why no more may wait meanwhile."""

    _close_lane: Callable[[], None] | None = None

    def __init__(
        self,
        files: Files,
        directory: Path,
        found: Found,
        sealed: Iterable[SealedSegment],
        *,
        segment_bytes: int,
        call_soon: CallSoon,
        next_turn: CallSoon | None,
        inspect: Inspect | None,
        spare_segments: int,
        free_segments_max: int,
        space: Space,
        hot_bytes: int,
        on_sealed: Callable[[SegmentInfo], None] | None,
        clock: Clock,
        threads: Threads,
        sync: bool,
    ) -> None:
        self._files, self._clock = files, clock
        self._segments = SegmentRegistry(sealed)
        self._call_soon, self._on_sealed = call_soon, on_sealed
        mapped_bytes = MAPPED_BYTES if hot_bytes else 0
        self._cache = SegmentCache(files, hot_bytes, mapped_bytes)
        self._committed_position = CommittedPositionFile(files, directory)
        self._space = space
        self._pool = SlotPool(
            files, directory, segment_bytes, spare_segments, free_segments_max,
            self._wake, threads,
            has_room=space.has_room, may_take=space.may_take,
        )  # fmt: skip
        self._pool.next_number = found.last_number + 1
        self._appender = SegmentAppender(
            self._committed_position,
            clock,
            next_sequence=found.highest_sequence + STEP,
            sync=sync,
            begin=self._begin,
            sealed=self._sealed,
        )
        self._writer = Writer(
            self._appender,
            segment_bytes=segment_bytes,
            call_soon=call_soon,
            next_turn=next_turn,
            inspect=inspect,
            threads=threads,
        )
        self._recycler = SegmentRecycler(
            files,
            directory,
            pool=self._pool,
            space=space,
            cache=self._cache,
            segments=self._segments,
            manifest=found.manifest,
            last_durable=lambda: self._appender.last_durable,
            quiet_ms=self._quiet_ms,
            fail=self._writer.fail,
            threads=threads,
        )
        self.append: Callable[[Append], None] = self._writer.append
        """Queue a batch; its ``done`` is called when it is durable or refused."""
        reader = BatchReader(files, self._segments, self._cache)
        self.view, self.views, self.read = reader.view, reader.views, reader.read
        self.rest = reader.rest
        self.is_closed = False

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
        low_space_bytes: int = LOW_BYTES,
        on_sealed: Callable[[SegmentInfo], None] | None = None,
        clock: Clock | None = None,
        threads: Threads = SYSTEM_THREADS,
        sync: bool = True,
    ) -> tuple["Wal", Recovery]:
        """Recover what is in ``directory`` (made if missing) and go on behind it.

        ``call_soon``: hands a callable to the loop, from any thread. ``next_turn``: the
        same from the loop's thread; what is appended in one turn may then be handed
        over together. ``inspect``: may refuse a batch by raising KafkaError; runs on
        the writer's thread. ``sync``: without it batches are acknowledged when they are
        written, and `sync` is to be called now and then. Raises OSError if the disk
        cannot be read or written.
        """
        clock = clock or SystemClock()
        files.mkdir(directory)
        space = Space(files, directory, low_space_bytes)
        space.look()  # a full disk must have room for the manifest of this start
        for name in files.listdir(directory):
            if name.endswith(NEW_SUFFIX):
                files.unlink(directory / name)
        found, recovery = recover(files, directory)
        sealed = begin_anew(files, directory, found, clock.now_ms())
        wal = cls(
            files, directory, found, sealed,
            segment_bytes=segment_bytes, call_soon=call_soon, next_turn=next_turn,
            inspect=inspect, spare_segments=spare_segments,
            free_segments_max=free_segments_max,
            space=space, hot_bytes=hot_bytes, on_sealed=on_sealed, clock=clock,
            threads=threads, sync=sync,
        )  # fmt: skip
        for slot in found.free:
            wal._pool.give(slot)
        wal._recycler.start()
        wal._writer.start()
        return wal, recovery

    def accelerate(
        self,
        bounds: "Callable[[TopicNumber], Bounds]",
        add_reader: Callable[[int, Callable[[], None]], Any],
        remove_reader: Callable[[int], Any],
    ) -> None:
        """From now on the writer's thread works without the interpreter's lock.

        Only on a real file system. ``bounds`` returns what topics, by number, ask of
        their records, as ``inspect`` does; the others are the loop's. Takes half a
        second the first time, unless ``lane.py`` was imported before.
        """
        from broker.storage.lane import Lane

        lane = Lane(self._appender)
        complete, together = self._writer.complete, self.together
        add_reader(
            lane.out, complete if together is None else lambda: together(complete)
        )

        def close() -> None:
            remove_reader(lane.out)
            lane.close()

        self._close_lane = close
        self._writer.accelerate(lane, bounds)
        self.append = self._writer.append

    @property
    def failed(self) -> KafkaError | None:
        """Why nothing is written any more; None while all is well."""
        return self._writer.failed

    @property
    def refusal(self) -> KafkaError | None:
        """Why a batch that comes now is refused; None if it is taken."""
        return self._writer.failed or self.overfull or self._space.refusal

    @property
    def trouble(self) -> str | None:
        """What keeps it from being written, for good or until there is room again."""
        failed = self._writer.failed
        if failed is not None:
            return str(failed)
        short = self._space.refusal
        return self.stalled or (str(short) if short else self._pool.trouble)

    def sync_times(self) -> HistogramState:
        """How long the syncs of groups of batches took."""
        return self._writer.sync_times()

    def group_sizes(self) -> HistogramState:
        """How many batches were acknowledged together."""
        return self._writer.groups.state()

    def disk(self) -> DiskState:
        """How full the disk of the log is, as of the last look at it."""
        return self._space.state()

    @property
    def hot_bytes(self) -> int:
        """Bytes of the segments that are read from memory."""
        return self._cache.hot_bytes

    def look_at_space(self) -> None:
        """See soon, on a thread, how much of the disk is free."""
        self._recycler.look_at_space()

    @property
    def slots_wanted(self) -> int:
        """How many segments should be released so that writing goes on in files that
        were written before: none while there are such files, or time to make them."""
        if self.trouble is not None:
            return sys.maxsize
        return SLOTS_AT_ONCE if self._pool.is_short and self.is_busy() else 0

    def is_busy(self) -> bool:
        """Whether it is being written now. Any thread."""
        return self._quiet_ms() < QUIET_MS

    def _quiet_ms(self) -> int:
        return self._clock.monotonic_ms() - self._appender.last_write_ms

    def finished(self) -> tuple[int, int]:
        """The (sequence, position) before which all was handed back by ``done``."""
        sequence, position = self._writer.finished
        segment = self._segments.get(sequence)
        if isinstance(segment, SealedSegment) and segment.info.bytes == position:
            return sequence + STEP, 0  # nothing of it is needed
        return sequence, position

    def checkpoint(
        self,
        payload: bytes | tuple[bytes, ...],
        finished: tuple[int, int] | None = None,
    ) -> None:
        """Note that ``payload`` knows of all appends whose ``done`` was called.

        It may come in pieces, and is written as one. ``finished``: up to where it knows
        of all of them, if it was begun before; of some behind it may know as well. What
        became durable since then is replayed after a crash, in order.
        """
        if self._writer.failed is None:
            pieces = payload if isinstance(payload, tuple) else (payload,)
            end = finished or self.finished()
            note = partial(self._recycler.checkpoint, pieces, *end)
            if self._appender.is_relaxed:
                self._writer.call(lambda: self._sync(note))
            else:
                note()

    def sync(self) -> None:
        """Sync what was acknowledged before, in the relaxed mode; else nothing."""
        if self._appender.is_relaxed and self._writer.failed is None:
            self._writer.call(lambda: self._sync(None))

    def roll(self) -> None:
        """Seal the active segment, behind all that was appended."""
        self._writer.call(self._seal)

    def segments(self) -> list[SegmentInfo]:
        """Those that are not released and hold anything, or did before they were
        damaged, by sequence; the active one is the last."""
        number, pending = self._writer.pending()  # before the segment itself is asked
        infos = [
            segment.info
            if isinstance(segment, SealedSegment)
            else segment.info(pending if segment.sequence == number else pending[:0])
            for segment in self._segments.live()
        ]
        return [
            info for info in infos if info.bytes > HEADER_BLOCK_BYTES or not info.intact
        ]

    def ranges(self, sequence: int) -> Ranges:
        """What a sealed segment holds, per partition; nothing if it is released."""
        segment = self._segments.readable(sequence)
        return segment.info.ranges if isinstance(segment, SealedSegment) else {}

    def part_of(self, sequence: int, needed: Needed) -> tuple[int, int] | None:
        """Bytes and batches of what is ``needed`` of these partitions in a sealed
        segment, as its file says; None if it cannot be read. Blocks."""
        segment = self._segments.readable(sequence)
        if not isinstance(segment, SealedSegment):
            return None
        try:
            return part_of(self._files, segment, needed)
        except (NotCarried, OSError):
            return None

    def takes_behind(self, sequence: int) -> bool:
        """Whether what is needed of this sealed segment and of some before it may be
        carried now: the place behind it is free, and the checkpoint is behind that."""
        return self._recycler.takes_behind(sequence)

    def carry(
        self,
        sequences: Sequence[int],
        needed: Needed,
        done: Callable[[Carried | None], None],
    ) -> None:
        """Copy what is ``needed`` of these sealed segments into one that replaces them.

        In each partition all that is needed must lie in order then, or it is refused:
        no segment between the first and the last of these, not even one that was
        released and is not free, may hold a batch of a partition that is carried from
        before it.
        ``done`` hears on the loop where the batches lie now, when that is durable; the
        old segments are to be released then. None: nothing has changed.
        """
        if self._writer.failed is not None:
            done(None)
            return

        def on_loop(carried: Carried | None) -> None:
            self._call_soon(lambda: done(carried))

        self._recycler.carry(Request(tuple(sequences), needed, on_loop))

    def release_replaced(self, sequences: Sequence[int]) -> None:
        """Release those of these segments that were not released before."""
        for sequence in sequences:
            with contextlib.suppress(StaleSegment):
                self.release(sequence)

    def release(self, sequence: int) -> None:
        """Nothing of this sealed segment is needed any more.

        Its file is used again when no view of it is alive and the checkpoint lies
        behind it. Raises StaleSegment if there is no such segment.
        """
        self._segments.release(sequence)
        self._cache.drop(sequence)
        self._wake()

    def renew(self) -> None:
        """Begin to write to new files alone: what stands in those that are there now,
        also what they held before, is to go from the disk. Free ones are removed soon,
        the others when their segments are released; the active one is sealed."""
        self._pool.renew()
        self.roll()

    @property
    def to_renew(self) -> frozenset[int]:
        """Sequences of the segments in files that were there at the last `renew`; -1:
        such a file is free, and about to be removed."""
        old = [each for each in self._segments.all() if self._pool.is_old(each.slot)]
        swept = [] if self._pool.is_swept else [-1]
        return frozenset([each.sequence for each in old] + swept)

    def close(self) -> None:
        """Finish what waits, then close the files. Blocks; views stay readable, and
        what reads on from a file fails."""
        self.is_closed = True
        if self._writer.failed is None:
            self.sync()
            self._writer.stop()
        else:
            self._pool.close()
            self._writer.stop()
        if self._close_lane is not None:
            self._close_lane()
        self._recycler.stop()
        self._pool.close()
        self._committed_position.close()
        for segment in self._segments.all():
            self._files.close(segment.slot.file)

    def _wake(self) -> None:
        self._recycler.wake()

    def _begin(self, sequence: int) -> ActiveSegment:
        """A segment to write; the writer's thread. Raises NoSlot, OSError."""
        slot = self._pool.take()
        segment = ActiveSegment(self._files, slot, sequence, self._clock.now_ms())
        self._cache.begin(sequence, slot)
        self._segments.begin(segment)
        return segment

    def _sync(self, behind: Callable[[], None] | None) -> None:
        if self._writer.failed is None:
            self._appender.sync()
            if behind is not None:
                behind()

    def _seal(self) -> None:
        if self._writer.failed is None:
            self._appender.seal()

    def _sealed(self, segment: SealedSegment) -> None:
        self._segments.sealed(segment)
        self._wake()
        on_sealed = self._on_sealed
        if on_sealed is not None:
            info = segment.info
            self._call_soon(lambda: on_sealed(info))
