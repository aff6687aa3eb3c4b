"""The recycler: what must happen to segment files, but not while anybody waits.

One thread makes spare slots, writes checkpoints, and gives the slots of released
segments back. The order that makes a release safe against a crash at any instant:

1. nobody can get a view of the segment any more, and no view is alive;
2. the checkpoint lies behind the segment, so that a restart needs nothing of it;
3. a manifest that does not list it is durable;
4. only then may its slot be written again.

It also carries what is needed of several segments into one (`carry.py`), a piece
between two looks at what else there is to do.
"""

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from queue import Empty
from typing import Final

import structlog

from broker.failpoints import passing
from broker.storage.cache import SegmentCache
from broker.storage.carrier import Carrier, Request
from broker.storage.files import Files
from broker.storage.manifest import Manifest, write_manifest
from broker.storage.objects import LocalObjects
from broker.storage.pool import SlotPool
from broker.storage.segment import SealedSegment
from broker.storage.segment_registry import SegmentRegistry
from broker.storage.space import Space
from broker.threads import SYSTEM_THREADS, Queue, Threads

RETRY_S: Final = 0.5
QUIET_MS: Final = 200
"""So long must nobody have written before the disk is used for what can wait."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)

log = structlog.get_logger("lakelog.storage")


class SegmentRecycler:
    """``segments``: all that exist; the writer adds, this one removes.

    ``last_durable`` is asked *before* the segments are: one that becomes durable
    between is above it, and so counts as alive. ``quiet_ms``: how long ago the last
    group was written.
    """

    def __init__(
        self,
        files: Files,
        directory: Path,
        *,
        pool: SlotPool,
        space: Space,
        cache: SegmentCache,
        segments: SegmentRegistry,
        manifest: Manifest,
        last_durable: Callable[[], int],
        quiet_ms: Callable[[], int],
        fail: Callable[[str], None],
        threads: Threads = SYSTEM_THREADS,
    ) -> None:
        self._files = files
        self._directory = directory
        self._objects = LocalObjects(files, directory)
        self._pool = pool
        self._space = space
        self._cache = cache
        self._segments = segments
        self._manifest = manifest
        self._missing = manifest.live - {each.sequence for each in segments.all()}
        self._last_durable = last_durable
        self._quiet_ms = quiet_ms
        self._fail = fail
        self._calls: Queue[bool] = threads.queue()
        self._checkpoint: Manifest | None = None
        self.carrier = Carrier(files, directory, pool, segments)
        self._space_wanted = False
        self._fault: str | None = None
        self._thread = threads.thread("wal-recycler", self._run)

    def start(self) -> None:
        self._thread.start()

    def look_at_space(self) -> None:
        """Do that soon; once, if it was asked for before and is not done."""
        if not self._space_wanted:
            self._space_wanted = True
            self.wake()

    def wake(self) -> None:
        self._calls.put(True)

    def checkpoint(
        self, pieces: tuple[bytes, ...], sequence: int, position: int
    ) -> None:
        """Everything before this position is in the payload: write that down."""
        self._checkpoint = Manifest(sequence, position, payload=b"", more=pieces)
        self.wake()

    def takes_behind(self, sequence: int) -> bool:
        """Whether a carried segment may follow this one: its number is free, and a
        start needs nothing of it but its batches."""
        manifest = self._manifest
        number = sequence + 1
        return (
            sequence >= manifest.spaced_from
            and manifest.is_carried(number)
            and number < manifest.sequence
        )

    def carry(self, request: Request) -> None:
        """Carry these segments soon; ``request`` is notified how it ended."""
        self.carrier.ask(request)
        self.wake()

    def stop(self) -> None:
        """Do what was asked for, then end; what is being carried stays where it is."""
        self._calls.put(False)
        self._thread.join()

    def _run(self) -> None:
        alive = True
        while alive:
            alive = self._wait()
            self._try_to_work(alive)
        self.carrier.give_up("the log is closed")

    def _try_to_work(self, alive: bool) -> None:
        """After a fault all writes are refused, those that wait for a file as well."""
        try:
            self._work(alive)
            self._fault = None
        except Exception as error:  # without this thread the writer waits for ever
            fault = f"a fault in the log's recycler: {error!r}"
            known, self._fault = self._fault, fault
            if fault != known:  # it is tried again twice a second
                log.exception("a fault in the log's recycler")
            self._fail(fault)
            self._pool.give_up(fault)

    def _work(self, alive: bool) -> None:
        self._look_at_space()
        try:
            self._write_checkpoint()
            self._carry_on()
            self._free_released()
            self._pool.sweep()
        except OSError as error:
            self._report(error)
        if alive:
            self._fill_pool()

    def _look_at_space(self) -> None:
        self._space.look()
        self._space_wanted = False
        if self._space.refusal is not None:
            self._pool.shrink()

    def _fill_pool(self) -> None:
        if self._pool.wants() or self._pool.trouble is not None:
            self._pool.prepare()
        elif self._pool.could_warm() and self._quiet_ms() >= QUIET_MS:
            self._pool.warm()

    def _wait(self) -> bool:
        """False when it is time to stop. What waits for a view is tried at times."""
        try:
            going_on = self._calls.get(timeout=self._patience())
            while not self._calls.empty():
                going_on = self._calls.get() and going_on
        except Empty:
            return True
        return going_on

    def _patience(self) -> float | None:
        if self._fault is not None:
            return RETRY_S
        if self._pool.wants() or self.carrier.is_at_work:
            return 0.0
        if self._pool.could_warm():
            return max(QUIET_MS - self._quiet_ms(), 0) / 1000
        unfinished = (
            self._cache.leaving
            or self._checkpoint is not None
            or self._pool.trouble is not None
            or self.carrier.is_unlisted
        )
        return RETRY_S if unfinished else None

    def _write_checkpoint(self) -> None:
        wanted, self._checkpoint = self._checkpoint, None
        if wanted is None:
            return
        try:
            self._write(wanted, frozenset())
        except OSError as error:
            if error.errno in _FULL and self._checkpoint is None:
                self._checkpoint = wanted
            raise

    def _carry_on(self) -> None:
        """One piece; and when all is written, one manifest that lists the new segment
        in the place of those that it replaces."""
        self.carrier.step(self._manifest)
        if self.carrier.is_unlisted:
            self._write(self._manifest, frozenset())
            passing("carry.listed")
            self.carrier.notify()

    def _free_released(self) -> None:
        self._cache.sweep()
        free = [each for each in self._segments.released() if self._is_free(each)]
        if not free:
            return
        self._write(self._manifest, frozenset(each.sequence for each in free))
        for segment in free:
            self._segments.remove(segment.sequence)
            self._give_back(segment)

    def _is_free(self, segment: SealedSegment) -> bool:
        return (
            not self.carrier.reads(segment.sequence)
            and segment.sequence < self._manifest.sequence
            and not self._cache.holds(segment.sequence)
        )

    def _write(self, manifest: Manifest, without: frozenset[int]) -> None:
        """Write what is alive now. What a start did not find stays on the list until a
        checkpoint, which knows what was lost, has taken the place of that start's."""
        kept, known = self._manifest, self._last_durable()
        missing = self._missing if manifest is kept else frozenset()
        live = self._segments.listed(known) - without | missing
        manifest = replace(
            manifest, spaced_from=kept.spaced_from, damaged=kept.damaged,
            unexplained=kept.unexplained,
        )  # fmt: skip
        manifest = manifest.with_live(live, known)
        write_manifest(self._objects, manifest)
        self._manifest, self._missing = manifest, missing

    def _give_back(self, segment: SealedSegment) -> None:
        slot = segment.slot
        if segment.info.intact:
            self._pool.give(slot)
            return
        aside = self._directory / f"damaged-{segment.sequence}.log"
        log.warning("a damaged segment is put aside", file=aside.name)
        self._files.close(slot.file)
        self._files.rename(slot.path, aside)

    def _report(self, error: OSError) -> None:
        if error.errno in _FULL:
            log.warning("the disk is full: the checkpoint is late", error=str(error))
        else:
            self._fail(f"the checkpoint could not be written: {error}")
