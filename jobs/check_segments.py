"""Every batch of every live segment: its entry, its checksum, its records.

Batches are read where they lie and verified whole; a segment that the broker lets go
while we look is left out, because its records are in tables then.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from broker.protocol.errors import KafkaError
from broker.records.batch import read_header
from broker.records.inspect import inspect_batch
from broker.storage.columns import EntryColumns
from broker.storage.entry import (
    ENTRY_HEADER_BYTES,
    Entry,
    name_of,
    position_of,
    read_entry,
)
from broker.storage.files import PosixFiles
from broker.storage.layout import HEADER_BLOCK_BYTES, read_identity
from broker.storage.manifest import ManifestDamaged, read_manifest
from broker.storage.reader import SegmentReader
from broker.storage.segment import SegmentInfo, StaleSegment, slot_number
from jobs.planner import TopicPartition


class Counter(Protocol):
    """What is used of `jobs.check.Report`."""

    problems: list[str]

    def count(self, name: str, number: int = 1) -> None: ...


@dataclass(slots=True)
class SegmentsFound:
    """Partition -> [first, end) of each batch, in order."""

    ranges: dict[TopicPartition, list[tuple[int, int]]] = field(default_factory=dict)


def check_segments(directory: Path, report: Counter) -> SegmentsFound:
    """Verify all live segments."""
    found = SegmentsFound()
    if not directory.is_dir():
        return found
    files = PosixFiles()
    reader = SegmentReader(files, directory)
    infos = sorted(reader.live(), key=lambda info: info.sequence)
    for info in infos:
        try:
            columns = reader.columns(info.sequence)
            ranges = _check_segment(files, info, columns, report)
        except (StaleSegment, FileNotFoundError):
            report.count("segments_let_go_meanwhile")
            continue
        report.count("segments")
        for key, some in ranges.items():
            found.ranges.setdefault(key, []).extend(some)
    report.problems += reader.damage
    _check_manifest(files, directory, report)
    return found


def _check_segment(
    files: PosixFiles,
    info: SegmentInfo,
    columns: Mapping[TopicPartition, EntryColumns],
    report: Counter,
) -> dict[TopicPartition, list[tuple[int, int]]]:
    file = files.open_read(info.path)
    try:
        mapped = files.map(file, files.size(file))
    finally:
        files.close(file)
    ranges: dict[TopicPartition, list[tuple[int, int]]] = {}
    for key, some in columns.items():
        positions = [position_of(location) for location in some.location.tolist()]
        for base, last, position in zip(
            some.base.tolist(), some.last.tolist(), positions, strict=True
        ):
            why = _why_bad(mapped.view, info.sequence, position, base, last)
            if why:
                _check_still_there(mapped.view, info.sequence)
                where = name_of(*key, base)
                report.problems.append(f"segment {info.sequence}: {where}: {why}")
            ranges.setdefault(key, []).append((base, last + 1))
            report.count("batches")
    return ranges


def _check_still_there(view: memoryview, sequence: int) -> None:
    identity = read_identity(view[:512])
    if identity is None or identity.sequence != sequence:
        raise StaleSegment(sequence)


def _why_bad(
    view: memoryview, sequence: int, position: int, base: int, last: int
) -> str:
    """What is wrong with a batch; empty if nothing is."""
    entry = read_entry(view, position - ENTRY_HEADER_BYTES, sequence, len(view))
    if not isinstance(entry, Entry):
        return entry or "there is no entry of this segment"
    if (entry.base_offset, entry.base_offset + entry.last_delta) != (base, last):
        return "the footer says other offsets than the entry"
    batch = view[position : position + entry.length]
    try:
        inspect_batch(batch, read_header(batch))
    except KafkaError as error:
        return error.message
    return ""


def _check_manifest(files: PosixFiles, directory: Path, report: Counter) -> None:
    """A segment that should be alive and is not on disk is lost."""
    try:
        manifest = read_manifest(files, directory)
        missing = manifest.live - _on_disk(files, directory) if manifest else ()
        # Let go between the two looks: then the newer manifest does not name it.
        again = read_manifest(files, directory) if missing else None
    except ManifestDamaged as error:
        report.problems.append(str(error))
        return
    for sequence in sorted(missing):
        if again is not None and sequence in again.live:
            report.problems.append(f"segment {sequence} is lost")


def _on_disk(files: PosixFiles, directory: Path) -> set[int]:
    found = set()
    for name in files.listdir(directory):
        if slot_number(name) is None:
            continue
        file = files.open_read(directory / name)
        try:
            identity = read_identity(files.pread(file, HEADER_BLOCK_BYTES, 0))
        finally:
            files.close(file)
        if identity is not None:
            found.add(identity.sequence)
    return found
