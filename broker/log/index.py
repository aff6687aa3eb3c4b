"""Where the batches of a partition lie: five numbers a batch, in columns.

The problem. A partition of a million small batches must be found by offset and by
time, and its sizes summed, while thirty thousand batches a second are added. A million
objects would cost some 200 MB and a pause of the garbage collector each time.

The idea. One ``array`` for each column, appended in step: 44 bytes a batch, no objects,
nothing for the collector to walk. Offsets and positions only grow, so that a binary
search finds a batch by offset; sizes are kept as a running sum beside the lengths, so
that "how many bytes from here to there" and "how far do these bytes reach" are two
look-ups. Timestamps do not grow, and are asked for seldom: they are scanned, at a
million a millisecond.

Batches that are carried into another segment get other locations, in the same order.

The price. Only the front can be dropped, by moving the rest down: linear, and done when
a segment is released, not for each batch.

A location is opaque here but for its order: the segment's sequence in the upper half,
the position of the batch in the lower 32 bits.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

SEQUENCE_SHIFT = 32
SEQUENCE_MAX: Final = (1 << 31) - 1


class Entry(NamedTuple):
    """One batch of the index."""

    base: int
    last: int
    max_timestamp: int
    location: int
    length: int


class Part(NamedTuple):
    """What one segment holds: the offset behind its last batch, bytes, newest time."""

    sequence: int
    end: int
    bytes: int
    max_timestamp: int


class Gap(NamedTuple):
    """Offsets [first, end) between two batches, and the locations of these."""

    first: int
    end: int
    after: int
    before: int


class Span(NamedTuple):
    """A run of batches: where each lies, how long it is, and what comes after.

    ``next_offset`` is that after the last batch; of an empty run, where it begins.
    """

    locations: list[tuple[int, int]]
    next_offset: int
    bytes: int


class BatchIndex:
    """The durable batches of one partition that are still in segments."""

    __slots__ = ("_base", "_dropped", "_end", "_last", "_length", "_location", "_time")

    def __init__(self) -> None:
        self._base = array("q")
        self._last = array("q")
        self._time = array("q")
        self._location = array("q")
        self._length = array("I")
        self._end = array("q")  # bytes up to and with this batch, dropped ones too
        self._dropped = 0

    def __len__(self) -> int:
        return len(self._base)

    def __getitem__(self, at: int) -> Entry:
        return Entry(
            self._base[at],
            self._last[at],
            self._time[at],
            self._location[at],
            self._length[at],
        )

    def __iter__(self) -> Iterator[Entry]:
        return (self[at] for at in range(len(self)))

    @property
    def first_offset(self) -> int | None:
        """Base offset of the first batch; None when there is none."""
        return self._base[0] if self._base else None

    @property
    def end_offset(self) -> int | None:
        """The offset after the last batch; None when there is none."""
        return self._last[-1] + 1 if self._last else None

    @property
    def bytes(self) -> int:
        """Bytes of all batches."""
        return self._end[-1] - self._dropped if self._end else 0

    def append(
        self, base: int, last: int, max_timestamp: int, location: int, length: int
    ) -> None:
        """Add the batch that follows all others, perhaps after a gap."""
        lasts = self._last
        assert base <= last
        if lasts:
            assert base > lasts[-1], "batches come in the order of offsets"
            assert location > self._location[-1], "and of where they lie"
            end = self._end[-1]
        else:
            end = self._dropped
        self._base.append(base)
        lasts.append(last)
        self._time.append(max_timestamp)
        self._location.append(location)
        self._length.append(length)
        self._end.append(end + length)

    def extend(
        self, base: Any, last: Any, max_timestamp: Any, location: Any, length: Any
    ) -> None:
        """Add many, as integer numpy columns of one length; what recovery gives."""
        bases, lasts = np.asarray(base, "i8"), np.asarray(last, "i8")
        locations, lengths = np.asarray(location, "i8"), np.asarray(length, "u4")
        if not len(bases):
            return
        assert bool((bases <= lasts).all())
        assert bool((bases[1:] > lasts[:-1]).all()), "batches in order of offsets"
        assert bool((locations[1:] > locations[:-1]).all()), "and of where they lie"
        assert not self._last or bases[0] > self._last[-1]
        ends = np.cumsum(lengths, dtype="i8") + (
            self._end[-1] if self._end else self._dropped
        )
        for column, values in (
            (self._base, bases),
            (self._last, lasts),
            (self._time, np.asarray(max_timestamp, "i8")),
            (self._location, locations),
            (self._length, lengths),
            (self._end, ends),
        ):
            assert len(values) == len(bases)
            column.frombytes(values.tobytes())

    def find(self, offset: int) -> int:
        """The first batch that ends at ``offset`` or later; ``len`` if none does."""
        if not self._last or offset > self._last[-1]:
            return len(self._last)
        return bisect_left(self._last, offset)

    def segments_around(self, offset: int) -> range:
        """The segments that an offset that no batch has may have been in: none before
        that of the batch below it, nor behind that of the one above."""
        at = self.find(offset)
        low = self._location[at - 1] >> SEQUENCE_SHIFT if at else 0
        is_last = at == len(self)
        high = SEQUENCE_MAX if is_last else self._location[at] >> SEQUENCE_SHIFT
        return range(low, high + 1)

    def holds(self, base_offset: int) -> bool:
        """Whether a batch starts exactly there."""
        at = bisect_left(self._base, base_offset)
        return at < len(self._base) and self._base[at] == base_offset

    def span(
        self,
        at: int,
        bytes_max: int,
        end_offset: int | None = None,
        *,
        at_least_one: bool = False,
    ) -> Span:
        """Batches from number ``at`` on: whole ones, ``bytes_max`` in all.

        Those that start at ``end_offset`` or later are left out. ``at_least_one``
        returns the first batch even if it is too large: the promise of a fetch.
        """
        size = len(self._base)
        if at >= size:
            return Span([], self._last[-1] + 1 if size else 0, 0)
        before = self._end[at] - self._length[at]
        until = bisect_right(self._end, before + bytes_max, at)
        if until == at and at_least_one:
            until = at + 1
        if (
            end_offset is not None
            and until > at
            and self._last[until - 1] >= end_offset
        ):
            until = bisect_left(self._base, end_offset, at, until)
        if until == at:
            return Span([], self._base[at], 0)
        locations = list(
            zip(self._location[at:until], self._length[at:until], strict=True)
        )
        return Span(locations, self._last[until - 1] + 1, self._end[until - 1] - before)

    def bytes_between(self, start: int, end: int) -> int:
        """Bytes of the batches that touch the offsets ``[start, end)``."""
        first, until = self.find(start), bisect_left(self._base, end)
        if first >= until:
            return 0
        return self._end[until - 1] - self._end[first] + self._length[first]

    def parts(self) -> Iterator[Part]:
        """What each segment holds, by sequence; to be asked for at once. Of a thousand
        segments each part is made when it is asked for: mostly the first is enough."""
        if not self._base:
            return
        sequences = np.frombuffer(self._location, "i8") >> SEQUENCE_SHIFT
        starts = np.append(0, np.flatnonzero(np.diff(sequences)) + 1)
        newest = np.maximum.reduceat(np.frombuffer(self._time, "i8"), starts)
        ends = [*starts[1:].tolist(), len(self._base)]
        numbers, stamps = sequences[starts].tolist(), newest.tolist()
        for sequence, at, end, stamp in zip(
            numbers, starts.tolist(), ends, stamps, strict=True
        ):
            size = self._end[end - 1] - self._end[at] + self._length[at]
            yield Part(sequence, self._last[end - 1] + 1, size, stamp)

    def gaps(self) -> list[Gap]:
        """The offsets between two batches that neither of them has."""
        bases, lasts = np.frombuffer(self._base, "i8"), np.frombuffer(self._last, "i8")
        found = np.flatnonzero(bases[1:] > lasts[:-1] + 1).tolist()
        return [
            Gap(
                self._last[at] + 1,
                self._base[at + 1],
                self._location[at],
                self._location[at + 1],
            )
            for at in found
        ]

    def find_timestamp(
        self, timestamp: int, start: int = 0, end: int | None = None
    ) -> int | None:
        """The first batch, from offset ``start`` on and before ``end``, that holds a
        record stamped ``timestamp`` or later; the record in it is for the caller to
        find."""
        first, until = self.find(start), self._until(end)
        late = np.frombuffer(self._time, "i8")[first:until] >= timestamp
        at = int(late.argmax()) if len(late) else 0
        return first + at if len(late) and late[at] else None

    def max_timestamp(self, start: int = 0, end: int | None = None) -> int | None:
        """The first batch with the greatest timestamp, from offset ``start`` on and
        before ``end``."""
        first, until = self.find(start), self._until(end)
        times = np.frombuffer(self._time, "i8")[first:until]
        return first + int(times.argmax()) if len(times) else None

    def _until(self, end: int | None) -> int:
        """The number of the first batch that begins at ``end`` or later."""
        return len(self._base) if end is None else bisect_left(self._base, end)

    def trim_below(self, offset: int) -> int:
        """Drop the batches that end below ``offset``. Returns how many."""
        return self._drop(self.find(offset))

    def release(self, sequence: int) -> int:
        """Drop the batches of segment ``sequence`` and of those before it."""
        return self._drop(bisect_left(self._location, (sequence + 1) << SEQUENCE_SHIFT))

    def part_of(self, sequence: int, offset: int) -> tuple[int, int] | None:
        """Bytes and number of the batches of a segment that reach ``offset``; None: one
        may have been dropped that does."""
        if not self._base or offset < self._base[0]:
            return None
        start = bisect_left(self._location, sequence << SEQUENCE_SHIFT)
        until = bisect_left(self._location, (sequence + 1) << SEQUENCE_SHIFT, start)
        first = max(start, self.find(offset))
        if first >= until:
            return 0, 0
        before = self._end[first] - self._length[first]
        return self._end[until - 1] - before, until - first

    def move(self, old: Any, new: Any, left: Collection[int]) -> int:
        """The batches at the locations ``old`` lie at ``new`` now; both are integer
        columns that ascend, and what lies behind ``old`` lies behind ``new`` as well.

        What else lies in the segments ``left`` comes before these; it is dropped with
        all before it: it is not needed any more. Returns how many batches were dropped.
        Takes as long as what moves, and a release.
        """
        old, new = np.asarray(old, "i8"), np.asarray(new, "i8")
        places = self._location
        first = bisect_left(places, int(old[0])) if len(old) else len(places)
        until = bisect_right(places, int(old[-1]), first) if len(old) else first
        count = max((self._end_of(each, first) for each in left), default=0)
        if first < until:
            found = np.array(places[first:until])
            at = np.searchsorted(old, found)
            assert bool((old[at] == found).all()), "all of these are carried"
            places[first:until] = array("q", new[at].tobytes())
            around = np.array(places[max(count, first - 1) : until + 1])
            assert bool((np.diff(around) > 0).all()), "still in their order"
        return self._drop(count)

    def _end_of(self, sequence: int, until: int) -> int:
        """The number of the batch behind the last of a segment, of those before
        ``until``; 0 if it has none of them."""
        places, first = self._location, sequence << SEQUENCE_SHIFT
        start = bisect_left(places, first, 0, until)
        end = bisect_left(places, first + (1 << SEQUENCE_SHIFT), start, until)
        return end if start < end else 0

    def _drop(self, count: int) -> int:
        if count:
            self._dropped = self._end[count - 1]
            for column in self._columns():
                del column[:count]
        return count

    def _columns(self) -> tuple["array[int]", ...]:
        return (
            self._base,
            self._last,
            self._time,
            self._location,
            self._length,
            self._end,
        )
