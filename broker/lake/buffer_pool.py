"""Memory for what is rebuilt, mapped by itself, and used again.

The problem: a chunk that was rebuilt is kept for a while. In a heap it would stand
among what is free at once, which could not go back to the system for it, nor be joined;
so it is mapped by itself. But the system gives new memory page by page, zeroed: six
tenths of a second for a gigabyte, more than all else that making batches of rows takes.
The idea: what nobody refers to any more is kept, up to some bytes, and given to the
next. Nobody gives a buffer back: the collector says when its last view is gone.

The price: up to `BYTES_MAX` that are used by nobody, until `clear`. And a buffer may be
nearly twice as large as what was asked for: `retained_bytes` counts all of it.
"""

import mmap
import threading
import weakref
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from broker.protocol.buffers import Buffer

MAPPED_BYTES_MIN: Final = 128 << 10
HUGE_BYTES_MIN: Final = 4 << 20
BYTES_MAX: Final = 16 << 20
_HUGE: Final = getattr(mmap, "MADV_HUGEPAGE", None)

Bytes = npt.NDArray[np.uint8]


class BufferPool:
    """Buffers of any size, from any thread; `BYTES_MAX` of free ones are kept."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._free: list[mmap.mmap] = []
        self._lock = threading.Lock()

    @property
    def free_bytes(self) -> int:
        """What is kept for the next."""
        return sum(map(len, self._free))

    def take(self, size: int) -> Bytes:
        """``size`` bytes, uint8, of any content, which are the caller's while he or a
        view of his refers to them."""
        if size < MAPPED_BYTES_MIN:
            return np.empty(size, np.uint8)
        mapped = self._fitting(size) or _mapped(_rounded(size))
        taken = np.frombuffer(mapped, np.uint8, size)
        weakref.finalize(taken, self._give_back, mapped).atexit = False
        return taken

    def clear(self) -> None:
        """Give back to the system what is free."""
        with self._lock:
            self._free.clear()

    def _fitting(self, size: int) -> mmap.mmap | None:
        """The smallest that is free and large enough, and not twice as large."""
        with self._lock:
            fitting = [b for b in self._free if size <= len(b) < 2 * size]
            if not fitting:
                return None
            found = min(fitting, key=len)
            self._free.remove(found)
        return found

    def _give_back(self, mapped: mmap.mmap) -> None:
        """Called by the collector, on any thread, perhaps one that holds the lock: it
        waits for nothing."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._free.append(mapped)
            while self._free and self.free_bytes > self._bytes_max:
                del self._free[0]
        finally:
            self._lock.release()


def retained_bytes(buffers: Iterable[Buffer]) -> int:
    """Bytes that stay in memory for the sake of these: of each the whole that it is a
    view of, with what was mapped for that, once."""
    wholes = {id(whole): whole for whole in map(_whole, buffers)}
    return sum(map(_bytes_of, wholes.values()))


def _whole(buffer: Buffer) -> Any:
    """What a view is a part of."""
    return buffer.obj if isinstance(buffer, memoryview) else buffer


def _bytes_of(whole: Any) -> int:
    mapped = getattr(whole, "base", None)
    return memoryview(whole if mapped is None else mapped).nbytes


def _rounded(size: int) -> int:
    """A size that others need, too: at most an eighth larger."""
    step = 1 << max(0, size.bit_length() - 4)
    return -(-size // step) * step


def _mapped(size: int) -> mmap.mmap:
    mapped = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= HUGE_BYTES_MIN and _HUGE is not None:
        mapped.madvise(_HUGE)
    return mapped
