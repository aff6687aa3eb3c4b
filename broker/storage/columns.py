"""Where the batches of a segment lie: columns, not objects.

The problem. A segment of small batches has half a million entries. One object each
would cost a hundred megabytes and seconds; a scan of the segment reads all of it.

The idea. One packed row of 36 bytes per entry, collected while writing and put behind
the entries as the footer when the segment is sealed. Reading it is one
``numpy.frombuffer``; grouping by partition is one stable sort, at a start one for the
rows of all segments together.

The price. The footer takes its room from the segment: 36 bytes per entry, which is a
fifth for the smallest batches there are and nothing for those of a busy producer.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from broker.ids import TopicPartition
from broker.storage.entry import Append, Entry, location_of

ROW: Final = struct.Struct("<IiqiqII")
ROW_BYTES: Final = ROW.size
ROW_TYPE: Final = np.dtype(
    [
        ("topic", "<u4"),
        ("partition", "<i4"),
        ("base", "<i8"),
        ("last_delta", "<i4"),
        ("max_timestamp", "<i8"),
        ("position", "<u4"),
        ("length", "<u4"),
    ]
)
Rows = npt.NDArray[np.void]
Ints = npt.NDArray[np.int64]


_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_MASK: Final = np.uint64((1 << 32) - 1)
_COPIED: Final = ["topic", "partition", "base", "last_delta", "max_timestamp", "length"]
"""What a batch and its copy have in common."""


class Unordered(Exception):
    """A batch of a partition does not follow the one that lies before it."""


@dataclass(frozen=True, slots=True)
class EntryColumns:
    """The batches of one partition in order of offset; all columns of one length.

    ``max_timestamp`` in milliseconds; ``location`` as `location_of` makes it;
    ``length`` in bytes of the batch.
    """

    base: Ints
    last: Ints
    max_timestamp: Ints
    location: Ints
    length: Ints

    def __len__(self) -> int:
        return len(self.base)

    def cut(self, first: int, end: int) -> "EntryColumns":
        """Those from ``first`` up to ``end``, not copied."""
        return EntryColumns(
            self.base[first:end],
            self.last[first:end],
            self.max_timestamp[first:end],
            self.location[first:end],
            self.length[first:end],
        )


def pack_row(append: Append, position: int, length: int) -> bytes:
    return ROW.pack(
        append.topic_number, append.partition, append.base_offset,
        append.last_offset - append.base_offset, append.max_timestamp,
        position, length,
    )  # fmt: skip


def pack_entry_row(entry: Entry) -> bytes:
    return ROW.pack(*entry[:7])


def rows_of(footer: bytes | bytearray | memoryview) -> Rows:
    """The rows of a footer, in the order in which they were written."""
    return np.frombuffer(footer, dtype=ROW_TYPE)


def group(rows: Rows, sequence: int) -> dict[TopicPartition, EntryColumns]:
    """The rows of one segment, a set of columns per partition."""
    return group_all([(rows, sequence)])


def group_all(
    segments: Sequence[tuple[Rows, int]], *, checked: bool = False
) -> dict[TopicPartition, EntryColumns]:
    """The rows of segments, each with its sequence, in order; columns per partition.

    One sort for all of them: what is done per partition is to cut, once. ``checked``:
    raises Unordered if a batch is there twice.
    """
    segments = [(rows, sequence) for rows, sequence in segments if len(rows)]
    if not segments:
        return {}
    parts = [rows for rows, _ in segments]
    packed = np.concatenate([_keys(rows) for rows in parts])
    order, bounds = _by_key(packed)
    columns = _columns(parts, [location_of(number, 0) for _, number in segments], order)
    if checked:
        follows = columns.base[1:] > columns.last[:-1]
        follows[bounds[1:-1] - 1] = True
        if not bool(follows.all()):
            raise Unordered
    firsts = packed[order[bounds[:-1]]]
    keys = zip((firsts >> 32).tolist(), (firsts & _MASK).tolist(), strict=True)
    cuts = bounds.tolist()
    return {
        key: columns.cut(first, end)
        for key, first, end in zip(keys, cuts, cuts[1:], strict=False)
    }


def join(parts: Iterable[EntryColumns]) -> EntryColumns:
    """The same partition's columns of several segments, in that order."""
    chain = list(parts)
    if len(chain) == 1:
        return chain[0]
    return EntryColumns(
        np.concatenate([part.base for part in chain]),
        np.concatenate([part.last for part in chain]),
        np.concatenate([part.max_timestamp for part in chain]),
        np.concatenate([part.location for part in chain]),
        np.concatenate([part.length for part in chain]),
    )


