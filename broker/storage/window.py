"""The hot window: recent segments as memory, so that a fetch copies nothing.

What was just written is in the page cache. Mapped, it can be sent from there: a batch
is a memoryview into the mapping, and memory that is touched again and again stays warm.

Only segments that this process wrote are here: what they hold went through this
process's checks. (Older ones are read and verified batch by batch.) The newest segments
that fit into ``hot_bytes`` stay mapped; one that leaves is unmapped when nobody holds
a view of it any more, and until then its pages are given back, so that a slow consumer
pins addresses and not memory.
"""

import threading

from broker.storage.files import Files, MappedFile
from broker.storage.segment import Segment


class HotWindow:
    """`view` may run beside the other methods, which take turns by a lock."""

    def __init__(self, files: Files, hot_bytes: int) -> None:
        self._files = files
        self._hot_bytes = hot_bytes
        self._lock = threading.Lock()
        self._maps: dict[int, tuple[MappedFile, int]] = {}
        self._leaving: dict[int, MappedFile] = {}

    def view(self, sequence: int, position: int, length: int) -> memoryview | None:
        """The bytes, not copied; None if the segment is not in the window."""
        found = self._maps.get(sequence)
        if found is None:
            return None
        try:
            return found[0].view[position : position + length]
        except ValueError:  # it left between the two lines
            return None

    def begin(self, segment: Segment) -> None:
        """Take in a segment that is about to be written; the oldest make room."""
        slot = segment.slot
        mapped = self._files.map(slot.file, slot.size)
        with self._lock:
            self._maps[segment.sequence] = (mapped, slot.size)
            total = sum(size for _, size in self._maps.values())
            for sequence, (_, size) in sorted(self._maps.items())[:-1]:
                if total <= self._hot_bytes:
                    break
                total -= size
                self._leave(sequence)

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

    def holds(self, sequence: int) -> bool:
        """Whether a view of this segment may still be alive."""
        with self._lock:
            return sequence in self._maps or sequence in self._leaving

    @property
    def leaving(self) -> bool:
        return bool(self._leaving)

    def _leave(self, sequence: int) -> None:
        found = self._maps.pop(sequence, None)
        if found is not None:
            found[0].forget()
            self._leaving[sequence] = found[0]
