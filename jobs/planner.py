"""What is to be compacted now, in pieces of bounded size. Pure.

The problem: a round should be early (freshness), large (few files), fair (one busy
topic must not hold up the others) and bounded (a backlog of days must not be read into
memory). The idea: a topic is due by age and bytes (`flush`) or by request; when one is
due, those that are nearly due come along, so that rounds stay few. A round takes slices
of at most `ITEM_BYTES`, the longest waiting first, until it has `round_bytes`; the rest
waits for the next round, which follows at once. Slices are then packed into as many
Spark tasks as there are cores, because a task costs more than a small slice does.

The price: a partition with a large backlog gets several files in one round.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from broker.ids import TopicNumber, TopicPartition
from jobs.batches import Batches
from jobs.flush import Flush, Waiting, comes_along, is_due

ITEM_BYTES: Final = 64 << 20
ROUND_BYTES: Final = 256 << 20
SPLIT_BYTES: Final = 8 << 20
"""A slice that is split for the sake of idle cores stays above this."""
TRIAL_BYTES: Final = 64 << 10
"""How much is tried of a topic that failed last time: its work may be for nothing."""


@dataclass(slots=True)
class Pending:
    """What a partition has beyond its table. ``start`` is where its table ends.

    ``bytes``: of all chunks; they are summed up where that is not known (-1).
    ``goes_on``: whether each offset from ``start`` on is in them, for sure.
    """

    key: TopicPartition
    start: int
    chunks: list[Batches]
    since_ms: int
    bytes: int = -1
    oldest_segment: int = 0
    goes_on: bool = False

    def __post_init__(self) -> None:
        if self.bytes < 0:
            self.bytes = sum(int(chunk.length.sum()) for chunk in self.chunks)
        for chunk in self.chunks:
            if len(chunk):
                self.oldest_segment = chunk.sequence
                break

    def front(self, bytes_max: int) -> "Pending":
        """Its first batches, of at most ``bytes_max`` together, but at least one."""
        taken = _Cursor(self).take(bytes_max).chunks
        return Pending(self.key, self.start, list(taken), self.since_ms)


@dataclass(frozen=True, slots=True)
class Item:
    """One slice of one partition: the file-to-be of ``[start, end)``."""

    key: TopicPartition
    start: int
    end: int
    chunks: tuple[Batches, ...]
    bytes: int

    @property
    def records(self) -> int:
        """Records in the slice: one for each offset of a batch (LogValidator), of those
        that count."""
        return sum(
            int((chunk.last - np.maximum(chunk.base, self.start) + 1).sum())
            for chunk in map(Batches.counted, self.chunks)
        )


@dataclass(slots=True)
class Round:
    """What to do now. ``tasks`` hold the items, packed; ``rest`` says more waits."""

    tasks: list[list[Item]] = field(default_factory=list)
    rest: bool = False

    @property
    def items(self) -> list[Item]:
        return [item for task in self.tasks for item in task]


def by_topic(
    pending: Iterable[Pending],
    now_ms: int,
    rounds_ms: Mapping[TopicNumber, int],
    newest_segment: int = 0,
) -> dict[TopicNumber, Waiting]:
    """What each topic has; ``rounds_ms``: when it last made small files."""
    sums: dict[TopicNumber, list[int]] = {}  # bytes, partitions, oldest: since, segment
    for one in pending:
        if not one.bytes:
            continue
        part = sums.get(one.key[0])
        if part is None:
            part = sums[one.key[0]] = [0, 0, one.since_ms, one.oldest_segment]
        part[0] += one.bytes
        part[1] += 1
        if one.since_ms < part[2]:
            part[2] = one.since_ms
        if one.oldest_segment < part[3]:
            part[3] = one.oldest_segment
    found = {}
    for number, (size, partitions, since_ms, segment) in sums.items():
        round_ms = rounds_ms.get(number)
        quiet_ms = None if round_ms is None else now_ms - round_ms
        behind = newest_segment - segment
        found[number] = Waiting(size, partitions, now_ms - since_ms, quiet_ms, behind)
    return found


def due(
    pending: Iterable[Pending],
    topics: Mapping[TopicNumber, Waiting],
    flush_of: Callable[[TopicNumber], Flush],
    asked: frozenset[TopicNumber] | None = frozenset(),
) -> list[Pending]:
    """The partitions to compact now, the longest waiting first; none if none is due.

    ``topics``: what `by_topic` says of them. ``asked`` are topics whose data somebody
    waits for; None means all of them.
    """
    wanted = {
        number
        for number, waiting in topics.items()
        if asked is None or number in asked or is_due(waiting, flush_of(number))
    }
    if not wanted:
        return []
    wanted |= {
        number
        for number, waiting in topics.items()
        if comes_along(waiting, flush_of(number))
    }
    found = [one for one in pending if one.bytes and one.key[0] in wanted]
    return sorted(found, key=lambda one: one.since_ms)


def trials(
    due: Iterable[Pending], failed: Callable[[TopicPartition], TopicPartition | None]
) -> list[Pending]:
    """``due``, but of what failed last time only one small slice.

    ``failed`` tells what of a partition failed: itself, its topic as a whole, or None.
    """
    chosen: list[Pending] = []
    tried: set[TopicPartition] = set()
    for one in due:
        key = failed(one.key)
        if key is None:
            chosen.append(one)
        elif key not in tried:
            tried.add(key)
            chosen.append(one.front(TRIAL_BYTES))
    return chosen


def plan(
    pending: Sequence[Pending],
    cores: int,
    *,
    round_bytes: int = ROUND_BYTES,
    item_bytes: int = ITEM_BYTES,
) -> Round:
    """Slices of what is due, at most ``round_bytes`` (but at least one slice).

    The first slice of each partition comes before the second of any.
    """
    total = sum(one.bytes for one in pending)
    fair = max(SPLIT_BYTES, -(-min(total, round_bytes) // cores))
    cursors = [_Cursor(one) for one in pending]
    items: list[Item] = []
    left = round_bytes
    while left > 0 and any(cursor.chunks for cursor in cursors):
        for cursor in cursors:
            if cursor.chunks and left > 0:
                item = cursor.take(min(item_bytes, fair, left))
                left -= item.bytes
                items.append(item)
    rest = any(cursor.chunks for cursor in cursors)
    return Round(pack(items, cores), rest)


def left_behind(
    pending: Iterable[Pending], items: Iterable[Item]
) -> frozenset[TopicNumber]:
    """Topics of which ``items`` do not take all that waits."""
    left: dict[TopicNumber, int] = {}
    for one in pending:
        left[one.key[0]] = left.get(one.key[0], 0) + one.bytes
    for item in items:
        left[item.key[0]] -= item.bytes
    return frozenset(number for number, size in left.items() if size > 0)


class _Cursor:
    """Takes slices off the front of a partition."""

    def __init__(self, pending: Pending) -> None:
        self.key, self.start = pending.key, pending.start
        self.chunks = [chunk for chunk in pending.chunks if len(chunk)]

    def take(self, bytes_max: int) -> Item:
        """Whole batches of at most ``bytes_max`` together, but at least one."""
        taken: list[Batches] = []
        size = 0
        while self.chunks:
            chunk = self.chunks[0]
            ends = np.cumsum(chunk.length)
            count = int(np.searchsorted(ends, bytes_max - size, side="right"))
            if count == 0 and not taken:
                count = 1
            if count:
                taken.append(chunk.cut(0, count))
                size += int(ends[count - 1])
            if count < len(chunk):
                self.chunks[0] = chunk.cut(count, len(chunk))
                break
            self.chunks.pop(0)
        start, self.start = self.start, int(taken[-1].last[-1]) + 1
        return Item(self.key, start, self.start, tuple(taken), size)


def pack(items: Iterable[Item], tasks_max: int) -> list[list[Item]]:
    """Spread items over at most ``tasks_max`` tasks, the largest first."""
    tasks: list[list[Item]] = [[] for _ in range(tasks_max)]
    sizes = [0] * tasks_max
    for item in sorted(items, key=lambda item: -item.bytes):
        lightest = sizes.index(min(sizes))
        tasks[lightest].append(item)
        sizes[lightest] += item.bytes
    return [task for task in tasks if task]
