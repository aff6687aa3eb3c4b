"""Slots that are ready to be written: files whose every block was touched once.

The problem. The first write to a block of a new file is ten times as slow as every
later one (the file system has to allocate it and to note that it is no hole any more),
and that shows as the 99th percentile of all acknowledgements.

The idea. Segment files are made beforehand, by another thread, full of zeros that were
synced, and given back when their segment is let go. The writer takes a ready one. Only
if there is none, it waits for one to be made; if it cannot be made, the batches that
wait for it fail, and the next one tries again: nothing was half written.

A file is made under a temporary name, synced, renamed, and the directory is synced, all
before it is handed out: a file whose name can be lost holds nothing that can be.
"""

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

import structlog

from broker.storage.files import Files
from broker.storage.segment import Slot, slot_name

NEW_SUFFIX = ".new"

log = structlog.get_logger("broker.storage")


class NoSlot(Exception):
    """There is no segment file to write to and none can be made; says why."""


class SlotPool:
    """Taken from by the writer, filled by the housekeeper."""

    def __init__(
        self,
        files: Files,
        directory: Path,
        segment_bytes: int,
        spare_target: int,
        free_max: int,
        ask: Callable[[], None],
    ) -> None:
        self._files = files
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._spare_target = spare_target
        self._free_max = max(free_max, spare_target)
        self._ask = ask
        self._changed = threading.Condition()
        self._free: deque[Slot] = deque()
        self._waiting = 0
        self._trouble: str | None = None
        self._closed = False
        self.next_number = 0

    def take(self) -> Slot:
        """A slot to write. Blocks while one is being made; raises NoSlot."""
        with self._changed:
            self._trouble = None
            self._waiting += 1
            try:
                while not self._free:
                    if self._closed or self._trouble is not None:
                        raise NoSlot(self._trouble or "the log is closed")
                    self._ask()
                    self._changed.wait()
                return self._free.popleft()
            finally:
                self._waiting -= 1
                self._ask()

    def give(self, slot: Slot) -> None:
        """A slot whose content counts no more; one too many is removed."""
        with self._changed:
            room = len(self._free) < max(self._free_max, self._waiting)
            if room and not self._closed and slot.size == self._segment_bytes:
                self._free.append(slot)
                self._changed.notify()
                return
        self._files.close(slot.file)
        if not self._closed:
            self._files.unlink(slot.path)

    def wants(self) -> bool:
        """Whether fewer slots are ready than there should be."""
        with self._changed:
            if self._closed or self._trouble is not None:
                return False
            return len(self._free) < max(self._spare_target, self._waiting)

    def prepare(self) -> None:
        """Make one slot, however long it takes. Trouble goes to whoever waits."""
        try:
            slot = self._make()
        except OSError as error:
            log.warning("no segment file could be made", error=str(error))
            with self._changed:
                self._trouble = f"no segment file could be made: {error}"
                self._changed.notify_all()
            return
        self.give(slot)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            free, self._free = self._free, deque()
        for slot in free:
            self._files.close(slot.file)

    def _make(self) -> Slot:
        number, self.next_number = self.next_number, self.next_number + 1
        path = self._directory / slot_name(number)
        new = path.with_name(path.name + NEW_SUFFIX)
        file = self._files.create(new)
        try:
            self._files.allocate(file, self._segment_bytes)
            self._files.rename(new, path)
            self._files.fsync_dir(self._directory)
        except OSError:
            self._files.close(file)
            self._discard(new)
            raise
        return Slot(number, path, file, self._segment_bytes)

    def _discard(self, path: Path) -> None:
        try:
            self._files.unlink(path)
        except OSError as error:
            log.warning("a half made segment file stays", error=str(error))
