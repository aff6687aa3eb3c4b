"""Segments as memory, so that a fetch copies nothing and asks no thread.

What was written is in the page cache. Mapped, it can be sent from there: a batch is a
memoryview into the mapping. The newest segments, ``hot_bytes`` of them, are *hot*: they
are taken to be there. Older ones are *warm*: mapped as well, but the kernel may have
taken their pages, and who touches such a page waits for the disk. So the kernel is
asked first (``mincore``), and what is not there is read on a thread, which brings it
back.

Only segments that this process wrote are here: what they hold went through this
process's checks. (Older ones are read and verified batch by batch.) A segment that
leaves is unmapped when nobody holds a view of it any more, and only then may its file
be written again: a reader never sees the bytes of the next one.

Memory: mapped pages count as this process's once it touched them, although they are
the kernel's to take at any time. They are given back (the mapping stays) when so many
were touched, hot or warm, when a segment leaves, and by `rest`. The kernel maps what is
around a page as well, so windows of 64 KiB are counted. The price: a second reader of
the same batches may fault on pages that the first one had.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from broker.storage.entry import sequence_of
from broker.storage.files import Files, MappedFile
from broker.storage.segment import Slot

WINDOW_SHIFT = 16
WINDOWS_MAX = 512
"""Windows whose pages may be ours at a time: 32 MiB."""


@dataclass(slots=True, eq=False)
class _Mapped:
    file: MappedFile
    size: int
    hot: bool = True


class SegmentCache:
    """`view` and `run` may be called beside the other methods, which take turns by a
    lock. ``mapped_bytes`` bounds hot and warm segments together."""

    def __init__(self, files: Files, hot_bytes: int, mapped_bytes: int = 0) -> None:
        self._files = files
        self._hot_bytes = hot_bytes
        self._mapped_bytes = max(hot_bytes, mapped_bytes)
        self._lock = threading.Lock()
        self._maps: dict[int, _Mapped] = {}
        self._leaving: dict[int, MappedFile] = {}
        self._windows: set[int] = set()
        self._touched_before: set[int] = set()

    def view(self, sequence: int, position: int, length: int) -> memoryview | None:
        """The bytes, not copied; None if the segment is not hot."""
        found = self._maps.get(sequence)
        if found is None or not found.hot:
            return None
        try:
            return found.file.view[position : position + length]
        except ValueError:  # it left between the two lines
            return None

    def run(self, sequence: int, position: int, end: int) -> memoryview | None:
        """The whole segment, not copied, if the bytes of [position, end) are in memory
        now; else None. For the loop's thread."""
        found = self._maps.get(sequence)
        if found is None:
            return None
        if not found.hot and not found.file.is_resident(position, end - position):
            return None
        return found.file.view

    def touch(self, spans: Iterable[tuple[int, int]]) -> None:
        """These batches (location, length) will be sent from the mappings. Pages that
        were touched before go back if they are too many. For the loop's thread."""
        windows = self._windows
        if len(windows) > WINDOWS_MAX:
            self._forget_touched()
        for location, length in spans:
            first = location >> WINDOW_SHIFT
            last = location + length - 1 >> WINDOW_SHIFT
            if first == last:
                windows.add(first)
            else:
                windows.update(range(first, last + 1))

    def begin(self, sequence: int, slot: Slot) -> None:
        """Take in a segment that is about to be written; the oldest make room."""
        mapped = self._files.map(slot.file, slot.size)
        with self._lock:
            self._maps[sequence] = _Mapped(mapped, slot.size)
            total = 0
            for number, (older, each) in enumerate(
                sorted(self._maps.items(), reverse=True)
            ):
                total += each.size
                if number and total > self._mapped_bytes:
                    self._leave(older)
                elif number and total > self._hot_bytes and each.hot:
                    each.hot = False
                    each.file.forget()

    def drop(self, sequence: int) -> None:
        """No more views of this segment from now on."""
        with self._lock:
            self._leave(sequence)

    def sweep(self) -> None:
        """Unmap what has left and is held by nobody."""
        with self._lock:
            for sequence, mapped in list(self._leaving.items()):
                try:
                    mapped.close()
                except BufferError:
                    continue
                del self._leaving[sequence]

    def rest(self) -> None:
        """Give the pages of all segments back; touching them finds them again."""
        self._windows.clear()
        with self._lock:
            for each in self._maps.values():
                each.file.forget()

    def holds(self, sequence: int) -> bool:
        """Whether a view of this segment may still be alive."""
        with self._lock:
            return sequence in self._maps or sequence in self._leaving

    @property
    def hot_bytes(self) -> int:
        """Bytes of the segments that are hot now. Any thread, without the lock: who
        has that may be giving pages back."""
        return sum(each.size for each in list(self._maps.values()) if each.hot)

    @property
    def leaving(self) -> bool:
        return bool(self._leaving)

    def _forget_touched(self) -> None:
        """Also what was counted the last time: a slow peer may touch it only now."""
        touched = {sequence_of(window << WINDOW_SHIFT) for window in self._windows}
        self._windows.clear()
        with self._lock:
            for sequence in touched | self._touched_before:
                found = self._maps.get(sequence)
                if found is not None:
                    found.file.forget()
        self._touched_before = touched

    def _leave(self, sequence: int) -> None:
        found = self._maps.pop(sequence, None)
        if found is not None:
            found.file.forget()
            self._leaving[sequence] = found.file
