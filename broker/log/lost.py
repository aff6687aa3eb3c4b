"""Offsets that were durable and that no segment has any more.

The problem. A start finds two batches of a partition, and offsets between them in
neither; or that the log went on behind the last one. A batch may have been refused
there, or the table has what was released, or the records are lost: a segment's file is
gone, or some of its bytes are damaged. Only the first two may be passed over.

The idea. The log's checkpoint tells what was refused before it, the table how far it
reaches. And storage tells where something is missing, as places between locations: a
gap whose two batches have such a place between them is never taken for a refusal. A
place before the checkpoint's position held nothing that the checkpoint does not know.
What
is lost stays in a list beside the index: whole batches below it and above it are
served, an offset in it is an error.

The price. A batch that was refused right at a damaged place, and after the checkpoint,
is taken for a lost one; and with a lost checkpoint one that was refused where the
segments' numbers leave one out (at each start, and where one was released), or first of
all in its partition, unless the log begins with the first segment that was ever begun.
"""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from broker.log.index import Gap

Places = Sequence[tuple[int, int, bool]]
"""Locations [start, end) that have no batch now and held some, ascending; and whether
their bytes are there, but damaged."""

NOWHERE: Final = 1 << 63
"""Behind every location."""


class Lost(NamedTuple):
    """Offsets [first, end) between two batches of the index, or behind the last one
    that a start found; ``damaged``: their bytes
    are there, and not as they were written."""

    first: int
    end: int
    damaged: bool = False


def place_between(places: Places, after: int, before: int) -> bool | None:
    """Whether the first of ``places`` between two locations is damaged; None: there is
    none. One that reaches beyond ``after`` lies behind it."""
    at = bisect_right(places, after, key=itemgetter(1))
    if at == len(places) or places[at][0] >= before:
        return None
    return places[at][2]


def may_be_released(
    gap: Gap, holes: Collection[tuple[int, int]] | None, kept: int, places: Places
) -> bool:
    """Whether anything between two batches may have been released, and not refused.
    ``holes`` of a checkpoint that knows all below ``kept``, which is 0 if there is
    none: then nobody knows it where something is missing."""
    if kept:
        return gap.first < kept and gap[:2] not in (holes or ())
    return place_between(places, gap.after, gap.before) is not None


def refused_at(
    offset: int, gaps: Sequence[Gap], places: Places
) -> list[tuple[int, int]]:
    """What was refused from ``offset`` on: to the end of the gap that it lies in, if
    nothing is missing there."""
    return [
        (offset, gap.end)
        for gap in gaps
        if gap.first <= offset < gap.end
        and place_between(places, gap.after, gap.before) is None
    ]
