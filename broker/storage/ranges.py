"""What a segment holds of each partition: two offsets, and no objects for them.

The problem. A broker whose compactor was away holds a thousand segments of two thousand
partitions each. A dict of tuples takes 270 bytes for each of these two million, half a
gigabyte, and a start makes all of them before it can serve anybody.

The idea. Three columns of integers, ordered by partition: 24 bytes each, made of a
segment's rows by some passes over columns. They are a mapping all the same: one
partition is found by binary search, and who walks over them gets tuples one at a time.

The price. A look-up takes half a microsecond, ten times as long as in a dict. So the
segment that is being written, which changes with each group, has a dict.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, ItemsView, Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np

from broker.ids import TopicPartition
from broker.storage.columns import Ints, Rows, by_partition

Range = tuple[int, int]
"""The first offset and the one behind the last."""
Ranges = Mapping[TopicPartition, Range]


class PackedRanges(Mapping[TopicPartition, Range]):
    """Ranges that do not change, in columns of one length, ordered by partition."""

    __slots__ = ("_ends", "_firsts", "_partitions", "_topics")

    def __init__(self, topics: Any, partitions: Any, firsts: Any, ends: Any) -> None:
        self._topics = array("I", np.asarray(topics, "u4").tobytes())
        self._partitions = array("i", np.asarray(partitions, "i4").tobytes())
        self._firsts = array("q", np.asarray(firsts, "i8").tobytes())
        self._ends = array("q", np.asarray(ends, "i8").tobytes())

    def __len__(self) -> int:
        return len(self._topics)

    def __iter__(self) -> Iterator[TopicPartition]:
        keys: Any = zip(self._topics, self._partitions, strict=True)
        return keys  # type: ignore[no-any-return]

    def __contains__(self, key: object) -> bool:
        return self._find(key) >= 0

    def __getitem__(self, key: TopicPartition) -> Range:
        at = self._find(key)
        if at < 0:
            raise KeyError(key)
        return self._firsts[at], self._ends[at]

    def get(self, key: Any, default: Any = None) -> Any:
        """As of a dict: without an exception on the way."""
        at = self._find(key)
        return default if at < 0 else (self._firsts[at], self._ends[at])

    def items(self) -> ItemsView[TopicPartition, Range]:
        return _Items(self)

    def walk(self) -> Iterator[tuple[TopicPartition, Range]]:
        """Each partition with its range, without looking any of them up."""
        return zip(self, zip(self._firsts, self._ends, strict=True), strict=True)

    def _find(self, key: Any) -> int:
        """The number of a partition; -1: it is not there."""
        topic, partition = key
        first = bisect_left(self._topics, topic)
        until = bisect_right(self._topics, topic, first)
        at = bisect_left(self._partitions, partition, first, until)
        return at if at < until and self._partitions[at] == partition else -1


class _Items(ItemsView[TopicPartition, Range]):
    """Pairs as they lie in the columns."""

    _mapping: PackedRanges

    def __iter__(self) -> Iterator[tuple[TopicPartition, Range]]:
        return self._mapping.walk()


def ranges_of(rows: Rows) -> PackedRanges:
    """What rows of one segment hold: of each partition they are in order of offset."""
    return PackedRanges(*_bounds(rows))


def pack_ranges(ranges: Ranges) -> PackedRanges:
    """The same ranges, in whatever order they are."""
    keys, offsets = _pairs(ranges), _pairs(ranges.values())
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    return PackedRanges(*keys[order].T, *offsets[order].T)


def _pairs(pairs: Collection[tuple[int, int]]) -> Ints:
    numbers = np.fromiter(chain.from_iterable(pairs), np.int64, 2 * len(pairs))
    return numbers.reshape(-1, 2)


def widen(ranges: dict[TopicPartition, Range], rows: Rows) -> None:
    """Let the ranges reach over these rows, which follow them or are in them."""
    topics, partitions, firsts, ends = (each.tolist() for each in _bounds(rows))
    keys = zip(topics, partitions, strict=True)
    for key, first, end in zip(keys, firsts, ends, strict=True):
        known = ranges.get(key)
        ranges[key] = (first, end) if known is None else (known[0], max(known[1], end))


def _bounds(rows: Rows) -> tuple[Any, Any, Any, Any]:
    """Of each partition of the rows, in their order: topic, partition, first offset,
    and the one behind the last."""
    if not len(rows):
        return rows["topic"], rows["partition"], rows["base"], rows["base"]
    order, bounds = by_partition(rows)
    first, last = order[bounds[:-1]], order[bounds[1:] - 1]
    ends = rows["base"][last] + rows["last_delta"][last] + 1
    return rows["topic"][first], rows["partition"][first], rows["base"][first], ends
