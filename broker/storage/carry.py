"""Carrying: the few batches that hold old segments, written into one of their own.

The problem. A segment holds batches of many topics, and goes when all of them stand in
tables. One topic whose table takes no commits then holds every segment that has a batch
of it: the disk fills with what others wrote and nobody needs.

The idea. What is still needed of several such segments is copied into one, the carried
segment, off the writer's way, and one manifest lists that one in their place: at any
instant the log is the old ones or the new one. Nothing is appended, so nobody replays
it and no watermark moves. It gets the odd number behind the last of those that it
replaces, so whoever orders batches by where they lie finds them in order still; who
chooses the segments sees to it that nothing of the same partitions lies between.

A batch is copied as it is, after it was verified; its entry is made anew. If anything
is wrong, or does not fit, the new file is removed and all is as before: removed, not
used again, so that there are never two files with the same number.

The price. Each step reads and writes what is carried, a piece and a sync at a time.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from broker.failpoints import passing
from broker.ids import PartitionNumber, TopicNumber, TopicPartition
from broker.storage.active_segment import ActiveSegment
from broker.storage.columns import (
    ROW_BYTES,
    Ints,
    Rows,
    by_partition,
    pack_entry_row,
    rows_of,
)
from broker.storage.entry import (
    ENTRY_HEADER_BYTES,
    location_of,
    moved_head,
    read_entry,
)
from broker.storage.files import Buffer, Files
from broker.storage.layout import HEADER_BLOCK_BYTES
from broker.storage.segment import SealedSegment, Slot
from broker.storage.segment_file import SegmentFile

PIECE_BYTES: Final = 1 << 20
PIECE_ENTRIES: Final = 1_000
NEVER: Final = 1 << 62

Needed = Mapping[TopicPartition, int]
"""Partition -> the offset from which on its batches are needed; of one that is not
named, all are."""


class NotCarried(Exception):
    """It cannot be done, and nothing has changed; says why."""


class SourceDamaged(NotCarried):
    """An entry of segment ``sequence`` does not verify, which had before."""

    def __init__(self, sequence: int, place: int) -> None:
        super().__init__(f"segment {sequence} is damaged at {place}")
        self.sequence = sequence


@dataclass(frozen=True, slots=True)
class Carried:
    """Segment ``sequence`` has replaced ``sequences``, and its ``bytes`` were written.

    ``moves``: per partition the locations of its batches before and now, both
    ascending.
    """

    sequence: int
    sequences: tuple[int, ...]
    bytes: int
    moves: Mapping[TopicPartition, tuple[Ints, Ints]]


@dataclass(frozen=True, slots=True)
class Kept:
    """What is needed of one segment: the rows of its footer, in order of writing."""

    segment: SealedSegment
    rows: Rows


def still_needed(rows: Rows, needed: Needed, *, others_from: int = 0) -> Rows:
    """The rows of batches that hold an offset which is needed. ``others_from``: from
    there on it is of the partitions that are not named."""
    if not len(rows):
        return rows
    order, bounds = by_partition(rows)
    floor = np.zeros(len(rows), np.int64)
    for first, end in pairwise(bounds.tolist()):
        key = _key(rows[order[first]])
        floor[order[first:end]] = needed.get(key, others_from)
    some: Rows = rows[rows["base"] + rows["last_delta"] >= floor]
    return some


def kept_of(files: Files, segment: SealedSegment, needed: Needed) -> Kept:
    """What is needed of a segment. Raises NotCarried, OSError."""
    return Kept(segment, still_needed(_footer_of(files, segment), needed))


def part_of(files: Files, segment: SealedSegment, needed: Needed) -> tuple[int, int]:
    """Bytes and number of the batches that are needed of a segment, of partitions that
    are named alone. Raises NotCarried, OSError."""
    rows = still_needed(_footer_of(files, segment), needed, others_from=NEVER)
    return int(rows["length"].sum(dtype=np.int64)), len(rows)


def _footer_of(files: Files, segment: SealedSegment) -> Rows:
    found = SegmentFile(files, segment.slot.file, segment.sequence)
    seal = found.seal()
    rows = None if seal is None else found.footer(seal)
    if rows is None or not segment.info.intact:
        raise NotCarried(f"segment {segment.sequence} is damaged")
    return rows


def bytes_of(kept: Sequence[Kept]) -> int:
    """How large a file must be that takes all of this."""
    lengths = sum(int(each.rows["length"].sum(dtype=np.int64)) for each in kept)
    batches = sum(len(each.rows) for each in kept)
    return HEADER_BLOCK_BYTES + lengths + batches * (ENTRY_HEADER_BYTES + ROW_BYTES)


def write(
    files: Files, slot: Slot, sequence: int, kept: Sequence[Kept]
) -> Generator[None, None, tuple[SealedSegment, Carried]]:
    """Write the carried segment; yields after each piece. Durable when it returns.

    No manifest lists it yet. Raises NotCarried and OSError: the file must go then.
    """
    sources = [each.segment for each in kept]
    created_ms = min(each.info.created_ms for each in sources)
    active = ActiveSegment(files, slot, sequence, created_ms, carried=True)
    active.identify()
    active.sync()
    passing("carry.begun")
    old: list[int] = []
    for each in kept:
        for some in _pieces(each.rows):
            _copy(files, active, each.segment, some)
            old += [
                location_of(each.segment.sequence, p) for p in some["position"].tolist()
            ]
            yield
    passing("carry.written")
    rows = rows_of(bytes(active.rows))
    segment = active.seal(max(each.info.sealed_at_ms for each in sources))
    slot.written = max(slot.written, active.end)
    passing("carry.sealed")
    numbers = tuple(each.sequence for each in sources)
    moves = _moves(rows, np.asarray(old, np.int64), sequence)
    return segment, Carried(sequence, numbers, active.end, moves)


def _pieces(rows: Rows) -> list[Rows]:
    """The rows, so many at a time that a piece has about ``PIECE_BYTES``."""
    if not len(rows):
        return []
    before = np.cumsum(rows["length"], dtype=np.int64) - rows["length"]
    number = np.maximum(before // PIECE_BYTES, np.arange(len(rows)) // PIECE_ENTRIES)
    return np.split(rows, np.flatnonzero(np.diff(number)) + 1)


def _copy(
    files: Files, active: ActiveSegment, source: SealedSegment, rows: Rows
) -> None:
    """Append these batches of ``source``, and sync."""
    parts: list[Buffer] = []
    footer: list[bytes] = []
    position = active.end
    start = int(rows["position"][0]) - ENTRY_HEADER_BYTES
    limit = int(rows["position"][-1]) + int(rows["length"][-1])
    found = SegmentFile(files, source.slot.file, source.sequence)
    with found.view(limit, start) as view:
        for row in rows:
            place = int(row["position"]) - ENTRY_HEADER_BYTES
            entry = read_entry(view, place, source.sequence, limit)
            if isinstance(entry, str) or entry.base_offset != row["base"]:
                raise SourceDamaged(source.sequence, place)
            head = moved_head(view, entry, active.sequence, position)
            position += ENTRY_HEADER_BYTES
            parts += [head, bytes(view[entry.position : entry.position + entry.length])]
            footer.append(pack_entry_row(entry._replace(position=position)))
            position += entry.length
    files.pwritev(active.slot.file, [b"".join(parts)], active.end)
    active.sync()
    active.add_rows(b"".join(footer))


def _moves(
    rows: Rows, old: Ints, sequence: int
) -> dict[TopicPartition, tuple[Ints, Ints]]:
    new = rows["position"].astype(np.int64) + location_of(sequence, 0)
    order, bounds = by_partition(rows)
    moves = {}
    for first, end in pairwise(bounds.tolist()):
        at = order[first:end]
        moves[_key(rows[at[0]])] = old[at], new[at]
    return moves


def _key(row: Any) -> TopicPartition:
    return TopicNumber(int(row["topic"])), PartitionNumber(int(row["partition"]))
