"""The batches of one partition in all live segments, asked many times a second.

The problem: a compactor that was away for long comes back to hundreds of segments, each
with batches of a thousand partitions. Five times a second it is asked what of all that
is not in tables, how many bytes, and whether anything is missing there. Going through
all of it takes seconds, in which no round begins.

The idea: what is asked follows from sums that are kept when a segment comes or goes:
where its batches end, how many bytes lie before, and where they do not go on from the
ones before. Segments come last and go first, nearly always; anything else makes the
sums anew.

The price: some hundred bytes for each segment of a partition. Pure.
"""

from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterable

import numpy as np

from jobs.batches import Batches


class Chain:
    """Batches by segment, in order of sequence; none is empty.

    ``again``: sequences of those that do not begin behind the one before. ``changes``:
    how often anything changed. ``specials``: how many have batches that are not plain.
    """

    __slots__ = ("_below", "_broken", "_ends", "again", "changes", "chunks", "specials")

    def __init__(self) -> None:
        self.chunks: list[Batches] = []
        self.again: list[int] = []
        self.changes = 0
        self.specials = 0
        self._ends = _numbers()
        """Of each the offset behind its last."""
        self._below = _numbers([0])
        """Bytes that lie before each, and before the next; from some number on."""
        self._broken: list[int] = []
        """Sequences of those that have a gap before or inside them."""

    @property
    def end(self) -> int:
        """The offset behind the last batch; the chain is not empty."""
        return self._ends[-1]

    def put(self, batches: Batches) -> None:
        """Take up what a segment has, in place of what it had."""
        self.changes += 1
        sequence = batches.sequence
        if self.chunks and self.chunks[-1].sequence == sequence:
            self._pop()
        if self.chunks and self.chunks[-1].sequence >= sequence:
            others = [one for one in self.chunks if one.sequence != sequence]
            self._make(sorted([*others, batches], key=lambda one: one.sequence))
        else:
            self._append(batches)

    def drop(self, gone: Collection[int]) -> bool:
        """Forget what these segments had; whether there was anything."""
        chunks = self.chunks
        if not gone or not chunks:
            return False
        if chunks[0].sequence > max(gone) or chunks[-1].sequence < min(gone):
            return False
        left = [one for one in chunks if one.sequence not in gone]
        if len(left) == len(chunks):
            return False
        self.changes += 1
        count = len(chunks) - len(left)
        if left and left[0] is chunks[count]:
            self._cut_front(count)
        else:
            self._make(left)
        return True

    def above(self, start: int) -> tuple[list[Batches], int]:
        """What holds anything at ``start`` or above, and its bytes.

        For a chain in which nothing is there ``again``.
        """
        at = bisect_right(self._ends, start)
        chunks = self.chunks[at:]
        if not chunks:
            return [], 0
        first = chunks[0]
        chunks[0] = first.above(start)
        left_out = int(first.length.sum()) - int(chunks[0].length.sum())
        return chunks, self._below[-1] - self._below[at] - left_out

    def goes_on(self, start: int) -> bool:
        """Whether it has each offset from ``start`` to its end, for sure."""
        at = bisect_right(self._ends, start)
        if at == len(self.chunks):
            return True
        first = self.chunks[at]
        is_broken = bool(self._broken) and self._broken[-1] >= first.sequence
        return not is_broken and int(first.base[0]) <= start

    def _append(self, batches: Batches) -> None:
        base, last = batches.base, batches.last
        first = int(base[0])
        is_whole = len(base) == 1 or bool((base[1:] == last[:-1] + 1).all())
        if self._ends:
            if first < self._ends[-1]:
                self.again.append(batches.sequence)
            is_whole = is_whole and first == self._ends[-1]
        if not is_whole:
            self._broken.append(batches.sequence)
        self.chunks.append(batches)
        self._ends.append(int(last[-1]) + 1)
        self._below.append(self._below[-1] + int(np.add.reduce(batches.length)))
        self.specials += batches.kinds is not None

    def _pop(self) -> None:
        """Take back the last."""
        batches = self.chunks.pop()
        self._ends.pop()
        self._below.pop()
        self.specials -= batches.kinds is not None
        for listed in (self.again, self._broken):
            if listed and listed[-1] == batches.sequence:
                listed.pop()

    def _cut_front(self, count: int) -> None:
        self.specials -= sum(one.kinds is not None for one in self.chunks[:count])
        del self.chunks[:count], self._ends[:count], self._below[:count]
        first = self.chunks[0].sequence
        # The first has none before it any more; that it may have a gap inside stays.
        self.again = [one for one in self.again if one > first]
        self._broken = [one for one in self._broken if one >= first]

    def _make(self, chunks: Collection[Batches]) -> None:
        """All of it anew."""
        self.chunks, self._ends, self._below = [], _numbers(), _numbers([0])
        self.again, self._broken, self.specials = [], [], 0
        for one in chunks:
            self._append(one)


def _numbers(some: Iterable[int] = ()) -> "array[int]":
    """Of 8 bytes each."""
    return array("q", some)
