"""What stands in segments and not yet in tables, and since when.

The problem: five times a second, for every partition of every live segment, cheaply.
The idea: a sealed segment never changes, so its columns are taken once; only the active
one is looked at again. A partition's pending batches are those whose last offset is not
below the end of its table, found by binary search. Age is when this process first saw
that a partition reaches so far: the segments do not carry a time of their own. Of a
partition whose table stands still that is kept ever more coarsely, never as younger
than it is.

What is pending ends at the first open transaction, and of the rest is known what has
rows (`decided`).

Where a segment is damaged, `holes` tells which partitions stop before the damage. One
with offsets in two segments waits: an older version's checkpoint may list what was
carried and where it came from, until a start chooses.

Reads nothing itself: the segment store is handed in.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import structlog

from broker.ids import TopicNumber, TopicPartition
from broker.records.batch import checksum, read_header
from broker.records.kinds import DAMAGED, Kinds, join
from broker.storage.columns import EntryColumns
from broker.storage.segment import SegmentInfo
from broker.storage.store import SegmentStore
from jobs.decided import decided, open_from, undecidable
from jobs.holes import Hole, below, first_hole
from jobs.missing import gaps
from jobs.planner import Batches, Pending

MARKS_MAX = 256
"""For each partition: at five looks a second, exact for most of a minute."""
LOOK_AGAIN_MS = 60_000
_POSITION_MASK = 0xFFFFFFFF
_Chunk = tuple[int, int, int]
"""Segment, first offset, how many batches: it always has the same ones."""
_Judged = tuple[list[_Chunk], list[Batches], str | None]
"""Of which chunks; what was decided of their transactions; and what damage ends it."""


class _Looked(NamedTuple):
    """What the first ``length`` batches of a partition in a segment are; ``position``:
    that of the last of them."""

    length: int
    kinds: Kinds | None
    position: int

    def knows(self, batches: Batches) -> bool:
        """Whether they begin with these: a start may have found less, or more."""
        is_there = 0 < self.length <= len(batches)
        return is_there and int(batches.position[self.length - 1]) == self.position


_NEW = _Looked(0, None, 0)

log = structlog.get_logger("lakelog.compactor")


class Backlog:
    """All live segments by partition, as of the last `refresh`."""

    def __init__(self, store: SegmentStore) -> None:
        self._store = store
        self._sealed: dict[int, dict[TopicPartition, Batches]] = {}
        self._kinds: dict[int, dict[TopicPartition, _Looked]] = {}
        """Segment -> partition -> what the batches are that were looked at."""
        self._active: tuple[SegmentInfo, dict[TopicPartition, Batches]] | None = None
        """The one that is not sealed, as of the last look."""
        self._live: list[dict[TopicPartition, Batches]] = []
        self._marks: dict[TopicPartition, deque[tuple[int, int]]] = {}
        self._judged: dict[TopicPartition, _Judged] = {}
        self._look_again_ms = 0
        self.newest_segment = 0
        self.ends: dict[TopicPartition, int] = {}
        """Partition -> end of what is durable in the live segments."""
        self.holes: list[Hole] = []
        self.held: dict[TopicPartition, Hole | str] = {}
        """Partitions that stop before a hole, or have offsets in two segments, as of
        the last `pending`."""
        self.damage: list[str] = []
        """What was durable and does not verify any more or is missing, in words."""

    def refresh(self, now_ms: int) -> None:
        """Look again. Raises OSError, and StaleSegment if a segment goes meanwhile."""
        self._forget_damaged(now_ms)
        infos = sorted(self._store.live(), key=lambda info: info.sequence)
        sealed = {info.sequence for info in infos if info.sealed}
        for gone in self._sealed.keys() - sealed:
            del self._sealed[gone]
        for gone in self._kinds.keys() - {info.sequence for info in infos}:
            del self._kinds[gone]
        before, self._live = self._live, [self._segment(info) for info in infos]
        self.newest_segment = infos[-1].sequence if infos else 0
        holes = [
            Hole(info.sequence, *place)
            for info in infos
            for place in self._store.holes(info.sequence)
        ]
        self.holes = sorted([*holes, *(Hole(n, 0, 0) for n in self._store.missing)])
        if list(map(id, before)) != list(map(id, self._live)):
            self._mark(now_ms)
        self._report_damage()

    def _forget_damaged(self, now_ms: int) -> None:
        """Each minute, what is in segments where some was damaged, and what is decided:
        what could not be read may be read another time."""
        if now_ms < self._look_again_ms:
            return
        self._look_again_ms = now_ms + LOOK_AGAIN_MS
        self._judged.clear()
        self._active = None
        damaged = self._store.forget_damaged()
        for sequence, known in self._kinds.items():
            kinds = [one.kinds for one in known.values()]
            if any(each is not None and DAMAGED in each.kind for each in kinds):
                damaged.add(sequence)
        for sequence in damaged:
            self._kinds.pop(sequence, None)
            self._sealed.pop(sequence, None)

    def _report_damage(self) -> None:
        for text in self._store.damage:
            if text not in self.damage:
                log.error("the log is damaged", what=text)
        self.damage = list(self._store.damage)

    def _segment(self, info: SegmentInfo) -> dict[TopicPartition, Batches]:
        known = self._sealed.get(info.sequence)
        if known is not None:
            return known
        if self._active is not None and self._active[0] == info:
            return self._active[1]
        columns = self._store.columns(info.sequence)
        found = {
            key: _batches(info, self._store.address, some)
            for key, some in columns.items()
            if len(some)
        }
        found = self._with_kinds(info.sequence, found)
        if info.sealed:
            self._sealed[info.sequence] = found
        else:
            self._active = info, found
        return found

    def _with_kinds(
        self, sequence: int, found: dict[TopicPartition, Batches]
    ) -> dict[TopicPartition, Batches]:
        """The same batches, and what they are; only new ones are looked at."""
        known = {
            key: looked
            for key, looked in self._kinds.get(sequence, {}).items()
            if key in found and looked.knows(found[key])
        }
        self._kinds[sequence] = known
        newer = {
            key: some.cut(known.get(key, _NEW).length, len(some))
            for key, some in found.items()
        }
        if any(map(len, newer.values())):
            with self._store.opened(sequence) as segment:
                kinds = segment.kinds(
                    np.concatenate([one.position for one in newer.values()]),
                    np.concatenate([one.length for one in newer.values()]),
                )
                segment.check_current()
            first = 0
            for key, batches in newer.items():
                count, before, _ = known.get(key, _NEW)
                some = slice(first, first := first + len(batches))
                part = None if kinds is None else kinds.cut(some)
                joined = join([(count, before), (len(batches), part)])
                last = int(found[key].position[-1])
                known[key] = _Looked(count + len(batches), joined, last)
        return {
            key: replace(some, kinds=known[key].kinds) for key, some in found.items()
        }

    def _mark(self, now_ms: int) -> None:
        self.ends = {}
        for segment in self._live:
            for key, batches in segment.items():
                self.ends[key] = int(batches.last[-1]) + 1
        for gone in self._marks.keys() - self.ends.keys():
            del self._marks[gone]
            self._judged.pop(gone, None)
        for key, end in self.ends.items():
            marks = self._marks.setdefault(key, deque())
            if not marks or marks[-1][0] < end:
                marks.append((end, now_ms))
                if len(marks) > MARKS_MAX:
                    self._marks[key] = _thinned(marks)

    def topics(self) -> set[TopicNumber]:
        """Numbers of the topics that have anything in live segments."""
        return {key[0] for key in self.ends}

    def has(self, key: TopicPartition, start: int, end: int) -> bool:
        """Whether the segments have each offset of [start, end)."""
        chunks = [segment[key] for segment in self._live if key in segment]
        return self.ends.get(key, 0) >= end and all(
            first >= end for first, _ in gaps(start, chunks)
        )

    def pending(
        self, table_ends: Mapping[TopicPartition, int], topics: Collection[TopicNumber]
    ) -> list[Pending]:
        """What the tables of ``topics`` lack; nothing for a partition that has all."""
        found = []
        self.held = {}
        for key, end in self.ends.items():
            start = table_ends.get(key)
            if key[0] in topics and (start is None or start < end):
                found.append(self._pending(key, start))
        return found

    def _pending(self, key: TopicPartition, start: int | None) -> Pending:
        chunks = [segment[key] for segment in self._live if key in segment]
        chunks = self._whole(key, start or 0, chunks)
        if start is None:
            start = int(chunks[0].base[0]) if chunks else 0
        else:
            above = (chunk.above(start) for chunk in chunks)
            chunks = [chunk for chunk in above if len(chunk)]
        chunks = self._decided(key, chunks)
        return Pending(key, start, chunks, self._since(key, start))

    def _decided(self, key: TopicPartition, chunks: list[Batches]) -> list[Batches]:
        """What of them is decided; looked at anew only where something has changed."""
        if all(chunk.kinds is None for chunk in chunks):
            return chunks
        looked_at = [(c.sequence, int(c.base[0]), len(c)) for c in chunks]
        known = self._judged.get(key)
        if known is None or known[0] != looked_at:
            judged = decided(chunks)
            damage = undecidable(chunks, judged) or self._no_transaction(chunks, judged)
            known = self._judged[key] = looked_at, judged, damage
        if known[2] is not None:
            self.held[key] = known[2]
        return known[1]

    def _no_transaction(
        self, chunks: list[Batches], judged: list[Batches]
    ) -> str | None:
        """In words, that the first batch which waits for a marker is damaged, and may
        wait for one that never comes; None: it is whole, or none waits."""
        waiting = open_from(chunks, judged)
        if waiting is None:
            return None
        with self._store.opened(waiting.sequence) as segment:
            batch = segment.read_range(int(waiting.position[0]), int(waiting.length[0]))
            segment.check_current()
        header = read_header(batch)
        if header.size == len(batch) and header.crc == checksum(batch):
            return None
        return (
            f"segment {waiting.sequence}: the batch at offset {waiting.base[0]} is "
            "damaged, so it is not known whether and when its records count"
        )

    def _whole(
        self, key: TopicPartition, start: int, chunks: list[Batches]
    ) -> list[Batches]:
        """The chunks up to a hole in which batches of this partition may have been;
        none if offsets are in two of them, until a start tells which counts."""
        again = _first_again(chunks)
        if again is not None:
            self.held[key] = f"segment {again}: offsets in it are in another one, too"
            return []
        stop = first_hole(chunks, start, self.holes) if self.holes else None
        if stop is None:
            return chunks
        offset, self.held[key] = stop
        return below(chunks, offset)

    def _since(self, key: TopicPartition, start: int) -> int:
        marks = self._marks[key]
        while len(marks) > 1 and marks[0][0] <= start:
            marks.popleft()
        return marks[0][1]


def _first_again(chunks: Iterable[Batches]) -> int | None:
    """The segment that does not go on behind the ones before it, if there is one."""
    pairs = pairwise(chunks)
    found = (b.sequence for a, b in pairs if b.base[0] <= a.last[-1])
    return next(found, None)


def _thinned(marks: Iterable[tuple[int, int]]) -> deque[tuple[int, int]]:
    """Each two marks as one: the later one's end, since the earlier one's time."""
    pairs = list(marks)
    both = zip(pairs[::2], pairs[1::2], strict=False)  # an odd one stays
    thin = [(end, since) for (_, since), (end, _) in both]
    return deque(thin + pairs[len(thin) * 2 :])


def _batches(info: SegmentInfo, store: str, columns: EntryColumns) -> Batches:
    return Batches(
        info.sequence,
        store,
        columns.base,
        columns.last,
        np.bitwise_and(columns.location, _POSITION_MASK),
        columns.length,
    )
