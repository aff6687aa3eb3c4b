"""One segment at a start: what is taken of it, and what is wrong with it.

The problem. Whether an entry that does not verify is a torn tail or damage depends on
more than its bytes: whether the segment has a seal and a successor, what the committed
position says of it, and what an earlier start wrote down.

The idea. `SegmentJudgement` gathers that for one segment, reads it up, and says what
counts of it (`FoundSegment`, and the rows). What follows of all of them together is
`recovery`'s.

The price. Each segment behind the checkpoint is read twice: its footer, then its
entries.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from broker.ids import TopicPartition
from broker.storage.columns import Rows, rows_of
from broker.storage.committed_position import CommittedPosition
from broker.storage.entry import location_of
from broker.storage.files import Files
from broker.storage.layout import HEADER_BLOCK_BYTES, Seal
from broker.storage.manifest import Manifest
from broker.storage.ranges import Range, Ranges, ranges_of
from broker.storage.scan import Scan
from broker.storage.segment import Holes, SealedSegment, SegmentInfo, Slot
from broker.storage.segment_file import SegmentFile

POSITION_MAX = (1 << 32) - 1
"""The last byte of the largest segment."""


class LostPlace(NamedTuple):
    """Locations [start, end) where entries were durable, and none can be read now.

    ``damaged``: the bytes are there, and not as they were written.
    """

    start: int
    end: int
    damaged: bool


@dataclass(slots=True, eq=False)
class FoundSegment:
    """What a start found of a segment; one thread reads it up and judges it.

    ``end``, ``ranges`` and ``batches``: as in `SegmentInfo`. ``is_end_known``: nothing
    that counts can have stood behind ``end``. ``is_blank``: it has no entry, not even a
    damaged one. ``scanned``: the footer of one that has no right one; ``holes``: where
    the scan found it damaged.
    """

    sequence: int
    slot: Slot
    created_ms: int
    carried: bool = False
    intact: bool = True
    end: int = HEADER_BLOCK_BYTES
    is_end_known: bool = False
    is_sealed: bool = False
    is_blank: bool = False
    sealed_at_ms: int = 0
    scanned: bytes = b""
    holes: Holes = ()
    batches: int = 0
    ranges: Ranges = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return self.end == HEADER_BLOCK_BYTES

    def sealed(self) -> SealedSegment:
        """The segment as it is from now on."""
        info = SegmentInfo(
            self.sequence, True, self.end, self.ranges, self.created_ms,
            self.sealed_at_ms, self.slot.path, self.intact, self.batches,
        )  # fmt: skip
        return SealedSegment(self.slot, info, self.carried)


class SegmentJudgement:
    """Reads one segment up, once.

    ``damage``: what is wrong with it, in words; ``lost``: where entries were durable
    and none can be read; ``lost_ranges``: offsets of batches that the footer, or an
    entry's header, names and that do not verify; ``unclaimed_below``: the location
    below which there is a place of which neither says all that it held, 0 if there is
    none; ``torn``: what was cut at its tail.
    """

    def __init__(self, files: Files, segment: FoundSegment) -> None:
        self._file = SegmentFile(files, segment.slot.file, segment.sequence)
        self._segment = segment
        self.torn: str | None = None
        self.damage: list[str] = []
        self.lost: list[LostPlace] = []
        self.lost_ranges: dict[TopicPartition, Range] = {}
        self.unclaimed_below = 0

    def rows(
        self, manifest: Manifest, noted: CommittedPosition | None, *, is_last: bool
    ) -> Rows:
        """The footer if the segment is sealed, else what a scan finds. Raises OSError.

        ``noted``: the committed position. ``is_last``: the writer began none behind it.
        """
        segment = self._segment
        extent = manifest.damaged.get(segment.sequence)
        seal = self._file.seal() if extent is None else None
        rows = None if seal is None else self._footer(seal, is_last)
        if seal is not None and rows is not None:
            segment.end, segment.is_sealed = seal.data_end, True
            segment.sealed_at_ms = seal.sealed_at_ms
            return rows
        if seal is None and not is_last:
            self._damage("it has a successor and no readable seal")
        durable_end = _durable_end(noted, segment.sequence)
        limit = segment.slot.size if seal is None else seal.data_end
        if extent is not None:
            limit = durable_end = extent.end
        elif segment.carried or (seal is not None and not is_last):
            durable_end = limit  # it was whole before it was listed, or had a successor
        if noted is not None and noted.final and noted.sequence == segment.sequence:
            limit = min(limit, noted.position)
        segment.is_end_known = is_last or durable_end == limit
        found_before = () if extent is None else extent.holes
        return self._scanned(is_last, durable_end, limit, found_before)

    def verified(self, rows: Rows, start: int) -> Rows:
        """Without those from ``start`` on that do not verify, which are damage.

        Raises OSError."""
        segment = self._segment
        if not segment.is_sealed:
            return rows
        faults = list(self._file.faults(rows, start, segment.end))
        if not faults:
            return rows
        good = np.ones(len(rows), bool)
        for index, why in faults:
            good[index] = False
            position = int(rows["position"][index])
            self._damage(f"byte {position}: {why}")
            self._lose(position, position + 1)
        self.lost_ranges = dict(ranges_of(rows[~good]))
        return rows[good]

    def _footer(self, seal: Seal, is_last: bool) -> Rows | None:
        rows = self._file.footer(seal)
        # That of the last one was being written: nothing was promised of it.
        if rows is None and not is_last:
            self._damage("the footer fails its checksum")
        return rows

    def _scanned(
        self, is_last: bool, durable_end: int, limit: int, holes: Holes
    ) -> Rows:
        found = self._file.scan(
            limit, durable_end=durable_end, holes=holes, is_complete=not is_last
        )
        for text in found.damage:
            self._damage(text)
        for hole in found.holes:
            self._lose(*hole)
        self._segment.end, self._segment.scanned = found.end, bytes(found.rows)
        rows = rows_of(self._segment.scanned)
        for key, base, end, *_ in found.claims:
            end = _end_before_next(rows, key, base, end)
            first, last = self.lost_ranges.get(key, (base, end))
            self.lost_ranges[key] = min(first, base), max(last, end)
        self._segment.holes = tuple(found.holes)
        self._segment.is_blank = found == Scan()
        self.torn = found.torn
        if found.torn is not None and not is_last:
            self._damage(found.torn)
        unclaimed = found.unclaimed_below
        if not self._segment.is_end_known:
            self._lose(found.end, POSITION_MAX)
            unclaimed = POSITION_MAX
        if unclaimed:
            sequence = self._segment.sequence
            self.unclaimed_below = location_of(sequence, unclaimed)
        return rows

    def _lose(self, start: int, end: int) -> None:
        """Entries in the bytes [start, end) cannot be read any more."""
        base = location_of(self._segment.sequence, 0)
        self.lost.append(LostPlace(base + start, base + end, damaged=True))

    def _damage(self, text: str) -> None:
        self._segment.intact = False
        name = f"segment {self._segment.sequence}: "
        self.damage.append(name + text.removeprefix(name))


def _end_before_next(rows: Rows, key: TopicPartition, base: int, end: int) -> int:
    """Where a damaged batch that says it ends at ``end`` ends at most: the next one of
    its partition is whole, and what it says of its records may be damaged."""
    is_next = (rows["topic"] == key[0]) & (rows["partition"] == key[1])
    is_next &= (rows["base"] > base) & (rows["base"] < end)
    return int(rows["base"][is_next].min(initial=end))


def _durable_end(committed_position: CommittedPosition | None, sequence: int) -> int:
    """How far entries of a segment were durable for sure; 0 if none was."""
    end = 0 if committed_position is None else committed_position.durable_end(sequence)
    return end if end > HEADER_BLOCK_BYTES else 0
