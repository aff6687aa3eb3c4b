"""Which segments exist, and what has become of each.

The problem. Four threads have to do with the same segments: the writer's begins and
seals them, the recycler's carries and removes them, the loop releases them, readers on
any thread look into them. What one of them changes the others must see as a whole, and
each change belongs to one.

The idea. The segments themselves do not change when something becomes of them; it is
noted here, by one method for each step, and each step is one thread's:

    begin      writer     it is written
    sealed     writer     it is whole; nothing is written to it any more
    replace    recycler   what is needed of it another one holds now; still readable
    mark_damaged  recycler   not whole; its file is not used again
    release    loop       nobody reads it any more; its file is not free yet
    remove     recycler   a durable manifest does not list it

The price. A lock, held for some lines.
"""

import threading
from collections.abc import Iterable
from dataclasses import replace

from broker.storage.active_segment import ActiveSegment
from broker.storage.segment import SealedSegment, StaleSegment

Segment = ActiveSegment | SealedSegment


class SegmentRegistry:
    """All segments of a log. What only looks may be called on any thread."""

    def __init__(self, sealed: Iterable[SealedSegment] = ()) -> None:
        self._lock = threading.Lock()
        self._segments: dict[int, Segment] = {each.sequence: each for each in sealed}
        self._released: set[int] = set()
        self._replaced: set[int] = set()

    def begin(self, segment: ActiveSegment) -> None:
        """Take in a segment that is about to be written."""
        with self._lock:
            self._segments[segment.sequence] = segment

    def sealed(self, segment: SealedSegment) -> None:
        """It takes the place of the active one that it was."""
        with self._lock:
            self._segments[segment.sequence] = segment

    def replace(self, sources: Iterable[int], segment: SealedSegment) -> None:
        """From now on manifests list this one and not those ``sources``."""
        with self._lock:
            self._segments[segment.sequence] = segment
            self._replaced.update(sources)

    def mark_damaged(self, sequence: int) -> None:
        """A sealed segment is not whole."""
        with self._lock:
            known = self._segments[sequence]
            assert isinstance(known, SealedSegment)
            info = replace(known.info, intact=False)
            self._segments[sequence] = replace(known, info=info)

    def release(self, sequence: int) -> None:
        """Nobody asks for this sealed segment any more.

        Raises StaleSegment if it was released before, or never was.
        """
        with self._lock:
            known = self._segments.get(sequence)
            if known is None or sequence in self._released:
                raise StaleSegment(sequence)
            assert isinstance(known, SealedSegment), "the active segment is needed"
            self._released.add(sequence)

    def remove(self, sequence: int) -> None:
        """Its slot belongs to who calls this."""
        with self._lock:
            del self._segments[sequence]
            self._released.discard(sequence)
            self._replaced.discard(sequence)

    def get(self, sequence: int) -> Segment | None:
        """The segment if it exists, also one that is released."""
        return self._segments.get(sequence)

    def readable(self, sequence: int) -> Segment | None:
        """The segment if it exists and is not released."""
        with self._lock:
            known = self._segments.get(sequence)
            return None if sequence in self._released else known

    def all(self) -> list[Segment]:
        """Those that exist, by sequence."""
        with self._lock:
            return [each for _, each in sorted(self._segments.items())]

    def live(self) -> list[Segment]:
        """Those that are neither released nor replaced, by sequence."""
        with self._lock:
            return [
                each
                for sequence, each in sorted(self._segments.items())
                if sequence not in self._released and sequence not in self._replaced
            ]

    def released(self) -> list[SealedSegment]:
        """Those that are released and not removed yet, by sequence."""
        with self._lock:
            found = [self._segments[each] for each in sorted(self._released)]
        return [each for each in found if isinstance(each, SealedSegment)]

    def is_replaced(self, sequence: int) -> bool:
        return sequence in self._replaced

    def listed(self, known: int) -> frozenset[int]:
        """What a manifest lists in which ``known`` is the last durable sequence."""
        with self._lock:
            return frozenset(
                sequence
                for sequence, each in self._segments.items()
                if (sequence <= known or each.carried)
                and sequence not in self._replaced
            )
