"""The housekeeper: what must happen to segment files, but not while anybody waits.

One thread makes spare slots, writes checkpoints, and gives the slots of released
segments back. The order that makes a release safe against a crash at any instant:

1. nobody can get a view of the segment any more, and no view is alive;
2. the checkpoint lies behind the segment, so that a restart needs nothing of it;
3. a manifest that does not list it is durable;
4. only then may its slot be written again.
"""

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

import structlog

from broker.storage.files import Files
from broker.storage.manifest import Manifest, write_manifest
from broker.storage.pool import SlotPool
from broker.storage.segment import Segment
from broker.storage.window import HotWindow

RETRY_S: Final = 0.5
QUIET_MS: Final = 200
"""So long must nobody have written before the disk is used for what can wait."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)

log = structlog.get_logger("broker.storage")


class Housekeeper:
    """``segments``: all that exist, by sequence; the writer adds, this one removes.

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
        window: HotWindow,
        segments: dict[int, Segment],
        manifest: Manifest,
        last_durable: Callable[[], int],
        quiet_ms: Callable[[], int],
        fail: Callable[[str], None],
    ) -> None:
        self._files = files
        self._directory = directory
        self._pool = pool
        self._window = window
        self._segments = segments
        self._manifest = manifest
        self._last_durable = last_durable
        self._quiet_ms = quiet_ms
        self._fail = fail
        self._wakes: SimpleQueue[bool] = SimpleQueue()
        self._checkpoint: Manifest | None = None
        self._thread = threading.Thread(target=self._run, name="wal-housekeeper")
        self._thread.daemon = True

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._wakes.put(True)

    def checkpoint(self, payload: bytes, sequence: int, position: int) -> None:
        """Everything before this position is in the payload: write that down."""
        self._checkpoint = Manifest(sequence, position, payload=payload)
        self.wake()

    def stop(self) -> None:
        """Do what was asked for, then end."""
        self._wakes.put(False)
        self._thread.join()

    def _run(self) -> None:
        alive = True
        while alive:
            alive = self._wait()
            try:
                self._write_checkpoint()
                self._free_released()
            except OSError as error:
                self._told(error)
            if alive:
                self._fill_pool()

    def _fill_pool(self) -> None:
        if self._pool.wants() or self._pool.trouble is not None:
            self._pool.prepare()
        elif self._pool.could_warm() and self._quiet_ms() >= QUIET_MS:
            self._pool.warm()

    def _wait(self) -> bool:
        """False when it is time to stop. What waits for a view is tried at times."""
        try:
            going_on = self._wakes.get(timeout=self._patience())
            while not self._wakes.empty():
                going_on = self._wakes.get() and going_on
        except Empty:
            return True
        return going_on

    def _patience(self) -> float | None:
        if self._pool.wants():
            return 0.0
        if self._pool.could_warm():
            return max(QUIET_MS - self._quiet_ms(), 0) / 1000
        unfinished = (
            self._window.leaving
            or self._checkpoint is not None
            or self._pool.trouble is not None
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

    def _free_released(self) -> None:
        self._window.sweep()
        free = [segment for segment in self._segments.copy().values()
                if self._is_free(segment)]  # fmt: skip
        if not free:
            return
        self._write(self._manifest, frozenset(each.sequence for each in free))
        for segment in free:
            del self._segments[segment.sequence]
            self._give_back(segment)

    def _is_free(self, segment: Segment) -> bool:
        return (
            segment.released
            and segment.sequence < self._manifest.sequence
            and not self._window.holds(segment.sequence)
        )

    def _write(self, manifest: Manifest, without: frozenset[int]) -> None:
        known = self._last_durable()
        live = frozenset(each for each in self._segments.copy() if each <= known)
        manifest = manifest.with_live(live - without, known)
        write_manifest(self._files, self._directory, manifest)
        self._manifest = manifest

    def _give_back(self, segment: Segment) -> None:
        slot = segment.slot
        if segment.intact:
            self._pool.give(slot)
            return
        aside = self._directory / f"damaged-{segment.sequence}.log"
        log.warning("a damaged segment is put aside", file=aside.name)
        self._files.close(slot.file)
        self._files.rename(slot.path, aside)

    def _told(self, error: OSError) -> None:
        if error.errno in _FULL:
            log.warning("the disk is full: the checkpoint is late", error=str(error))
        else:
            self._fail(f"the checkpoint could not be written: {error}")
