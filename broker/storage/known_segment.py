"""A segment as far as a reader of segments has read it.

The problem. Who follows the active segment asks five times a second where its batches
lie, and what is asked for then must cost what is new. Of a thousand sealed segments,
which wait for a compactor, the same columns per partition are a kilobyte of objects for
each partition of each segment, two gigabytes in all, although most are asked for once.

The idea. Batches are put to their partitions as they come only as long as the segment
is read on. Of one that was read to its end columns are made when they are asked for,
out of its footer, which stays where it is: in the file. Packed rows (36 bytes a batch)
are kept of one that has no footer which tells them all.

The price. Rows and columns both, of the one segment that is being written; and a footer
is read once to know what a segment has, and again for its columns.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from broker.ids import TopicPartition
from broker.storage.columns import EntryColumns, Rows, group, join
from broker.storage.layout import HEADER_BLOCK_BYTES, Identity, Seal
from broker.storage.ranges import PackedRanges, Range, pack_ranges, ranges_of
from broker.storage.segment import DamagedExtent, SegmentInfo

Parts = dict[TopicPartition, list[EntryColumns]]


@dataclass(slots=True)
class KnownSegment:
    """What was read, up to ``end``; nothing is read again once it ``is_read``.

    ``is_unnamed``: its file does not say whose it is. ``holes``: bytes [start, end)
    that hold no batch now. ``extent``: as the manifest has it that was read last.
    ``is_in_footer``: its file's footer tells all of its batches, and only that does.
    """

    path: Path
    identity: Identity
    extent: DamagedExtent | None = None
    seal: Seal | None = None
    end: int = HEADER_BLOCK_BYTES
    holes: list[tuple[int, int]] = field(default_factory=list)
    batches: int = 0
    is_read: bool = False
    is_in_footer: bool = False
    is_damaged: bool = False
    is_unnamed: bool = False
    _rows: list[Rows] = field(default_factory=list)
    _parts: Parts = field(default_factory=dict)
    _growing: dict[TopicPartition, Range] = field(default_factory=dict)
    _ranges: PackedRanges | None = None

    @property
    def holds_anything(self) -> bool:
        """Whether there are batches in it, or were."""
        return bool(self.batches or self.holes)

    def info(self) -> SegmentInfo:
        """The segment as others see it now."""
        sealed_at_ms = 0 if self.seal is None else self.seal.sealed_at_ms
        ranges = dict(self._growing) if self._ranges is None else self._ranges
        return SegmentInfo(
            self.identity.sequence, self.seal is not None, self.end, ranges,
            self.identity.created_ms, sealed_at_ms, self.path,
            batches=0 if self.seal is None else self.batches,
        )  # fmt: skip

    def add(self, rows: Rows) -> None:
        """Take in batches that were read behind all others."""
        self.batches += len(rows)
        self._rows.append(rows)
        for key, some in group(rows, self.identity.sequence).items():
            self._parts.setdefault(key, []).append(some)
            first = self._growing.get(key, (int(some.base[0]), 0))[0]
            self._growing[key] = (first, int(some.last[-1]) + 1)

    def take_footer(self, rows: Rows, end: int) -> None:
        """All of it is read, and this is what it holds; the rows are not kept."""
        self.batches, self.end = len(rows), end
        self.is_read = self.is_in_footer = True
        self._ranges, self._rows = ranges_of(rows), []
        self._parts, self._growing = {}, {}

    def finish(self) -> None:
        """Nothing more will be read of it."""
        self.is_read, self._ranges = True, pack_ranges(self._growing)
        if self._rows:
            self._rows = [np.concatenate(self._rows)]
        self._parts, self._growing = {}, {}

    def columns(self, footer: Rows | None = None) -> dict[TopicPartition, EntryColumns]:
        """Where its batches lie; ``footer``: of one that ``is_in_footer``."""
        if footer is not None:
            return group(footer, self.identity.sequence)
        if self.is_read:
            rows = self._rows[0] if self._rows else None
            return {} if rows is None else group(rows, self.identity.sequence)
        self._parts = {key: [join(parts)] for key, parts in self._parts.items()}
        return {key: parts[0] for key, parts in self._parts.items()}
