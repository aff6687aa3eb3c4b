"""Which batch it is for which a slice cannot be written.

The problem: a slice is read and decoded many batches at once, and not every error names
the batch; but whoever has to give it up must know where it ends. The idea: once a slice
has failed, its halves are tried, then those of the first half that fails. The price: it
is read once more, as a whole at most. Pure but for what it is given.
"""

from collections.abc import Callable, Sequence

import numpy as np

from jobs.slices import Slice

_OFFSET_BYTES = 8


def first_failing(
    slices: Sequence[Slice], fails: Callable[[Sequence[Slice]], bool]
) -> int | None:
    """The base offset of the first batch that ``fails``; None: none does by itself.
    All of the slices failed together."""
    low, high = 0, sum(map(_count, slices))
    while high - low > 1:
        middle = (low + high) // 2
        if fails(_part(slices, low, middle)):
            high = middle
        else:
            low = middle
    part = _part(slices, low, high)
    if not part or not fails(part):
        return None
    return int(np.frombuffer(part[0].bases, np.int64)[0])


def _count(one: Slice) -> int:
    return len(one.bases) // _OFFSET_BYTES


def _part(slices: Sequence[Slice], low: int, high: int) -> list[Slice]:
    """The batches from number ``low`` up to ``high``."""
    found = []
    for one in slices:
        count = _count(one)
        start, stop = max(0, low), min(count, high)
        if start < stop:
            found.append(_cut(one, start, stop))
        low, high = low - count, high - count
    return found


def _cut(one: Slice, start: int, stop: int) -> Slice:
    span = slice(start * _OFFSET_BYTES, stop * _OFFSET_BYTES)
    return one._replace(
        bases=one.bases[span],
        positions=one.positions[span],
        lengths=one.lengths[span],
        counts=one.counts[start:stop],
    )