def copies_of(segments: Sequence[tuple[Rows, int]]) -> dict[int, tuple[set[int], bool]]:
    """Sequence -> the earlier ones of these segments (rows, sequence) with which it has
    batches in common, and whether it has no others; of each that has any."""
    copied = [(rows[mask], n) for (rows, n), mask in _maybe_copied(segments)]
    rows = np.concatenate([rows for rows, _ in copied])
    of = np.concatenate([np.full(len(some), n) for some, n in copied])
    order = np.lexsort((of, *(rows[name] for name in reversed(_COPIED))))
    keys, of = rows[_COPIED][order], of[order]
    again = np.flatnonzero(keys[1:] == keys[:-1]) + 1
    sizes = {number: len(rows) for rows, number in segments}
    found: dict[int, tuple[set[int], bool]] = {}
    for number in np.unique(of[again]).tolist():
        mine = again[of[again] == number]
        is_all = len(mine) == sizes[number]
        earlier = {number}
        while len(mine):
            earlier.update(of[mine - 1].tolist())
            mine = mine[np.isin(mine - 1, again)] - 1
        found[number] = earlier - {number}, is_all
    return found


def _maybe_copied(
    segments: Sequence[tuple[Rows, int]],
) -> Iterator[tuple[tuple[Rows, int], npt.NDArray[np.bool_]]]:
    """Each of these segments, and which of its rows may be there twice: of few rows
    that is so where hardly any is a copy, and only these are compared field by field.
    """
    sums = [_mixed(rows) for rows, _ in segments]
    ordered = np.sort(np.concatenate(sums))
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    for segment, mine in zip(segments, sums, strict=True):
        at = np.searchsorted(twice, mine)
        mask = at < len(twice)
        mask[mask] = twice[at[mask]] == mine[mask]
        yield segment, mask


def _mixed(rows: Rows) -> npt.NDArray[np.uint64]:
    """One number of all that a batch and its copy have in common."""
    mixed = np.zeros(len(rows), np.uint64)
    for name in _COPIED:
        mixed = (mixed ^ rows[name].astype(np.uint64)) * _FACTOR
        mixed ^= mixed >> np.uint64(29)
    return mixed


def newest_copies(segments: Sequence[tuple[Rows, int]]) -> list[Rows]:
    """The rows of each of these segments (rows, sequence), one row for each batch.

    Of a batch that several hold the last of them keeps it that lies before all batches
    of higher offsets: of a copy that was not finished the first batches alone are
    there. What lies behind these in each of them is left out: that is so only with
    what was released long ago.
    """
    rows = np.concatenate([rows for rows, _ in segments])
    starts = [np.full(len(some), location_of(n, 0)) for some, n in segments]
    location = rows["position"].astype(np.int64) + np.concatenate(starts)
    order, bounds = by_partition(rows)
    keep = np.zeros(len(rows), bool)
    for first, end in pairwise(bounds.tolist()):
        at = order[first:end]
        at = at[np.lexsort((location[at], rows["base"][at]))]
        keep[at[_newest_in_order(rows["base"][at], location[at])]] = True
    cuts = np.cumsum([len(some) for some, _ in segments])[:-1]
    return [
        some[mask]
        for (some, _), mask in zip(segments, np.split(keep, cuts), strict=True)
    ]


def _newest_in_order(bases: Ints, locations: Ints) -> list[int]:
    """Of rows that ascend by base and location, which are kept: one for each base."""
    kept: list[int] = []
    least, base = 1 << 63, -1
    rows = zip(bases[::-1].tolist(), locations[::-1].tolist(), strict=True)
    for number, (its_base, location) in enumerate(rows, 1):
        if its_base != base and location < least:
            kept.append(len(bases) - number)
            least, base = location, its_base
    return kept


def by_partition(rows: Rows) -> tuple[Ints, Ints]:
    """The order of the rows by partition, and where in it each one begins and ends."""
    return _by_key(_keys(rows))


def _keys(rows: Rows) -> npt.NDArray[np.uint64]:
    """The partition of each row as one number."""
    partition = rows["partition"].astype(np.uint32)
    return rows["topic"].astype(np.uint64) << np.uint64(32) | partition


def _by_key(keys: npt.NDArray[np.uint64]) -> tuple[Ints, Ints]:
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    cuts = np.flatnonzero(keys[1:] != keys[:-1]) + 1
    return order, np.concatenate(([0], cuts, [len(keys)]))


def _columns(parts: Sequence[Rows], starts: Sequence[int], order: Ints) -> EntryColumns:
    """The rows of all ``parts`` in this ``order``, a field at a time: not all of them
    are there twice. ``starts``: the location of byte 0 of each part's segment."""

    def field(name: str) -> Ints:
        return np.concatenate([rows[name] for rows in parts], dtype=np.int64)

    base = field("base")[order]
    start = np.repeat(np.array(starts, np.int64), [len(rows) for rows in parts])
    return EntryColumns(
        base,
        base + field("last_delta")[order],
        field("max_timestamp")[order],
        (field("position") + start)[order],
        field("length")[order],
    )
