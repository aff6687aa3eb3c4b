"""A chunk of a table as record batches, and what an answer takes of several."""

from bisect import bisect_left
from typing import NamedTuple


class Rebuilt(NamedTuple):
    """A chunk as record batches; ``lasts``: the last offset of each; ``size_bytes``:
    what all of it takes."""

    batches: list[memoryview]
    lasts: list[int]
    size_bytes: int

    def take(self, offset: int, bytes_max: int, *, greedy: bool) -> tuple[int, int]:
        """[from, to) of the batches from ``offset`` on that fit.

        ``greedy``: one at least.
        """
        start = end = bisect_left(self.lasts, offset)
        size = 0
        while end < len(self.batches):
            size += len(self.batches[end])
            if size > bytes_max and not (greedy and end == start):
                break
            end += 1
        return start, end


class Taken:
    """Batches from an offset on, about ``bytes_max`` bytes, one at least."""

    def __init__(self, offset: int, bytes_max: int) -> None:
        self.batches: list[memoryview] = []
        self.size_bytes = 0
        self.position = offset
        """Where reading goes on."""
        self._bytes_max = bytes_max

    def add(self, rebuilt: Rebuilt, stop: int) -> bool:
        """Take what fits of the chunk that has ``position``; ``stop``: where reading
        goes on behind it. Whether all that was left of it did, and more does."""
        left = self._bytes_max - self.size_bytes
        start, end = rebuilt.take(self.position, left, greedy=not self.batches)
        self.batches += rebuilt.batches[start:end]
        self.size_bytes += sum(map(len, rebuilt.batches[start:end]))
        if end < len(rebuilt.batches):
            self.position = rebuilt.lasts[end - 1] + 1 if end > start else self.position
            return False
        self.position = stop
        return self.size_bytes < self._bytes_max
