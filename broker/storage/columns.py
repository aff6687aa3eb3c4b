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
from collections.abc import Iterable, Sequence
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
Ranges = dict[TopicPartition, tuple[int, int]]


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
    rows = np.concatenate([rows for rows, _ in segments])
    starts = [np.full(len(rows), location_of(n, 0)) for rows, n in segments]
    order, bounds = by_partition(rows)
    columns = _columns(rows[order], np.concatenate(starts)[order])
    if checked:
        follows = columns.base[1:] > columns.last[:-1]
        follows[bounds[1:-1] - 1] = True
        if not bool(follows.all()):
            raise Unordered
    firsts = rows[order[bounds[:-1]]]
    keys = zip(firsts["topic"].tolist(), firsts["partition"].tolist(), strict=True)
    cuts = bounds.tolist()
    return {
        key: columns.cut(first, end)
        for key, first, end in zip(keys, cuts, cuts[1:], strict=False)
    }


def ranges_of(rows: Rows) -> Ranges:
    """Per partition the first offset and the one behind the last."""
    if not len(rows):
        return {}
    order, bounds = by_partition(rows)
    first, last = rows[order[bounds[:-1]]], rows[order[bounds[1:] - 1]]
    ends = last["base"] + last["last_delta"] + 1
    keys = zip(first["topic"].tolist(), first["partition"].tolist(), strict=True)
    offsets = zip(first["base"].tolist(), ends.tolist(), strict=True)
    return dict(zip(keys, offsets, strict=True))


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
    rows = np.concatenate([rows for rows, _ in segments])
    of = np.concatenate([np.full(len(some), n) for some, n in segments])
    order = np.lexsort((of, *(rows[name] for name in reversed(_COPIED))))
    keys, of = rows[_COPIED][order], of[order]
    again = np.flatnonzero(keys[1:] == keys[:-1]) + 1
    found: dict[int, tuple[set[int], bool]] = {}
    for number in np.unique(of[again]).tolist():
        mine = again[of[again] == number]
        earlier = {number}
        while len(mine):
            earlier.update(of[mine - 1].tolist())
            mine = mine[np.isin(mine - 1, again)] - 1
        is_all = int((of[again] == number).sum()) == int((of == number).sum())
        found[number] = earlier - {number}, is_all
    return found


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
    keys = rows["topic"].astype(np.int64) << 32 | rows["partition"].astype(np.int64)
    order = np.argsort(keys, kind="stable")
    cuts = np.flatnonzero(np.diff(keys[order])) + 1
    return order, np.concatenate(([0], cuts, [len(rows)]))


def _columns(rows: Rows, start: Ints) -> EntryColumns:
    """``start``: the location of byte 0 of each row's segment."""
    base = rows["base"].astype(np.int64)
    return EntryColumns(
        base,
        base + rows["last_delta"],
        rows["max_timestamp"].astype(np.int64),
        rows["position"].astype(np.int64) + start,
        rows["length"].astype(np.int64),
    )
