"""What the segments and their checkpoint say of topics, which they know by number.

The problem: records that no table has yet lie in segments, and so do transactions that
are open, whose coordinator forgot them with the catalog. The idea: the log is read by
the very recovery that a start of the broker goes by, on files that take no change, and
partitions are restored of it as that start will do.

The price: each batch behind the checkpoint is read; and where a transaction is open,
what may be a marker behind its beginning.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from broker.ids import ProducerId, TopicNumber, TopicPartition
from broker.log import checkpoint
from broker.log.partition import LogSnapshot, PartitionLog
from broker.log.restoring import restore_log
from broker.protocol.errors import KafkaError
from broker.records.batch import read_header
from broker.records.markers import MARKER_BYTES, read_marker
from broker.runtime.rebuilding.orphans import OpenPart, SeenMarker
from broker.storage.entry import position_of, sequence_of
from broker.storage.files import Files, PosixFiles
from broker.storage.recovery import Found, Recovery, recover

Place = tuple[int, int]
"""Where a partition's log starts, and where its table ends."""


class UnchangedFiles(PosixFiles):
    """Files as they are: the recovery would move a damaged checkpoint aside."""

    def rename(self, old: Path, new: Path) -> None:
        """Nothing is moved: the next start will do it."""


class FoundLog(NamedTuple):
    """The log as a start would find it. ``held``: partition -> [first offset, end) of
    the batches in segments; ``ends``: partition -> where it ends, as segments and
    checkpoint say; ``damage``: what is not whole any more."""

    held: dict[TopicPartition, Place]
    ends: dict[TopicPartition, int]
    damage: list[str]
    found: Found | None = None
    recovery: Recovery = Recovery()
    snapshots: Mapping[TopicPartition, LogSnapshot] | None = None

    @property
    def numbers(self) -> set[TopicNumber]:
        """The topics that it names."""
        return {number for number, _ in self.ends}


class Orphans(NamedTuple):
    """What only the catalog knew more of: transactions that are open, by partition,
    the markers behind them, and the greatest producer id that was seen (-1: none)."""

    open: list[OpenPart]
    markers: list[SeenMarker]
    producer_id_max: int


@contextmanager
def found_log(directory: Path, files: Files | None = None) -> Iterator[FoundLog]:
    """The log in ``directory``, which need not be there, as long as the context is
    open. Blocks. Raises OSError."""
    files = files or UnchangedFiles()
    if not directory.is_dir():
        yield FoundLog({}, {}, [])
        return
    found, recovery = recover(files, directory)
    try:
        yield _as_found(found, recovery)
    finally:
        for slot in _slots(found):
            files.close(slot)


def _slots(found: Found) -> Iterator[int]:
    yield from (slot.file for slot in (*found.free, *found.unlisted))
    yield from (segment.slot.file for segment in found.segments.values())


def _as_found(found: Found, recovery: Recovery) -> FoundLog:
    held = {
        key: (int(columns.base[0]), int(columns.last[-1]) + 1)
        for key, columns in recovery.columns.items()
        if len(columns)
    }
    damage, snapshots = list(recovery.damage), None
    if recovery.payload is not None:
        try:
            snapshots = checkpoint.unpack(recovery.payload)
        except ValueError as error:
            damage.append(str(error))
    ends = {key: end for key, (_, end) in held.items()}
    for key, snapshot in (snapshots or {}).items():
        ends[key] = max(ends.get(key, 0), snapshot.durable)
    return FoundLog(held, ends, damage, found, recovery, snapshots)


def find_orphans(
    log: FoundLog, places: Mapping[TopicPartition, Place], now_ms: int
) -> Orphans:
    """What is open in these partitions, and the ids of producers. Blocks."""
    logs = {key: _log_of(log, key, place) for key, place in places.items()}
    newest = -1
    for one in log.recovery.replay.of_producers():
        newest = max(newest, one.header.producer_id)
        restored = logs.get((one.topic_number, one.partition))
        if restored is not None:
            restored.replay(one.header, now_ms, one.marker)
    open_ = []
    for key, restored in logs.items():
        known = [p.producer_id for p in restored.producers.active(restored.durable)]
        newest = max(newest, *known, -1)
        for producer_id, first in restored.transactions.open.items():
            epoch = restored.producers.epoch(producer_id)
            location = _location_of(log, key, first)
            open_.append(OpenPart(producer_id, epoch or 0, key, first, location))
    return Orphans(open_, list(_markers(log, open_)), newest)


def _log_of(log: FoundLog, key: TopicPartition, place: Place) -> PartitionLog:
    """A partition as a start restores it (`broker.runtime.partitions.restore`)."""
    known, recovery = log.snapshots, log.recovery
    unnamed = None if known is None else PartitionLog().snapshot()
    found = recovery.columns.get(key)
    columns = found and SimpleNamespace(
        base=found.base,
        last=found.last,
        max_ts=found.max_timestamp,
        location=found.location,
        length=found.length,
    )
    return restore_log(
        (known or {}).get(key, unnamed),
        start=place[0],
        table_end=place[1],
        columns=columns,
        places=recovery.lost,
        replayed_from=recovery.replayed_from,
        lost_end=recovery.lost_ends.get(key, 0),
    )


def _location_of(log: FoundLog, key: TopicPartition, offset: int) -> int | None:
    """Where the batch of an offset lies; None: in no segment."""
    columns = log.recovery.columns.get(key)
    if columns is None:
        return None
    at = int(np.searchsorted(columns.base, offset, side="right")) - 1
    if at < 0 or offset > columns.last[at]:
        return None
    return int(columns.location[at])


def _markers(log: FoundLog, open_: Iterable[OpenPart]) -> Iterator[SeenMarker]:
    """The markers of these producers that lie behind what is open of the first."""
    wanted = {part.producer_id for part in open_}
    locations = [part.location for part in open_ if part.location is not None]
    if not locations or log.found is None:
        return
    candidates = []
    for key, columns in log.recovery.columns.items():
        is_one = (columns.length == MARKER_BYTES) & (columns.location > min(locations))
        candidates += [(int(at), key) for at in columns.location[is_one]]
    for location, key in sorted(candidates):
        marker = _marker_at(log.found, location, key, wanted)
        if marker is not None:
            yield marker


def _marker_at(
    found: Found, location: int, key: TopicPartition, wanted: set[ProducerId]
) -> SeenMarker | None:
    slot = found.segments[sequence_of(location)].slot
    data = PosixFiles().pread(slot.file, MARKER_BYTES, position_of(location))
    try:
        header = read_header(data)
        if not header.is_control or header.producer_id not in wanted:
            return None
        commits = read_marker(data).commit
    except KafkaError:
        return None
    return SeenMarker(header.producer_id, header.producer_epoch, key, location, commits)
