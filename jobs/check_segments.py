"""Every batch of every live segment: its entry, its checksum, its records.

Batches are read where they lie and verified whole; a segment that the broker releases
while we look is left out, because its records are in tables then.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from broker.ids import TopicPartition
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
    sequence_of,
)
from broker.storage.manifest import ManifestDamaged, read_manifest
from broker.storage.missing_segments import runs_of
from broker.storage.open_segment import SegmentBytes
from broker.storage.segment import SegmentInfo, StaleSegment, is_odd
from broker.storage.store import SegmentStore
from jobs.check_report import Report

LOOKS_MAX: Final = 5
"""So often is all looked at again while segments are carried into others."""
_SEGMENT: Final = re.compile(r"segment (\d+)\b")


@dataclass(slots=True)
class SegmentsFound:
    """``ranges``: partition -> [first, end) of each batch, in order. ``is_whole``:
    nothing behind the checkpoint is damaged or lost."""

    ranges: dict[TopicPartition, list[tuple[int, int]]] = field(default_factory=dict)
    is_whole: bool = True


def check_segments(store: SegmentStore, report: Report) -> SegmentsFound:
    """Verify all live segments."""
    found, looked = SegmentsFound(), Report()
    for _ in range(LOOKS_MAX):
        found, looked = SegmentsFound(), Report()
        try:
            infos = store.live()
        except FileNotFoundError:
            return found
        except ManifestDamaged as error:  # nobody knows which segments count
            report.problems.append(str(error))
            return found
        stale = [one.sequence for one in infos if not _add(store, one, found, looked)]
        if not stale or not _was_carried(store, infos):
            break
    for name, number in looked.counts.items():
        report.count(name, number)
    files = {info.sequence: info.path for info in infos}
    report.problems += [
        _with_file(problem, files) for problem in looked.problems + store.damage
    ]
    found.is_whole = not store.damage
    _check_manifest(store, report)
    return found


def _with_file(problem: str, files: Mapping[int, Path]) -> str:
    """The problem with the file of the segment that it names: this to put back."""
    named = _SEGMENT.match(problem)
    path = files.get(int(named[1])) if named else None
    return problem if path is None else f"{problem} (file wal/{path.name})"


def _add(
    store: SegmentStore, info: SegmentInfo, found: SegmentsFound, report: Report
) -> bool:
    """Verify one segment; False if it is not there any more."""
    try:
        columns = store.columns(info.sequence)
        ranges = _check_segment(store, info.sequence, columns, report)
    except StaleSegment:
        report.count("segments_released_meanwhile")
        return False
    report.count("segments")
    for key, some in ranges.items():
        found.ranges.setdefault(key, []).extend(some)
    return True


def _was_carried(store: SegmentStore, infos: list[SegmentInfo]) -> bool:
    """Whether batches of these segments were carried into one that is none of them:
    then all is looked at again, or they would look lost or doubled."""
    known = {info.sequence for info in infos}
    return any(
        info.sequence not in known and is_odd(info.sequence) for info in store.live()
    )


def _check_segment(
    store: SegmentStore,
    sequence: int,
    columns: Mapping[TopicPartition, EntryColumns],
    report: Report,
) -> dict[TopicPartition, list[tuple[int, int]]]:
    ranges: dict[TopicPartition, list[tuple[int, int]]] = {}
    with store.opened(sequence) as segment:
        for key, some in columns.items():
            parts = (some.base, some.last, some.location, some.length)
            for base, last, location, length in zip(
                *(part.tolist() for part in parts), strict=True
            ):
                why = _why_bad(segment, location, length, (base, last))
                if why:
                    segment.check_current()
                    byte = position_of(location) - ENTRY_HEADER_BYTES
                    where = f"{name_of(*key, base)} to {last}, byte {byte}"
                    report.problems.append(f"segment {sequence}: {where}: {why}")
                ranges.setdefault(key, []).append((base, last + 1))
                report.count("batches")
    return ranges


def _why_bad(
    segment: SegmentBytes, location: int, length: int, offsets: tuple[int, int]
) -> str:
    """What is wrong with a batch; empty if nothing is."""
    start = position_of(location) - ENTRY_HEADER_BYTES
    data = memoryview(segment.read_range(start, ENTRY_HEADER_BYTES + length))
    entry = read_entry(data, 0, sequence_of(location), len(data), place=start)
    if not isinstance(entry, Entry):
        return entry or "there is no entry of this segment"
    if (entry.base_offset, entry.base_offset + entry.last_delta) != offsets:
        return "the footer says other offsets than the entry"
    batch = data[ENTRY_HEADER_BYTES : ENTRY_HEADER_BYTES + entry.length]
    try:
        inspect_batch(batch, read_header(batch))
    except KafkaError as error:
        return error.message
    return ""


def _check_manifest(store: SegmentStore, report: Report) -> None:
    """A segment that should be alive and is not there is lost."""
    try:
        manifest = read_manifest(store)
        present = store.sequences() | store.missing  # it has reported these
        missing = manifest.live - present if manifest else ()
        # Released between the two looks: then the newer manifest does not name it.
        again = read_manifest(store) if missing else None
    except ManifestDamaged as error:
        report.problems.append(str(error))
        return
    lost = missing & again.live if missing and again else frozenset()
    for run in runs_of(lost, present):
        verb = "is" if run.is_one else "are"
        report.problems.append(f"{run} {verb} lost")
