"""What stands in segments and not yet in tables, and since when.

The problem: five times a second, for every partition of every live segment, cheaply.
The idea: a sealed segment never changes, so its columns are taken once; only the active
one is looked at again. A partition's pending batches are those whose last offset is not
below the end of its table, found by binary search in its `Chain`. Age is when this
process first saw that a partition reaches so far: the segments do not carry a time of
their own. Of a partition whose table stands still that is kept ever more coarsely,
never as younger than it is.

What is pending ends at the first open transaction, and of the rest is known what has
rows (`decided`). What lies below the log's start may be left out (`below_start`).

Where a segment is damaged, `holes` tells which partitions stop before the damage. One
with offsets in two segments waits: an older version's checkpoint may list what was
carried and where it came from, until a start chooses.

Reads nothing itself: the segment store is handed in.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import structlog

from broker.ids import TopicNumber, TopicPartition
from broker.records.batch import checksum, read_header
from broker.records.kinds import DAMAGED, Kinds, join
from broker.status import schema
from broker.storage.missing_segments import runs_of
from broker.storage.segment import SegmentInfo
from broker.storage.store import SegmentStore
from jobs.batches import Batches, batches_of
from jobs.below_start import above, gaps_below, is_in_doubt, left_out
from jobs.chain import Chain
from jobs.decided import Lost, decided, open_end, open_from, undecidable
from jobs.holes import Hole, below, first_hole, gaps_at
from jobs.missing import gaps
from jobs.planner import Pending
from jobs.rows import Failed
from jobs.stuck import Stop

MARKS_MAX = 256
"""For each partition: at five looks a second, exact for most of a minute."""
LOOK_AGAIN_MS = 60_000
_Chunk = tuple[int, int, int]
"""Segment, first offset, how many batches: it always has the same ones."""
_Decided = tuple[object, list[Batches], Stop | None]
"""Of what; what was decided of its transactions; and what damage ends it."""
LogStart = Callable[[TopicPartition], int]
"""Where a partition's log begins, or began a while ago."""
_Found = dict[TopicPartition, Batches]
"""What one segment has."""


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


class _Judged(NamedTuple):
    """Batches of a partition from some offset on, and what of them is decided;
    ``stop``: what ends that. ``bytes``: of all of them, -1: not known."""

    chunks: list[Batches]
    decided: list[Batches]
    bytes: int
    stop: Stop | None

    @property
    def is_all(self) -> bool:
        return self.decided is self.chunks


_NEW = _Looked(0, None, 0)

log = structlog.get_logger("lakelog.compactor")


