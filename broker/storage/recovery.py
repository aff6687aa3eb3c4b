"""Recovery: what does the disk say that the log is?

Reads the manifest, then every segment that counts. A sealed one is known by its footer;
only what lies behind the checkpoint is read and verified byte by byte, and what is
there is replayed, so that whoever keeps state per partition can rebuild it.

Nothing is repaired here and nothing is deleted. A torn tail is left out of the columns
(it was never acknowledged). Damage in what was acknowledged is told in ``damage``, in
words for people; the batches around it go on being served, and the damaged segment's
file is never used again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from crc32c import crc32c

from broker.records.batch import BatchHeader, read_header
from broker.storage.columns import (
    EntryColumns,
    Rows,
    group,
    join,
    ranges_of,
    rows_of,
)
from broker.storage.entry import (
    ENTRY_HEADER_BYTES,
    TopicPartition,
    location_of,
    read_entry,
)
from broker.storage.files import Files
from broker.storage.horizon import Horizon, read_horizon
from broker.storage.layout import (
    HEADER_BLOCK_BYTES,
    Identity,
    Seal,
    read_identity,
    read_seal,
)
from broker.storage.manifest import (
    Manifest,
    ManifestDamaged,
    read_manifest,
)
from broker.storage.scan import generation_of, is_durable, scan
from broker.storage.segment import Segment, Slot, slot_number

Columns = dict[TopicPartition, EntryColumns]
Replayed = tuple[int, int, BatchHeader, int]


@dataclass(slots=True)
class Recovery:
    """What was found.

    ``payload``: the last checkpoint's, None if there is none. ``columns``: all batches
    of live segments, per partition in order of offset. ``replay``: (topic number,
    partition, header, location) of each batch behind the checkpoint, in order of
    writing. ``torn``: what was cut at the tail and why; ``damage``: what was durable
    and is not whole any more.
    """

    payload: bytes | None = None
    columns: Columns = field(default_factory=dict)
    replay: "Replay | tuple[()]" = ()
    torn: str | None = None
    damage: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Found:
    """The state of the directory, from which the log goes on."""

    manifest: Manifest
    segments: dict[int, Segment] = field(default_factory=dict)
    free: list[Slot] = field(default_factory=list)
    highest_sequence: int = 0
    last_number: int = -1


class Replay:
    """Headers behind the checkpoint, read when they are asked for, not kept."""

    def __init__(self, files: Files, pieces: list[tuple[Segment, Rows]]) -> None:
        self._files = files
        self._pieces = pieces

    def __len__(self) -> int:
        return sum(len(rows) for _, rows in self._pieces)

    def __iter__(self) -> Iterator[Replayed]:
        for segment, rows in self._pieces:
            mapped = self._files.map(segment.slot.file, segment.slot.size)
            try:
                for topic, partition, *_, position, _length in rows.tolist():
                    header = read_header(mapped.view, position)
                    location = location_of(segment.sequence, position)
                    yield topic, partition, header, location
            finally:
                mapped.close()


def recover(files: Files, directory: Path) -> tuple[Found, Recovery]:
    """Read what is there. Raises OSError; never for what the bytes say."""
    recovery = Recovery()
    horizon = read_horizon(files, directory)
    slots = _open_slots(files, directory)
    found = Found(_manifest(files, directory, slots, recovery))
    found.last_number = max((slot.number for slot, _ in slots), default=-1)
    found.highest_sequence = found.manifest.known
    recovery.payload = found.manifest.payload
    for slot, identity in slots:
        _place(slot, identity, found, recovery)
    _find_unnamed(files, horizon, found, recovery)
    _tell_missing(found, horizon, recovery)
    _read_segments(files, found, horizon, recovery)
    return found, recovery


def _open_slots(files: Files, directory: Path) -> list[tuple[Slot, Identity | None]]:
    slots = []
    for name in sorted(files.listdir(directory)):
        number = slot_number(name)
        if number is None:
            continue
        path = directory / name
        file = files.open(path)
        slot = Slot(number, path, file, files.size(file))
        slots.append((slot, read_identity(files.pread(file, HEADER_BLOCK_BYTES, 0))))
    return slots


def _manifest(
    files: Files,
    directory: Path,
    slots: list[tuple[Slot, Identity | None]],
    recovery: Recovery,
) -> Manifest:
    try:
        manifest = read_manifest(files, directory)
    except ManifestDamaged as error:
        aside = directory / "checkpoint.damaged"
        files.rename(directory / "checkpoint", aside)
        recovery.damage.append(f"{error}; put aside as {aside.name}, replaying all")
        return Manifest()
    if manifest is None and any(identity is not None for _, identity in slots):
        # It is written before the first segment is.
        recovery.damage.append("the checkpoint is missing; replaying all")
    return manifest or Manifest()


def _place(
    slot: Slot, identity: Identity | None, found: Found, recovery: Recovery
) -> None:
    """Does the slot hold a segment that counts, or is it free?"""
    if identity is None or not found.manifest.counts(identity.sequence):
        found.free.append(slot)
        return
    sequence = identity.sequence
    found.highest_sequence = max(found.highest_sequence, sequence)
    segment = Segment(sequence, slot, identity.created_ms)
    if slot.size < identity.file_bytes:
        segment.intact = False
        recovery.damage.append(
            f"segment {sequence}: {slot.path.name} has {slot.size} bytes, "
            f"not {identity.file_bytes}"
        )
    found.segments[sequence] = segment


def _find_unnamed(
    files: Files, horizon: Horizon | None, found: Found, recovery: Recovery
) -> None:
    """Free slots that hold a segment all the same: their first sector was damaged.

    A slot that was about to be used when the power went holds none: its entries do not
    count, or nothing says that they were ever durable.
    """
    for slot in found.free.copy():
        if slot.size <= HEADER_BLOCK_BYTES or _is_blank(files, slot):
            continue
        mapped = files.map(slot.file, slot.size)
        try:
            sequence = generation_of(mapped.view, found.manifest.counts)
            durable = sequence and is_durable(mapped.view, sequence)
        finally:
            mapped.close()
        said = horizon is not None and horizon.sequence == sequence
        found.highest_sequence = max(found.highest_sequence, sequence)
        if sequence in found.segments or not (durable or said):
            continue
        found.free.remove(slot)
        found.segments[sequence] = Segment(sequence, slot, 0, intact=False)
        recovery.damage.append(f"segment {sequence}: its first sector is unreadable")


def _is_blank(files: Files, slot: Slot) -> bool:
    """A new file of zeros, or one whose identity is of a segment that was let go."""
    block = files.pread(slot.file, 2 * HEADER_BLOCK_BYTES, 0)
    return read_identity(block) is not None or not any(block)


def _tell_missing(found: Found, horizon: Horizon | None, recovery: Recovery) -> None:
    """Segments that were never let go and are not there."""
    manifest, present = found.manifest, found.segments
    expected = set(manifest.live)
    if manifest.known and present:
        # A start leaves one sequence out, but writes so into the manifest.
        expected |= set(range(manifest.known + 1, max(present) + 1))
    if horizon is not None and horizon.sequence > manifest.known:
        expected.add(horizon.sequence)
    found.highest_sequence = max(found.highest_sequence, *expected, 0)
    for sequence in sorted(expected - present.keys()):
        recovery.damage.append(f"segment {sequence}: its file is missing")


def _read_segments(
    files: Files, found: Found, horizon: Horizon | None, recovery: Recovery
) -> None:
    columns: dict[TopicPartition, list[EntryColumns]] = {}
    replay: list[tuple[Segment, Rows]] = []
    last = max(found.segments, default=0)
    for sequence, segment in sorted(found.segments.items()):
        reader = _SegmentReader(files, segment, recovery)
        durable = horizon.position if horizon and horizon.sequence == sequence else 0
        rows = reader.rows(is_last=sequence == last, durable_end=durable)
        if sequence >= found.manifest.sequence:
            start = found.manifest.position * (sequence == found.manifest.sequence)
            rows = reader.verified(rows, start)
            replay.append((segment, rows[rows["position"] >= start]))
        segment.ranges = ranges_of(rows)
        for key, part in group(rows, sequence).items():
            columns.setdefault(key, []).append(part)
    recovery.columns = {key: join(parts) for key, parts in columns.items()}
    recovery.replay = Replay(files, replay)


class _SegmentReader:
    """Reads one segment; what it finds wrong goes to the recovery's report."""

    def __init__(self, files: Files, segment: Segment, recovery: Recovery) -> None:
        self._files = files
        self._segment = segment
        self._recovery = recovery

    def rows(self, *, is_last: bool, durable_end: int) -> Rows:
        """The footer if the segment is sealed, else what a scan finds."""
        segment = self._segment
        block = self._files.pread(segment.slot.file, HEADER_BLOCK_BYTES, 0)
        seal = read_seal(block, segment.sequence)
        rows = None if seal is None else self._footer(seal, is_last)
        if seal is not None and rows is not None:
            segment.end, segment.sealed = seal.data_end, True
            segment.sealed_at_ms = seal.sealed_at_ms
            return rows
        if seal is None and not is_last:
            self._damage("it has a successor and no readable seal")
        return self._scanned(is_last, durable_end)

    def verified(self, rows: Rows, start: int) -> Rows:
        """Without those from ``start`` on that do not verify, which are reported."""
        segment = self._segment
        if not segment.sealed:
            return rows
        slot = segment.slot
        mapped = self._files.map(slot.file, slot.size)
        good = rows["position"] >= 0
        try:
            for index, position in enumerate(rows["position"].tolist()):
                if position < start:
                    continue
                entry = read_entry(
                    mapped.view, position - ENTRY_HEADER_BYTES,
                    segment.sequence, min(segment.end, slot.size),
                )  # fmt: skip
                if isinstance(entry, str):
                    good[index] = False
                    self._damage(f"byte {position}: {entry or 'no entry is there'}")
        finally:
            mapped.close()
        return rows[good]

    def _footer(self, seal: Seal, is_last: bool) -> Rows | None:
        footer = self._files.pread(
            self._segment.slot.file, seal.footer_bytes, seal.footer_position
        )
        if crc32c(footer) == seal.footer_crc and len(footer) == seal.footer_bytes:
            return rows_of(footer)
        if not is_last:  # else the seal was being written: nothing was promised of it
            self._damage("the footer fails its checksum")
        return None

    def _scanned(self, is_last: bool, durable_end: int) -> Rows:
        segment, slot = self._segment, self._segment.slot
        if slot.size <= HEADER_BLOCK_BYTES:
            return rows_of(b"")
        mapped = self._files.map(slot.file, slot.size)
        try:
            found = scan(
                mapped.view, segment.sequence,
                limit=slot.size, durable_end=durable_end,
            )  # fmt: skip
        finally:
            mapped.close()
        for text in found.damage:
            self._damage(text)
        segment.end, segment.rows = found.end, found.rows
        if is_last:
            self._recovery.torn = found.torn
        elif found.torn is not None:
            self._damage(found.torn)
        return rows_of(bytes(found.rows))

    def _damage(self, text: str) -> None:
        self._segment.intact = False
        name = f"segment {self._segment.sequence}: "
        self._recovery.damage.append(name + text.removeprefix(name))
