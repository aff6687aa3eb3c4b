"""Holes in a segment: bytes that were durable, are damaged, and held nobody knows what.

The problem: a segment without a footer is walked, and the walk goes on behind a damaged
place. Which batches of which partitions stood there cannot be told any more. If a
partition's table went on behind the hole, the committed range would cover it, and the
segment, with whatever could still be rescued from it, would be released. The idea: the
offsets tell who may be concerned. A partition whose batches go on without a gap over
the hole lost nothing there; one with a gap stops before it, as at any damaged batch.
A segment that is lost behind the checkpoint is such a hole as a whole.

The price: a lawful gap (a batch that was refused) right at a hole stops its partition,
too. Pure.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jobs.batches import Batches, Ints


class Hole(NamedTuple):
    """Bytes ``[start, end)`` of a segment are damaged; what they held is unknown. If
    they are none, all of the segment is lost."""

    sequence: int
    start: int
    end: int

    def __str__(self) -> str:
        what = f"bytes {self.start} to {self.end} are damaged and"
        if not self.end:
            what = "it is lost and"
        return (
            f"segment {self.sequence}: {what} may have held its next records; once a "
            "start of the broker has found that, it takes nothing back there"
        )


def first_hole(
    chunks: Iterable[Batches], table_end: int, holes: Sequence[Hole]
) -> tuple[int, Hole, int] | None:
    """(offset before which all is there, the hole behind it, offset from which on all
    is there again), or None: all is whole.

    ``chunks`` are all live batches of a partition, in order.
    """
    for before, hole, base in gaps_at(chunks, holes):
        if base > table_end:
            return max(before, table_end), hole, base
    return None


def gaps_at(
    chunks: Iterable[Batches], holes: Sequence[Hole]
) -> Iterator[tuple[int, Hole, int]]:
    """The same of each hole at which the offsets of ``chunks`` have a gap."""
    expected, place = 0, (0, 0)
    for chunk in chunks:
        for at in _gaps(chunk, expected):
            here = chunk.sequence, int(chunk.position[at])
            before = expected
            if at:
                before = int(chunk.last[at - 1]) + 1
                place = chunk.sequence, int(chunk.position[at - 1])
            hole = next((h for h in holes if place < h[:2] < here), None)
            if hole is not None:
                yield before, hole, int(chunk.base[at])
        expected = int(chunk.last[-1]) + 1
        place = chunk.sequence, int(chunk.position[-1])


def _gaps(chunk: Batches, expected: int) -> list[int]:
    """Indices of the batches that do not begin where the one before them ended."""
    ends: Ints = np.concatenate(([expected], chunk.last[:-1] + 1))
    return [int(at) for at in np.flatnonzero(chunk.base > ends)]


def below(chunks: Iterable[Batches], offset: int) -> list[Batches]:
    """What of ``chunks`` begins below ``offset``."""
    cut = [c.cut(0, int(np.searchsorted(c.base, offset))) for c in chunks]
    return [chunk for chunk in cut if len(chunk)]
