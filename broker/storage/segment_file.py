"""One open segment file, read: its header sectors, its footer, its entries.

The problem. A start, the compactor and `lakelog check` ask the same file the same
questions, and must not disagree on what a right footer or a whole entry is. What they
*expect* does differ: a start judges a torn tail, another process looks only up to the
committed position.

The idea. `SegmentFile` answers what the bytes say and judges nothing; who asks decides
what an answer means (`recovery`, `store`).

The price. Nothing is kept: each call reads again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from crc32c import crc32c

from broker.storage import readable
from broker.storage.columns import Rows, rows_of
from broker.storage.entry import ENTRY_HEADER_BYTES, read_entry
from broker.storage.files import Files
from broker.storage.layout import (
    HEADER_BLOCK_BYTES,
    Identity,
    Seal,
    read_identity,
    read_seal,
)
from broker.storage.many_entries import whole
from broker.storage.scan import Scan, scan
from broker.storage.segment import Holes, StaleSegment


def identity_of(files: Files, file: int) -> Identity | None:
    """Whose generation an open file holds; None if its first sector is no identity."""
    return read_identity(readable.read(files, file, HEADER_BLOCK_BYTES, 0))


def named_by(files: Files, file: int) -> int:
    """The sequence that the first sector of an open file names; 0 if none."""
    identity = identity_of(files, file)
    return 0 if identity is None else identity.sequence


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """The generation ``sequence`` of an open ``file``. All methods raise OSError.

    ``named``: what the damaged first sector named when it was found, 0 if nothing; None
    if it was right.
    """

    files: Files
    file: int
    sequence: int
    named: int | None = None

    def seal(self) -> Seal | None:
        """The seal of this generation; None if it is not sealed."""
        block = readable.read(self.files, self.file, HEADER_BLOCK_BYTES, 0)
        return read_seal(block, self.sequence)

    def footer(self, seal: Seal) -> Rows | None:
        """The rows of the footer; None if it fails its checksum."""
        length, position = seal.footer_bytes, seal.footer_position
        footer = readable.read(self.files, self.file, length, position)
        if len(footer) != seal.footer_bytes or crc32c(footer) != seal.footer_crc:
            return None
        return rows_of(footer)

    def scan(
        self,
        limit: int,
        *,
        durable_end: int,
        start: int = HEADER_BLOCK_BYTES,
        holes: Holes = (),
        is_complete: bool = False,
    ) -> Scan:
        """What a walk through the entries in ``[start, limit)`` finds, also in a file
        that was cut off before ``start``. ``holes``, ``is_complete``: as in
        `scan.scan`."""
        size = self.files.size(self.file)
        limit = min(limit, max(size, start))
        if limit <= start and durable_end <= start:
            return Scan(end=start)
        with readable.view(self.files, self.file, min(limit, size), start) as seen:
            return scan(
                seen.bytes, self.sequence, limit=limit, durable_end=durable_end,
                start=start, holes=holes, unread=seen.unread, is_complete=is_complete,
            )  # fmt: skip

    def faults(self, rows: Rows, start: int, end: int) -> Iterator[tuple[int, str]]:
        """The index of each row from byte ``start`` on whose entry does not verify, and
        why. No entry reaches beyond ``end``."""
        end = min(end, self.files.size(self.file))
        with self.view(end, start) as view:
            behind = np.flatnonzero(rows["position"] >= start)
            positions = rows["position"][behind].astype(np.int64)
            doubtful = ~whole(view, positions, self.sequence, end)
            for index in behind[doubtful].tolist():
                place = int(rows["position"][index]) - ENTRY_HEADER_BYTES
                entry = read_entry(view, place, self.sequence, end)
                if isinstance(entry, str):
                    yield index, entry or "no entry is there"

    def check_current(self) -> None:
        """Raise StaleSegment if the file holds another generation by now.

        The identity is written before the first entry of a new generation: what was
        read before this call and verified is of this one.
        """
        expected = self.sequence if self.named is None else self.named
        if named_by(self.files, self.file) != expected:
            raise StaleSegment(self.sequence)

    @contextmanager
    def view(self, size: int, start: int) -> Iterator[memoryview]:
        """The first ``size`` bytes, mapped; nothing before ``start`` is looked at."""
        with readable.view(self.files, self.file, size, start) as seen:
            yield seen.bytes