class Backlog:
    """All live segments by partition, as of the last `refresh`."""

    def __init__(self, store: SegmentStore) -> None:
        self._store = store
        self.chains: dict[TopicPartition, Chain] = {}
        """What the live segments have, of each partition of which they have anything.
        """
        self._seen: dict[int, SegmentInfo] = {}
        """The segments that are in the chains, as they were then."""
        self._kinds: dict[int, dict[TopicPartition, _Looked]] = {}
        """Segment that is not sealed -> what the batches are that were looked at."""
        self._damaged: set[int] = set()
        """Sealed ones with batches that may be markers and do not verify."""
        self._unsure: set[int] = set()
        """Those that are read anew, whatever they look like."""
        self._marks: dict[TopicPartition, deque[tuple[int, int]]] = {}
        self._decided_of: dict[TopicPartition, _Decided] = {}
        self._left_out: dict[TopicPartition, int] = {}
        """Partition -> below which offset its batches are left out."""
        self._reached: dict[TopicPartition, int] = {}
        """Of these: where the table ended at the last look."""
        self._failed_at: dict[TopicPartition, tuple[int, int]] = {}
        """Partition -> first and last offset of the batch that could not be written."""
        self._look_again_ms = 0
        self.newest_segment = 0
        self.live: Set[int] = frozenset()
        """The segments that there are."""
        self.ends: dict[TopicPartition, int] = {}
        """Partition -> end of what is durable in the live segments."""
        self.holes: list[Hole] = []
        self.held: dict[TopicPartition, str] = {}
        """Partitions that stop before damage, or have offsets in two segments, and why,
        as of the last `pending`."""
        self.damage: list[str] = []
        """What was durable and does not verify any more or is missing, in words."""

    def refresh(self, now_ms: int) -> None:
        """Look again. Raises OSError, and StaleSegment if a segment goes meanwhile."""
        self._forget_damaged(now_ms)
        infos = sorted(self._store.live(), key=lambda info: info.sequence)
        newer = [(info, self._read(info)) for info in infos if self._is_new(info)]
        self.newest_segment = infos[-1].sequence if infos else 0
        holes = [
            Hole(info.sequence, *place)
            for info in infos
            for place in self._store.holes(info.sequence)
        ]
        self.live = there = frozenset(info.sequence for info in infos)
        missing = runs_of(self._store.missing, there)
        self.holes = sorted([*holes, *(Hole(run.first, 0, 0) for run in missing)])
        changed = self._drop_others(there)
        for info, found in newer:
            changed |= self._take_up(info, found)
        if changed:
            self._mark(changed, now_ms)
        self._report_damage()

    def _is_new(self, info: SegmentInfo) -> bool:
        """Whether it is not as it was seen; one that is sealed does not change."""
        seen = self._seen.get(info.sequence)
        if seen is None or info.sequence in self._unsure:
            return True
        return seen != info and not (seen.sealed and info.sealed)

    def _drop_others(self, live: Collection[int]) -> set[TopicPartition]:
        """Forget what other segments had; the partitions that had anything there."""
        gone = {sequence for sequence in self._seen if sequence not in live}
        for sequence in gone:
            del self._seen[sequence]
            self._kinds.pop(sequence, None)
        self._damaged -= gone
        self._unsure -= gone
        chains = self.chains.items()
        return {key for key, chain in chains if chain.drop(gone)}

    def _take_up(self, info: SegmentInfo, found: _Found) -> set[TopicPartition]:
        """Note what a segment has; the partitions that it concerns, or did before."""
        sequence, chains = info.sequence, self.chains
        before = (key for key in chains if key not in found)
        changed = {key for key in before if chains[key].drop({sequence})} | found.keys()
        for key, batches in found.items():
            chain = chains.get(key)
            if chain is None:
                chain = chains[key] = Chain()
            chain.put(batches)
        self._seen[sequence] = info
        self._unsure.discard(sequence)
        if info.sealed:
            self._kinds.pop(sequence, None)
            if _are_damaged(found.values()):
                self._damaged.add(sequence)
        return changed

    def _forget_damaged(self, now_ms: int) -> None:
        """Each minute, what is in segments where some was damaged, and what is decided:
        what could not be read may be read another time."""
        if now_ms < self._look_again_ms:
            return
        self._look_again_ms = now_ms + LOOK_AGAIN_MS
        self._decided_of.clear()
        damaged = self._store.forget_damaged() | self._damaged
        active = {n for n, seen in self._seen.items() if not seen.sealed}
        damaged.update(n for n in self._kinds if _are_damaged(self._kinds[n].values()))
        for sequence in damaged:
            self._kinds.pop(sequence, None)
        self._unsure |= damaged | active
        self._damaged.clear()

    def _report_damage(self) -> None:
        for text in self._store.damage:
            if text not in self.damage:
                log.error("the log is damaged", what=text)
        self.damage = list(self._store.damage)

    def _read(self, info: SegmentInfo) -> _Found:
        columns = self._store.columns(info.sequence)
        found = batches_of(info.sequence, self._store.address, columns)
        return self._with_kinds(info, found)

    def _with_kinds(self, info: SegmentInfo, found: _Found) -> _Found:
        """The same batches, and what they are; only new ones are looked at."""
        known = {
            key: looked
            for key, looked in self._kinds.get(info.sequence, {}).items()
            if key in found and looked.knows(found[key])
        }
        newer = {
            key: some.cut(known[key].length, len(some)) if key in known else some
            for key, some in found.items()
        }
        kinds = self._look(info.sequence, newer.values())
        looked: dict[TopicPartition, Kinds | None] = {}
        first = 0
        for key, batches in newer.items():
            some = slice(first, first := first + len(batches))
            count, before, _ = known.get(key, _NEW)
            part = None if kinds is None else kinds.cut(some)
            looked[key] = join([(count, before), (len(batches), part)])
        if not info.sealed:
            self._kinds[info.sequence] = {
                key: _Looked(len(some), looked[key], int(some.position[-1]))
                for key, some in found.items()
            }
        return {
            key: some if looked[key] is None else replace(some, kinds=looked[key])
            for key, some in found.items()
        }

    def _look(self, sequence: int, newer: Collection[Batches]) -> Kinds | None:
        """What these batches are, one behind the other; None: all are plain."""
        if not any(map(len, newer)):
            return None
        with self._store.opened(sequence) as segment:
            kinds = segment.kinds(
                np.concatenate([one.position for one in newer]),
                np.concatenate([one.length for one in newer]),
            )
            segment.check_current()
        return kinds

    def _mark(self, changed: Iterable[TopicPartition], now_ms: int) -> None:
        for key in changed:
            chain = self.chains[key]
            if not chain.chunks:
                self._forget(key)
                continue
            self.ends[key] = end = chain.end
            marks = self._marks.setdefault(key, deque())
            if not marks or marks[-1][0] < end:
                marks.append((end, now_ms))
                if len(marks) > MARKS_MAX:
                    self._marks[key] = _thinned(marks)

    def _forget(self, key: TopicPartition) -> None:
        for of_each in (
            self.chains, self.ends, self._marks, self._decided_of, self._left_out,
            self._failed_at,
        ):  # fmt: skip
            of_each.pop(key, None)

    def note_failed(
        self, key: TopicPartition, failed: Failed, log_start: LogStart
    ) -> bool:
        """Something could not be written; whether the next try gets further at once.

        It does if it is known for which batch: what lies before that goes first, and
        the batch is left out if it was given up. The reason says to give it up, with
        all before it, and so is told only where the table ends right before it. Of a
        batch that fails twice in a row this is not said.
        """
        if failed.last < 0:
            return False
        known, now = self._failed_at.get(key), (failed.offset, failed.last)
        self._failed_at[key] = now
        return known != now and (failed.is_behind or failed.last < log_start(key))

    def topics(self) -> set[TopicNumber]:
        """Numbers of the topics that have anything in live segments."""
        return {key[0] for key in self.ends}

    def has(self, key: TopicPartition, start: int, end: int) -> bool:
        """Whether the segments have each offset of [start, end)."""
        chain = self.chains.get(key)
        if chain is None:
            return end <= 0
        return chain.end >= end and all(
            first >= end for first, _ in gaps(start, chain.chunks)
        )

    def pending(
        self,
        table_ends: Mapping[TopicPartition, int],
        topics: Collection[TopicNumber],
        log_start: LogStart = lambda key: 0,
    ) -> list[Pending]:
        """What the tables of ``topics`` lack; nothing for a partition that has all."""
        found = []
        self.held = {}
        self._take_in_again(
            {k: table_ends.get(k, 0) for k in self._left_out if k[0] in topics}
        )
        for key, end in self.ends.items():
            start = table_ends.get(key)
            if key[0] in topics and (start is None or start < end):
                found.append(self._pending(key, start, log_start))
        return found

    def _take_in_again(self, table_ends: Mapping[TopicPartition, int]) -> None:
        """Leave nothing out any more where the table went back: it is made anew."""
        for key, end in table_ends.items():
            if end < self._reached.get(key, 0):
                del self._left_out[key]
        reached = self._reached | dict(table_ends)
        self._reached = {key: reached[key] for key in self._left_out.keys() & reached}

    def _pending(
        self,
        key: TopicPartition,
        start: int | None,
        log_start: LogStart,
    ) -> Pending:
        chain = self.chains[key]
        first = int(chain.chunks[0].base[0]) if start is None else start
        from_ = max(first, self._left_out.get(key, 0))
        judged = self._judge(key, from_, start, log_start)
        if chain.specials and is_in_doubt(*judged[:2], log_start(key)):
            from_ = self._left_out[key] = log_start(key)
            judged = self._judge(key, from_, start, log_start)
        if key in self._failed_at:
            judged = self._before_failed(key, from_, judged, log_start)
            if from_ < self._left_out.get(key, 0):
                from_ = self._left_out[key]
                judged = self._judge(key, from_, start, log_start)
        if from_ > first and from_ >= chain.end:
            rest = left_out(chain.chunks[0].sequence, first, chain.end)
            return Pending(key, first, [rest], self.since(key, first))
        if judged.stop is not None:
            is_next = not judged.decided  # giving up takes all before, if it waits
            self.held[key] = judged.stop.reason(log_start(key), is_next=is_next)
        goes_on = judged.is_all and judged.bytes >= 0 and from_ == first
        return Pending(
            key, first, judged.decided, self.since(key, from_),
            judged.bytes if judged.is_all else -1,
            goes_on=goes_on and chain.goes_on(first),
        )  # fmt: skip

    def _before_failed(
        self, key: TopicPartition, from_: int, judged: _Judged, log_start: LogStart
    ) -> _Judged:
        """What of the batches from an offset on lies before the one that could not be
        written, if anything does: it goes first. If nothing does, the one, and no
        other, is left out from now on if the log begins behind it."""
        base, last = self._failed_at[key]
        if last >= from_:
            if before := below(judged.decided, base):
                return judged._replace(decided=before, stop=None)
            if last >= log_start(key):
                return judged
            self._left_out[key] = last + 1
        del self._failed_at[key]
        return judged

    def _judge(
        self,
        key: TopicPartition,
        from_: int,
        start: int | None,
        log_start: LogStart,
    ) -> _Judged:
        """The batches of a partition from an offset on; its table ends at ``start``."""
        chain = self.chains[key]
        stop, size = None, -1
        if self.holes or chain.again:  # then all of it is looked at
            needed = max(start or 0, log_start(key))
            whole, stop = self._whole(key, needed, chain.chunks)
            whole, all_ = above(whole, from_), above(chain.chunks, from_)
        else:
            all_, size = chain.above(from_)
            whole = all_
        if not chain.specials:
            return _Judged(whole, whole, size, stop)
        judged, damage = self._decided(key, whole, all_, log_start(key))
        if stop is not None:  # what is open before goes first
            stop = stop.before_open(open_end(whole, judged))
        return _Judged(whole, judged, size, damage or stop)

    def _decided(
        self,
        key: TopicPartition,
        whole: list[Batches],
        all_: list[Batches],
        log_start: int,
    ) -> tuple[list[Batches], Stop | None]:
        """What of those before a hole is decided, also by what lies behind it, and
        which damage ends that; looked at anew only where something has changed."""
        if all(chunk.kinds is None for chunk in whole):
            return whole, None  # the same list
        gaps = gaps_at(self.chains[key].chunks, self.holes) if self.holes else ()
        damaged = [(base, base - before) for before, _, base in gaps]
        lost = sorted([*damaged, *gaps_below(all_, log_start)])
        begin = max(log_start, int(all_[0].base[0]))
        looked_at = _names(whole), _names(all_), lost, begin
        known = self._decided_of.get(key)
        if known is None or known[0] != looked_at:
            judged, damage = self._decide(whole, all_, lost, begin)
            known = self._decided_of[key] = looked_at, judged, damage
        return known[1], known[2]

    def _decide(
        self, whole: list[Batches], all_: list[Batches], lost: Lost, log_start: int
    ) -> tuple[list[Batches], Stop | None]:
        """The same. If the first that is open is left out once what is decided stands
        in the table, damage is what ends the rest: none that was taken is told."""
        judged = below(decided(all_, lost), int(whole[-1].last[-1]) + 1)
        damage = undecidable(whole, judged) or self._no_transaction(whole, judged)
        if damage is not None and judged:
            waiting = open_from(whole, judged)
            if waiting is not None and int(waiting.base[0]) < log_start:
                damage, rest = None, above(whole, log_start)
                if rest:
                    behind = above(all_, log_start)
                    _, damage = self._decide(rest, behind, lost, log_start)
        return judged, damage

    def _no_transaction(
        self, chunks: list[Batches], judged: list[Batches]
    ) -> Stop | None:
        """Says that the first batch which waits for a marker is damaged, and may
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
        return Stop(
            f"segment {waiting.sequence}: the batch at offset {waiting.base[0]} is "
            "damaged, so it is not known whether and when its records count",
            int(waiting.last[0]) + 1,
            put_back=schema.DAMAGED,
        )

    def _whole(
        self, key: TopicPartition, start: int, chunks: list[Batches]
    ) -> tuple[list[Batches], Stop | None]:
        """The chunks up to a hole in which batches of this partition may have been, and
        what stops it there; none if offsets are in two of them, until a start tells
        which counts."""
        if again := self.chains[key].again:
            why = f"segment {again[0]}: offsets in it are in another one, too"
            return [], Stop(why)
        stop = first_hole(chunks, start, self.holes) if self.holes else None
        if stop is None:
            return chunks, None
        offset, hole, end = stop
        return below(chunks, offset), Stop(str(hole), end)

    def since(self, key: TopicPartition, start: int) -> int:
        """When a partition was first seen to reach beyond ``start``."""
        marks = self._marks[key]
        while len(marks) > 1 and marks[0][0] <= start:
            marks.popleft()
        return marks[0][1]


def _names(chunks: Iterable[Batches]) -> list[_Chunk]:
    return [(c.sequence, int(c.base[0]), len(c)) for c in chunks]


def _are_damaged(found: Iterable[Batches | _Looked]) -> bool:
    """Whether any of these may be a marker and does not verify."""
    kinds = (one.kinds for one in found if one.kinds is not None)
    return any(DAMAGED in each.kind for each in kinds)


def _thinned(marks: Iterable[tuple[int, int]]) -> deque[tuple[int, int]]:
    """Each two marks as one: the later one's end, since the earlier one's time."""
    pairs = list(marks)
    both = zip(pairs[::2], pairs[1::2], strict=False)  # an odd one stays
    thin = [(end, since) for (_, since), (end, _) in both]
    return deque(thin + pairs[len(thin) * 2 :])
