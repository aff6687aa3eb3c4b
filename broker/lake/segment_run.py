"""Which segments are carried into one: a run of them, in the order of the log.

The problem: in a partition the batches must stay in the order of where they lie, and
all that is carried lies behind the last segment of the run. The idea: a run ends before
a segment that stays and holds a batch of a partition that is carried, and before a
damaged one; it may pass any other. It is worth it from four segments on, and it fits
into one. Pure.

The price: the first run that is worth it, not the best.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Set
from dataclasses import dataclass
from itertools import islice
from typing import Final

from broker.ids import TopicPartition

SEGMENTS_MIN: Final = 4
SEGMENTS_MAX: Final = 64
BATCHES_MAX: Final = 50_000
"""In one step: a batch costs some microseconds, however small it is."""
KEYS_A_TURN: Final = 4_000
"""Of the partitions of segments: each is a fraction of a microsecond."""
SEGMENT_AS_KEYS: Final = 10


@dataclass(frozen=True, slots=True)
class Held:
    """A segment, and what is needed of it.

    ``keys``: the partitions of which anything is needed; of one that is not to be
    carried, all that it may hold. ``ends``: whether a run may end with it.
    """

    sequence: int
    keys: Set[TopicPartition] = frozenset()
    bytes: int = 0
    batches: int = 0
    movable: bool = False
    ends: bool = False
    damaged: bool = False


class Run:
    """Segments that follow each other and may be carried into one; grows at its end
    and shrinks at its beginning, and counts along."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._segments: deque[Held] = deque()
        self._keys: Counter[TopicPartition] = Counter()
        self._bytes = self._batches = 0
        self._past_end = 0
        """How many of them there are up to the last with which it may end."""

    def __bool__(self) -> bool:
        return bool(self._segments)

    def takes(self, one: Held) -> bool:
        """Whether all of it fits into one segment with this one."""
        return (
            len(self._segments) < SEGMENTS_MAX
            and self._bytes + one.bytes <= self._bytes_max
            and self._batches + one.batches <= BATCHES_MAX
        )

    def add(self, one: Held) -> None:
        self._segments.append(one)
        self._keys.update(one.keys)
        self._bytes += one.bytes
        self._batches += one.batches
        if one.ends:
            self._past_end = len(self._segments)

    def drop_first(self) -> None:
        one = self._segments.popleft()
        self._keys.subtract(one.keys)
        for key in one.keys:
            if not self._keys[key]:
                del self._keys[key]
        self._bytes -= one.bytes
        self._batches -= one.batches
        self._past_end -= 1

    def goes_on_behind(self, stays: Held) -> bool:
        """Whether it may go on behind a segment that is not carried."""
        if stays.damaged:
            return False
        return not any(key in self._keys for key in stays.keys)

    def whole(self) -> list[Held]:
        """As much of it as may be carried, if that is enough; else nothing."""
        if self._past_end < SEGMENTS_MIN:
            return []
        return list(islice(self._segments, self._past_end))


async def choose(held: Iterable[Held], bytes_max: int) -> list[Held]:
    """The first run of these (all that are live, in order) that is worth it.

    Of thousands that is milliseconds: others have their turn now and then.
    """
    run, work = Run(bytes_max), 0
    for one in held:
        found: list[Held] = []
        if not one.movable:
            if not run.goes_on_behind(one):
                found, run = run.whole(), Run(bytes_max)
        elif run.takes(one):
            run.add(one)
        else:
            found = run.whole()
            while run and not run.takes(one):
                run.drop_first()
            if run.takes(one):
                run.add(one)
        if found:
            return found
        work += SEGMENT_AS_KEYS + len(one.keys)
        if work >= KEYS_A_TURN:
            work = 0
            await asyncio.sleep(0)
    return run.whole()
