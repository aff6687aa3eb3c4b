"""Segments as another process sees them: sealed ones, and the active one so far.

The compactor reads what the broker writes, without asking it. It sees a batch only
when it is durable (the horizon says so), and may find that a file was used again since
it looked (the generation says so): then its plan is old, and the records are in
the tables already.

A sealed segment is known by its footer and read once. The active one is walked from
where the last walk ended, so each look costs what is new.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from crc32c import crc32c

from broker.storage.columns import (
    EntryColumns,
    Ranges,
    group,
    join,
    rows_of,
)
from broker.storage.entry import TopicPartition, sequence_of
from broker.storage.files import Files
from broker.storage.horizon import Horizon, read_horizon
from broker.storage.layout import (
    HEADER_BLOCK_BYTES,
    Identity,
    Seal,
    read_identity,
    read_seal,
)
from broker.storage.manifest import Manifest, read_manifest
from broker.storage.scan import read_batch, scan
from broker.storage.segment import SegmentInfo, StaleSegment, slot_number


@dataclass(slots=True)
class _Known:
    """A segment as far as it was read."""

    path: Path
    identity: Identity
    seal: Seal | None = None
    end: int = HEADER_BLOCK_BYTES
    parts: dict[TopicPartition, list[EntryColumns]] = field(default_factory=dict)
    ranges: Ranges = field(default_factory=dict)
    read_to_end: bool = False
    holes: list[tuple[int, int]] = field(default_factory=list)

    def info(self) -> SegmentInfo:
        sealed_at_ms = 0 if self.seal is None else self.seal.sealed_at_ms
        return SegmentInfo(
            self.identity.sequence, self.seal is not None, self.end,
            dict(self.ranges), self.identity.created_ms, sealed_at_ms, self.path,
        )  # fmt: skip

    def add(self, rows: bytes) -> None:
        for key, some in group(rows_of(rows), self.identity.sequence).items():
            self.parts.setdefault(key, []).append(some)
            first = self.ranges[key][0] if key in self.ranges else int(some.base[0])
            self.ranges[key] = (first, int(some.last[-1]) + 1)


class SegmentReader:
    """Looks into ``directory`` (the broker's ``wal``); one thread uses it.

    ``damage``: what was durable and does not verify, in words, as it was met.
    """

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._directory = directory
        self._known: dict[int, _Known] = {}
        self.damage: list[str] = []

    def live(self) -> list[SegmentInfo]:
        """The segments that count now and hold something durable, by sequence.

        Raises OSError.
        """
        # The horizon first: a segment that it has left behind is then seen sealed.
        horizon = read_horizon(self._files, self._directory)
        manifest = read_manifest(self._files, self._directory) or Manifest()
        found: dict[int, _Known] = {}
        for name in self._files.listdir(self._directory):
            if slot_number(name) is None:
                continue
            known = self._look(self._directory / name, manifest, horizon)
            if known is not None:
                found[known.identity.sequence] = known
        self._known = found
        return [known.info() for _, known in sorted(found.items()) if known.ranges]

    def columns(self, sequence: int) -> dict[TopicPartition, EntryColumns]:
        """Where the durable batches of a segment lie, as `live` saw it last.

        Raises StaleSegment if it was not among them.
        """
        known = self._known.get(sequence)
        if known is None:
            raise StaleSegment(sequence)
        known.parts = {key: [join(parts)] for key, parts in known.parts.items()}
        return {key: parts[0] for key, parts in known.parts.items()}

    def holes(self, sequence: int) -> list[tuple[int, int]]:
        """Bytes [start, end) of a segment that were durable and hold no batch now.

        Raises StaleSegment if `live` did not see it.
        """
        known = self._known.get(sequence)
        if known is None:
            raise StaleSegment(sequence)
        return list(known.holes)

    def read(self, location: int, length: int) -> bytes:
        """One batch, verified. Raises StaleSegment, KafkaError CORRUPT_MESSAGE."""
        sequence = sequence_of(location)
        known = self._known.get(sequence)
        if known is None:
            raise StaleSegment(sequence)
        with self._opened(known.path) as file:
            try:
                return read_batch(self._files, file, location, length)
            finally:
                # The identity is written before the first entry of a new generation.
                self._check_current(file, sequence)

    def _look(
        self, path: Path, manifest: Manifest, horizon: Horizon | None
    ) -> _Known | None:
        try:
            with self._opened(path) as file:
                block = self._files.pread(file, HEADER_BLOCK_BYTES, 0)
                identity = read_identity(block)
                if identity is None or not manifest.counts(identity.sequence):
                    return None
                known = self._known.get(identity.sequence) or _Known(path, identity)
                seal = read_seal(block, identity.sequence)
                self._advance(known, file, seal, horizon)
                self._check_current(file, identity.sequence)
                return known
        except (FileNotFoundError, StaleSegment):
            return None

    def _advance(
        self, known: _Known, file: int, seal: Seal | None, horizon: Horizon | None
    ) -> None:
        """Read what is new."""
        if known.read_to_end:
            return
        known.seal = seal
        if seal is not None:
            if known.end == HEADER_BLOCK_BYTES and self._read_footer(known, file, seal):
                return
            self._walk(known, file, seal.data_end)
            known.read_to_end = True
        elif horizon is not None and horizon.sequence == known.identity.sequence:
            self._walk(known, file, horizon.position)
        elif horizon is not None and horizon.sequence > known.identity.sequence:
            # It was damaged when the broker found it, and so was never sealed.
            self._walk(known, file, self._files.size(file), durable=False)
            known.read_to_end = True

    def _read_footer(self, known: _Known, file: int, seal: Seal) -> bool:
        footer = self._files.pread(file, seal.footer_bytes, seal.footer_position)
        if crc32c(footer) != seal.footer_crc or len(footer) != seal.footer_bytes:
            self._report(f"segment {seal.sequence}: the footer fails its checksum")
            return False
        known.add(footer)
        known.end = seal.data_end
        known.read_to_end = True
        return True

    def _walk(
        self, known: _Known, file: int, limit: int, *, durable: bool = True
    ) -> None:
        limit = min(limit, self._files.size(file))
        if limit <= known.end:
            return
        sequence = known.identity.sequence
        mapped = self._files.map(file, limit)
        try:
            found = scan(
                mapped.view, sequence, limit=limit,
                durable_end=limit if durable else 0, start=known.end,
            )  # fmt: skip
        finally:
            mapped.close()
        self._check_current(file, sequence)
        for text in found.damage:
            self._report(text)
        known.holes += found.holes
        known.end = found.end
        known.add(bytes(found.rows))

    def _check_current(self, file: int, sequence: int) -> None:
        block = self._files.pread(file, HEADER_BLOCK_BYTES, 0)
        identity = read_identity(block)
        if identity is None or identity.sequence != sequence:
            raise StaleSegment(sequence)

    def _report(self, text: str) -> None:
        if text not in self.damage:
            self.damage.append(text)

    @contextmanager
    def _opened(self, path: Path) -> Iterator[int]:
        file = self._files.open_read(path)
        try:
            yield file
        finally:
            self._files.close(file)
