"""Batches of one segment that is open for reading, wherever it lies.

The problem. What the compactor and Spark's workers ask of a segment is bytes, and which
batches are markers, not where the file is. The idea. `SegmentBytes` is what they are
given; `OpenSegment` is that of a file. The price. What the disk cannot read comes as
zeros: whoever asks verifies it.
"""

from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from broker.records.kinds import Kinds, verified_kinds_of
from broker.records.markers import MARKER_BYTES
from broker.storage import readable
from broker.storage.columns import Ints
from broker.storage.entry import ENTRY_HEADER_BYTES, Entry, read_entry
from broker.storage.segment_file import SegmentFile


class SegmentBytes(Protocol):
    """One segment, open for reading."""

    def read_range(self, position: int, length: int) -> bytes:
        """A copy of these bytes, not verified; fewer only at the end; zeros for what
        the disk cannot read. Raises OSError."""

    def kinds(self, positions: Ints, lengths: Ints) -> Kinds | None:
        """What the batches at these positions are, in one reading; None if all are
        plain. Markers are verified, and what the disk cannot read may be one: who knows
        what a damaged one ended? All of it is as sure as ``check_current`` says
        afterwards. Raises OSError."""

    def check_current(self) -> None:
        """Raise StaleSegment if what was read may be of another generation."""


@dataclass(frozen=True, slots=True)
class OpenSegment:
    """Ranges of an open file."""

    file: SegmentFile

    def read_range(self, position: int, length: int) -> bytes:
        return readable.read(self.file.files, self.file.file, length, position)

    def kinds(self, positions: Ints, lengths: Ints) -> Kinds | None:
        if not len(positions):
            return None
        files, file = self.file.files, self.file.file
        start = int(positions.min()) - ENTRY_HEADER_BYTES
        ends = positions + np.maximum(lengths, MARKER_BYTES)
        end = min(int(ends.max()), files.size(file))
        with readable.view(files, file, end, start) as view:
            data, unread = view
            is_whole = partial(self._is_whole, data)
            return verified_kinds_of(data, positions, lengths, is_whole, unread)

    def _is_whole(self, view: memoryview, position: int) -> bool:
        """Whether the batch there verifies: what a marker says decides about others."""
        start = position - ENTRY_HEADER_BYTES
        entry = read_entry(view, start, self.file.sequence, len(view))
        return isinstance(entry, Entry)

    def check_current(self) -> None:
        self.file.check_current()
