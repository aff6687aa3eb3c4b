"""What lies below a log's start and is left out of the table. Pure.

The problem: below a log's start nothing is needed, unless the table is to keep what the
log does not; so a segment goes when all of it lies there. Another topic may keep an
older one, and so records outlast the marker that ended their transaction. They would
wait for it for ever; or, where markers do not say what they decide, count by that of a
later transaction. Of a table that is to keep more nobody knows since when it is, and
segments did not wait for it in older versions. The idea: a gap there is one in which
any marker may have been (`gaps_below`). What is decided all the same goes into the
table as anything else, which may keep it for longer than the log does. Once the first
that is left is open, what lies wholly below the start is left out, and no damage there,
no open transaction and no gap matters any more; nor is any told while what is decided
before it waits. A transaction on both sides is decided by what is left of it. The range
that is committed begins where the table ends all the same: a gap below the log's start
is a legal one (`missing`). Where nothing follows what is left out, its range is
committed by itself, without a row: a table that is to keep what the log does not holds
up its segments until then.

What was left out stays so, or the table would depend on when it is looked at.

The price: a refused batch is such a gap, too, for the log's checkpoint names none that
lies below the start. A transaction with one before its marker is taken for open, unless
that says where it begins, also where the table was to keep it; and what is decided
behind one that is open is left out with it.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from jobs.batches import Batches, Places

_MANY: Final = 2
"""Offsets: behind a single one a marker may have been written again."""


def above(chunks: Sequence[Batches], offset: int) -> list[Batches]:
    """What of the chunks holds anything at ``offset`` or above."""
    cut = (chunk.above(offset) for chunk in chunks)
    return [chunk for chunk in cut if len(chunk)]


def left_out(sequence: int, first: int, end: int) -> Batches:
    """The offsets [first, end) as one batch that has no rows and is not read."""
    base, last, nowhere, size = (np.array([n]) for n in (first, end - 1, 0, 1))
    none = np.zeros(1, np.bool_)
    places = Places.of(base, last, nowhere, size)
    return Batches.all_of(sequence, "", places, counts=none)


def is_in_doubt(
    chunks: Sequence[Batches], judged: Sequence[Batches], log_start: int
) -> bool:
    """Whether the first of them lies below the log's start and is open.

    ``chunks`` are those of one partition from some offset on, ``judged`` what of them
    is decided.
    """
    return bool(chunks) and not judged and int(chunks[0].base[0]) < log_start


def gaps_below(chunks: Sequence[Batches], log_start: int) -> list[tuple[int, int]]:
    """As `decided.Lost`, where any marker may have been released: each gap that begins
    below the log's start."""
    if not chunks or int(chunks[0].base[0]) >= log_start:
        return []
    base = np.concatenate([chunk.base for chunk in chunks])
    ends = np.concatenate([chunk.last for chunk in chunks]) + 1
    at = np.flatnonzero(ends[:-1] < np.minimum(base[1:], log_start)) + 1
    return [(int(offset), _MANY) for offset in base[at]]
