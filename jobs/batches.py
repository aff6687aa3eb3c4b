"""Batches that lie in segments, as the compactor knows them: columns, not objects.

The problem: a compactor that comes back to fifty gigabytes of log finds a thousand
partitions in each of hundreds of segments, and keeps all of them in mind at once. Four
arrays for each partition of each segment are half a kilobyte, though most hold a few
numbers. The idea: the arrays are a segment's, 20 bytes for each batch, and a partition
has two numbers, where in them it is. Whoever asks for a column gets it as int64, made
then.

The price: that takes half a microsecond at each look, and for many batches more; and
what is kept of one partition keeps the columns of its whole segment. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from broker.ids import TopicPartition
from broker.records.kinds import Kinds
from broker.storage.columns import EntryColumns
from broker.storage.columns import join as columns_of

_POSITION_MASK: Final = 0xFFFFFFFF

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Narrow = npt.NDArray[np.uint32] | Ints


class Places(NamedTuple):
    """Where batches lie, in columns of one length, narrow ones where that is enough.

    ``span``: how far the last offset of a batch is from its first, ``base``.
    """

    base: Ints
    span: Narrow
    position: Narrow
    length: Narrow

    @staticmethod
    def of(base: Ints, last: Ints, position: Ints, length: Ints) -> "Places":
        return Places(base, *map(_narrow, (last - base, position, length)))


def _narrow(column: Ints) -> Narrow:
    """In half of its bytes, if its numbers allow that."""
    small = column.astype(np.uint32)
    return small if bool((small == column).all()) else column


@dataclass(frozen=True, slots=True)
class Batches:
    """Batches of one partition in one segment, in order of offset.

    ``store``: the address of the segment's store, empty if they are not to be read,
    since they are left out (`below_start`). ``first`` and ``stop``: where in ``places``
    they are, which all partitions of a segment have in common: four arrays of its own
    would take each of them half a kilobyte. ``kinds``: what they are, None if all are
    plain. ``counts``: which of them have rows (`decided`), None if all have.
    """

    sequence: int
    store: str
    places: Places
    first: int
    stop: int
    kinds: Kinds | None = None
    counts: Bools | None = None

    @staticmethod
    def all_of(
        sequence: int,
        store: str,
        places: Places,
        kinds: Kinds | None = None,
        counts: Bools | None = None,
    ) -> "Batches":
        """All that lie in ``places``."""
        stop = len(places.base)
        return Batches(sequence, store, places, 0, stop, kinds, counts)

    def __len__(self) -> int:
        return self.stop - self.first

    @property
    def base(self) -> Ints:
        return self.places.base[self.first : self.stop]

    @property
    def last(self) -> Ints:
        return self.base + self.places.span[self.first : self.stop]

    @property
    def position(self) -> Ints:
        return self.places.position[self.first : self.stop].astype(np.int64)

    @property
    def length(self) -> Ints:
        return self.places.length[self.first : self.stop].astype(np.int64)

    def cut(self, start: int, stop: int) -> "Batches":
        """Those from the ``start`` th of them up to the ``stop`` th, not copied."""
        return Batches(
            self.sequence, self.store, self.places,
            self.first + start, self.first + stop,
            None if self.kinds is None else self.kinds.cut(slice(start, stop)),
            None if self.counts is None else self.counts[start:stop],
        )  # fmt: skip

    def counted(self) -> "Batches":
        """Those that have rows."""
        return self if self.counts is None else self.only(self.counts)

    def only(self, some: Bools) -> "Batches":
        """Those of which it is true, copied."""
        columns = (self.base, self.last, self.position, self.length)
        return Batches.all_of(
            self.sequence,
            self.store,
            Places.of(*(column[some] for column in columns)),
            None if self.kinds is None else self.kinds.cut(some),
            None if self.counts is None else self.counts[some],
        )

    def above(self, offset: int) -> "Batches":
        """Those that hold anything at ``offset`` or above."""
        return self.cut(int(np.searchsorted(self.last, offset)), len(self))


_SAME: Final = tuple(range(1 << 14))


def _one_of(number: int) -> int:
    """The same object for a number each time, if it is small: 28 bytes that all
    segments share."""
    return _SAME[number] if number < len(_SAME) else number


def batches_of(
    sequence: int, store: str, columns: Mapping[TopicPartition, EntryColumns]
) -> dict[TopicPartition, Batches]:
    """What a segment has, of each partition that has anything there."""
    some = {key: part for key, part in columns.items() if len(part)}
    if not some:
        return {}
    whole = columns_of(some.values())
    position = np.bitwise_and(whole.location, _POSITION_MASK)
    places = Places.of(whole.base, whole.last, position, whole.length)
    bounds = map(_one_of, np.cumsum([0, *map(len, some.values())]).tolist())
    return {
        key: Batches(sequence, store, places, first, stop)
        for key, (first, stop) in zip(some, pairwise(bounds), strict=True)
    }
