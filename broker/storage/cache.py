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

Memory: mapped pages count as this process's while it touches them, although they are
the kernel's to take at any time. They are given back (the mapping stays) when a reader
moves on to another warm segment, when a segment leaves, and by `rest`.
"""

import threading
from dataclasses import dataclass

from broker.storage.files import Files, MappedFile
from broker.storage.segment import Segment

TOUCHED_MAX = 2
"""Warm segments whose pages may be ours at a time."""


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
        self._touched: list[int] = []

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
        if not found.hot:
            if not found.file.is_resident(position, end - position):
                return None
            self._touch(sequence)
        return found.file.view

    def begin(self, segment: Segment) -> None:
        """Take in a segment that is about to be written; the oldest make room."""
        slot = segment.slot
        mapped = self._files.map(slot.file, slot.size)
        with self._lock:
            self._maps[segment.sequence] = _Mapped(mapped, slot.size)
            total = 0
            for number, (sequence, each) in enumerate(
                sorted(self._maps.items(), reverse=True)
            ):
                total += each.size
                if number and total > self._mapped_bytes:
                    self._leave(sequence)
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
        with self._lock:
            self._touched.clear()
            for each in self._maps.values():
                each.file.forget()

    def holds(self, sequence: int) -> bool:
        """Whether a view of this segment may still be alive."""
        with self._lock:
            return sequence in self._maps or sequence in self._leaving

    @property
    def leaving(self) -> bool:
        return bool(self._leaving)

    def _touch(self, sequence: int) -> None:
        touched = self._touched
        if sequence in touched:
            return
        touched.append(sequence)
        if len(touched) > TOUCHED_MAX:
            with self._lock:
                found = self._maps.get(touched.pop(0))
                if found is not None:
                    found.file.forget()

    def _leave(self, sequence: int) -> None:
        found = self._maps.pop(sequence, None)
        if found is not None:
            found.file.forget()
            self._leaving[sequence] = found.file
