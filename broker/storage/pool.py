"""Slots that are ready to be written: files of full size, their blocks touched if
there was time for it.

The problem. The first write to a block of a new file is dear (the file system has to
note that it is no hole any more, and the host of a virtual machine has to find room for
it), and that shows as the 99th percentile of all acknowledgements. But writing zeros to
all of them takes the disk from the writer, just when a burst needs it most.

The idea. Two kinds of spares. A *reserved* one costs milliseconds: its blocks are its
own, but nobody wrote to them. One is always made at once when none is left. A *written*
one is a reserved one that was filled with zeros, a piece at a time, and only while the
log is quiet; as many are made as there were segments begun, up to a target, so that a
broker that is little used writes little. Slots that are given back are written anyway.
The writer takes a written one if there is any; if there is no slot at all, it waits for
one; if none can be made, the batches that wait for it fail, and the next one tries
again: nothing was half written.

A file is made under a temporary name, synced, renamed, and the directory is synced, all
before it is handed out: a file whose name can be lost holds nothing that can be.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from broker.storage.files import Files
from broker.storage.segment import Slot, slot_name
from broker.threads import SYSTEM_THREADS, Threads

NEW_SUFFIX = ".new"
PIECE_BYTES: Final = 1 << 20
_ZEROS: Final = memoryview(bytes(PIECE_BYTES))

log = structlog.get_logger("lakelog.storage")


class NoSlot(Exception):
    """There is no segment file to write to and none can be made; says why."""


class SlotPool:
    """Taken from by the writer, filled by the recycler."""

    def __init__(
        self,
        files: Files,
        directory: Path,
        segment_bytes: int,
        spare_target: int,
        free_max: int,
        ask: Callable[[], None],
        threads: Threads = SYSTEM_THREADS,
        has_room: Callable[[int], bool] = lambda _: True,
        may_take: Callable[[int], bool] = lambda _: True,
    ) -> None:
        self._files = files
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._spare_target = spare_target
        self._free_max = max(free_max, spare_target)
        self._ask = ask
        self._has_room = has_room
        self._may_take = may_take
        self._changed = threads.condition()
        self._free: list[Slot] = []
        self._old: list[Slot] = []
        self._is_unsynced = False
        """Some were removed, and that is not yet sure to survive a power cut."""
        self._renewed_from = 0
        self._waiting = 0
        self._taken = 0
        self._trouble: str | None = None
        self._closed = False
        self.next_number = 0

    def take(self) -> Slot:
        """A slot to write. Blocks while one is being made; raises NoSlot."""
        with self._changed:
            self._trouble = None  # whoever comes tries again
            self._waiting += 1
            try:
                while not self._free:
                    if self._closed or self._trouble is not None:
                        raise NoSlot(self._trouble or "the log is closed")
                    self._ask()
                    self._changed.wait()
                self._taken += 1
                best = max(self._free, key=lambda slot: slot.written)
                self._free.remove(best)
                return best
            finally:
                self._waiting -= 1
                self._ask()

    def take_spare(self, size: int) -> Slot | None:
        """One that the writer can do without, for ``size`` bytes; None: there is none,
        and no room for one more. Blocks; raises OSError."""
        if size > self._segment_bytes:
            return None
        with self._changed:
            if self._closed:
                return None
            if len(self._free) > 1 and not self._waiting:
                spare = min(self._free, key=lambda slot: slot.written)
                self._free.remove(spare)
                return spare
        return self._make() if self._may_take(self._segment_bytes) else None

    def give(self, slot: Slot) -> None:
        """A slot whose content counts no more; one too many is removed."""
        with self._changed:
            keep = self._free_max if self._has_room(0) else 1
            room = len(self._free) < max(keep, self._waiting)
            room = room and slot.number >= self._renewed_from
            if room and not self._closed and slot.size == self._segment_bytes:
                self._free.append(slot)
                self._changed.notify()
                return
            if slot.number < self._renewed_from and not self._closed:
                self._old.append(slot)  # that it is gone is to survive a power cut
                self._ask()
                return
        if self._closed:
            self._files.close(slot.file)
        else:
            self._drop(slot)

    def renew(self) -> None:
        """Use no file again that is there now: what was written to it is to go. Those
        that are free go by `sweep`, the others when they are given back."""
        with self._changed:
            self._renewed_from = self.next_number
            self._old += self._free
            self._free = []
        self._ask()

    def sweep(self) -> None:
        """Remove the free files that are not to be used again; blocks. Raises OSError:
        they may come back by a power cut."""
        with self._changed:
            old, self._old = self._old, []  # none is closed twice
            self._is_unsynced = self._is_unsynced or bool(old)
        for slot in old:
            self._drop(slot)
        if self._is_unsynced:
            self._files.fsync_dir(self._directory)
            self._is_unsynced = False

    def is_old(self, slot: Slot) -> bool:
        """Whether this file was there at the last `renew`."""
        return slot.number < self._renewed_from

    @property
    def is_swept(self) -> bool:
        """Whether no free file is left that is not to be used again."""
        with self._changed:
            return not self._old and not self._is_unsynced

    @property
    def is_short(self) -> bool:
        """Whether the next segment would be one that was never written."""
        with self._changed:
            return not any(slot.written >= slot.size for slot in self._free)

    @property
    def trouble(self) -> str | None:
        """Why the last file could not be made; None once one was made again."""
        with self._changed:
            return self._trouble

    def wants(self) -> bool:
        """Whether a slot must be made at once."""
        with self._changed:
            if self._closed or self._trouble is not None:
                return False
            return len(self._free) < max(min(self._spare_target, 1), self._waiting)

    def could_warm(self) -> bool:
        """Whether there should be more written slots, if nobody minds the disk."""
        with self._changed:
            if self._closed or self._trouble is not None:
                return False
            if not self._has_room(self._segment_bytes):
                return False
            written = sum(slot.written >= slot.size for slot in self._free)
            return written < min(self._spare_target, 1 + self._taken)

    def prepare(self) -> None:
        """Make one slot. Trouble goes to whoever waits."""
        if not self._has_room(self._segment_bytes):
            self._report("no segment file could be made: the disk is nearly full")
            return
        try:
            slot = self._make()
        except OSError as error:
            self._report(f"no segment file could be made: {error}")
            return
        with self._changed:
            self._trouble = None
        self.give(slot)

    def give_up(self, trouble: str) -> None:
        """Let nobody wait for a slot now; `prepare` makes it good again."""
        self._report(trouble)

    def warm(self) -> None:
        """Write one more piece of zeros, in a new slot if there is none to go on with.

        The slot is nobody's meanwhile: the writer may have to wait for this piece.
        """
        slot = self._take_unwritten()
        if slot is None:
            self.prepare()
            return
        piece = _ZEROS[: slot.size - slot.written]
        try:
            self._files.pwritev(slot.file, [piece], slot.written)
            self._files.fdatasync(slot.file)
            slot.written += len(piece)
        except OSError as error:
            self._drop(slot)
            self._report(f"no segment file could be written: {error}")
            return
        self.give(slot)

    def shrink(self) -> None:
        """Remove the slots that nobody needs at once: others need the space."""
        with self._changed:
            spare, self._free = self._free[1:], self._free[:1]
        for slot in spare:
            self._drop(slot)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            free, self._free = self._free + self._old, []
            self._old = []
        for slot in free:
            self._files.close(slot.file)

    def _take_unwritten(self) -> Slot | None:
        with self._changed:
            begun = [slot for slot in self._free if slot.written < slot.size]
            if not begun:
                return None
            slot = max(begun, key=lambda slot: slot.written)
            self._free.remove(slot)
            return slot

    def _report(self, trouble: str) -> None:
        with self._changed:
            known, self._trouble = self._trouble, trouble
            self._changed.notify_all()
        if trouble != known:  # it is tried each second while a disk is full
            log.warning(trouble)

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
        return Slot(number, path, file, self._segment_bytes, written=0)

    def _drop(self, slot: Slot) -> None:
        """Close and remove a file without content; what fails costs space alone."""
        with suppress(OSError):
            self._files.close(slot.file)
        self._discard(slot.path)

    def _discard(self, path: Path) -> None:
        try:
            self._files.unlink(path)
        except OSError as error:
            log.warning("an unused segment file stays", error=str(error))
