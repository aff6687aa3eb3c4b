"""Merging, as the compactor's step sees it: look, begin, and commit what is done.

The problem: tables get a file of each partition every few seconds, and nobody may wait
for those to become few: neither records on their way into tables nor their readers. The
idea: one merge at a time is written by a worker of the lowest priority, while rounds go
on (`background`); what is read and judged of tables is read from the snapshots that the
step follows anyway, and commits are made by the step, one at a time with those of
rounds. A merge that comes to nothing (an owner changed a file, a row is odd) leaves all
as it was; it is tried again later, and told.

Nothing begins while records are late for their tables. A table is looked at again when
it has so many more files that one could be made of them, or after a minute.

The price: a look costs a millisecond for a thousand files.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from broker.clock import Clock
from broker.failpoints import passing
from broker.ids import TopicNumber, TopicPartition
from broker.settings import LakeSettings
from broker.topics.configs import (
    AS_THE_LOG,
    FOR_EVER,
    LAKE_RETENTION_MS,
    TopicConfig,
    value,
    waits_for_table,
)
from broker.topics.topic import Topic
from jobs.looks import Looks
from jobs.merging import plan
from jobs.merging.background import Runner
from jobs.merging.names import mark_of, merged_name, span_of, written_with
from jobs.merging.order import WHOLE_ROWS_MAX
from jobs.merging.plan import NOTHING_BELOW, Below, Merge, Rules
from jobs.merging.rewrite import Merged, MergeTask
from jobs.round import delete_unnamed
from jobs.rows import Failed, Written
from jobs.slot import Find, Job, Slot
from jobs.status import Counters
from jobs.tables import Table
from lakehouse.errors import CommitRefused, LakehouseError
from lakehouse.files.footers import WHOLE_BYTES_MAX as WHOLE_BYTES
from lakehouse.files.parquet_footer import read_groups
from lakehouse.location import path_inside
from lakehouse.log.actions import DataFile, Metadata
from lakehouse.log.commit import replace_files
from lakehouse.log.ours import why_not_merged
from lakehouse.new_file import NewFile
from lakehouse.owners_columns import all_columns

LOOK_AGAIN_MS: Final = 60_000
LOOK_BELOW_MS: Final = 600_000
"""So often a table that keeps rows longer than the log is looked at, also if nothing
was committed: the log's start moves on all the same."""
BARRED_MS: Final = 3_600_000
PAUSE_MS_MAX: Final = 3_600_000
BARRED_MAX: Final = 10_000
RETENTION_SHARE: Final = 8
REPORTED_MAX: Final = 100

_Merging = Job[Merge, MergeTask]

log = structlog.get_logger("lakelog.compactor")


@dataclass(slots=True)
class _Looked:
    """When nothing was found in a table, or it failed, and how it was then."""

    version: int
    files: int
    at_ms: int
    pause_ms: int = 0


class _Said(NamedTuple):
    """What the catalog says, each asked of it once in a look, and if it is wanted."""

    defaults: Callable[[], Mapping[str, str]]
    log_starts: Callable[[], Mapping[TopicPartition, int]]


@dataclass(slots=True)
class Merger:
    """Called by the compactor's step alone."""

    settings: LakeSettings
    runner: Runner
    clock: Clock
    counters: Counters
    spill: Path
    committed: Callable[[Table], None] = lambda table: None
    """Called after each commit of a merge."""
    suspect: Callable[[Iterable[TopicNumber]], None] = lambda numbers: None
    """Hears of topics whose tables may have files that no commit will name."""
    defaults: Callable[[], Mapping[str, str]] = dict
    """What holds for topics that do not say it themselves; read once in a look."""
    log_starts: Callable[[], Mapping[TopicPartition, int]] = dict
    """Of all partitions; read once in a look, if a table keeps rows longer than the
    log."""
    slot: Slot[Merge, MergeTask] = field(init=False)
    _looked: dict[TopicNumber, _Looked] = field(default_factory=dict)
    _tables_alone: dict[TopicNumber, str] = field(default_factory=dict)
    _files_alone: dict[TopicNumber, tuple[str, int]] = field(default_factory=dict)
    _barred: dict[str, int] = field(default_factory=dict)
    _partition: dict[TopicNumber, int] = field(default_factory=dict)
    _looks: Looks = field(init=False)

    def __post_init__(self) -> None:
        self._looks = Looks(self.clock)
        self.slot = Slot(self.runner, self.clock)

    @property
    def left_alone(self) -> dict[TopicNumber, str]:
        """Topic number -> why files of its table stay as they are; not all if many."""
        now_ms = self.clock.monotonic_ms()
        odd = self._files_alone.items()
        files = {number: why for number, (why, until_ms) in odd if now_ms < until_ms}
        return dict(list((files | self._tables_alone).items())[:REPORTED_MAX])

    @property
    def writing(self) -> str | None:
        """What the names of the files have that no commit names yet."""
        job = self.slot.job
        return None if job is None else written_with(job.task.path)

    def finish(self, find: Find, may_commit: Callable[[], bool]) -> None:
        """Commit the merge that is under way, if it is done. ``find``: a table as it is
        followed now; None: it is not."""
        ended = self.slot.take()
        if ended is None:
            return
        job, done = ended
        self._looks.soon()
        if isinstance(done, Failed):
            self._failed(job, done)
            return
        assert isinstance(done, Merged), "what was asked for"
        passing("merge.after_file")
        table = find(job.table.topic.number)
        if table is None or table.topic.id != job.table.topic.id or not may_commit():
            delete_unnamed(job.table.path, _paths(done))
        else:
            self._commit(replace(job, table=table), done)

    def look(self, tables: Iterable[Table], is_late: bool) -> None:
        """Begin a merge if one is due and none is under way."""
        if self.slot.is_busy or is_late or not self.settings.merge:
            return
        said = _Said(cache(self.defaults), cache(self.log_starts))
        found = self._looks.first(tables, self._is_due, partial(self._find, said))
        if found is not None:
            self._begin(*found)

    def keep(self, numbers: Iterable[TopicNumber]) -> None:
        """Forget all other topics: they were deleted."""
        kept = set(numbers)
        for gone in self._looked.keys() - kept:
            del self._looked[gone]
            self._tables_alone.pop(gone, None)
            self._files_alone.pop(gone, None)
            self._partition.pop(gone, None)

    def _is_due(self, table: Table) -> bool:
        known = self._looked.get(table.topic.number)
        if known is None:
            return True
        waited_ms = self.clock.monotonic_ms() - known.at_ms
        if known.pause_ms:
            return waited_ms >= known.pause_ms
        snapshot = table.snapshot
        if len(snapshot.files) >= known.files + plan.GROWTH:
            return True
        if snapshot.version != known.version:
            return waited_ms >= LOOK_AGAIN_MS
        return waited_ms >= LOOK_BELOW_MS and waits_for_table(table.topic.configs)

    def _find(self, said: "_Said", table: Table) -> Merge | None:
        number, snapshot = table.topic.number, table.snapshot
        why = snapshot.torn or snapshot.unreadable
        why = why or why_not_merged(snapshot.protocol, snapshot.metadata)
        why = why or why_not_written(snapshot.metadata)
        found = None
        if why is None:
            self._tables_alone.pop(number, None)
            found = self._find_in(table, said)
        else:
            if self._tables_alone.get(number) != why:
                log.info("a table is not merged", topic=table.topic.name, why=why)
            self._tables_alone[number] = why
        if found is None:
            files, now_ms = len(snapshot.files), self.clock.monotonic_ms()
            self._looked[number] = _Looked(snapshot.version, files, now_ms)
        return found

    def _find_in(self, table: Table, said: "_Said") -> Merge | None:
        """Of the partitions, the one behind that of the last merge comes first."""
        index = table.snapshot.index
        last = self._partition.get(table.topic.number, -1)
        limits = bounds_of(table.topic, said.defaults(), self.settings)
        target_bytes, span_ms_max = limits
        starts = said.log_starts() if waits_for_table(table.topic.configs) else {}

        def too_large(partition: int, size: int) -> None:
            why = f"{size} bytes of partition {partition} overlap or are in no order"
            until_ms = self.clock.monotonic_ms() + BARRED_MS
            self._files_alone[table.topic.number] = why, until_ms

        for p in sorted(index.partitions, key=lambda p: (p <= last, p)):
            rules = Rules(
                target_bytes,
                table.ends.get(p, 0),
                lambda file: _is_unsorted(table.path, file),
                lambda file: self._is_barred(table, file),
                span_ms_max,
                too_large,
                _tombstones_since,
            )
            start = starts.get(table.topic.key(p), 0)
            below = _below(table.topic, start, self.settings)
            found = plan.find(index.files_of(p), rules, below)
            if found is not None:
                self._partition[table.topic.number] = p
                return found
        return None

    def _is_barred(self, table: Table, file: DataFile) -> bool:
        if path_inside(table.path, file.relative_path) is None:
            return True
        until_ms = self._barred.get(os.path.join(table.path, file.path))
        return until_ms is not None and self.clock.monotonic_ms() < until_ms

    def _begin(self, table: Table, merge: Merge) -> None:
        metadata = table.snapshot.metadata
        assert metadata is not None, "it was looked at"
        task = MergeTask(
            table.path,
            merged_name(merge.files, self.slot.attempt()),
            merge.partition,
            tuple(file.relative_path for file in merge.files),
            all_columns(metadata.schema_string).serialize().to_pybytes(),
            str(self.spill),
            self.settings.merge_bytes_per_s,
            self._repaired_bytes(table) if merge.is_repair else 0,
        )
        passing("merge.before_file")
        self.slot.begin(table, merge, task)

    def _repaired_bytes(self, table: Table) -> int:
        return bounds_of(table.topic, self.defaults(), self.settings)[0]

    def _commit(self, job: _Merging, merged: Merged) -> None:
        table = job.table
        new = [new_file(job.planned.partition, written) for written in merged.files]
        try:
            passing("merge.before_commit")
            replace_files(
                table.path, table.id, job.planned.files, new, schema=job.schema,
                now_ms=self.clock.now_ms(), snapshot=table.snapshot,
                on_written=lambda: passing("merge.after_entry"),
                on_committed=lambda: passing("merge.after_commit"),
            )  # fmt: skip
            passing("merge.after_sync")
            table.follow()
        except Exception as error:  # noqa: BLE001  (an owner may do anything)
            if isinstance(error, CommitRefused):
                delete_unnamed(table.path, _paths(merged))
            self._put_off(table, str(error) or type(error).__name__)
            return
        self._count(job, merged)
        self.committed(table)

    def _count(self, job: _Merging, merged: Merged) -> None:
        size = sum(written.size for written in merged.files)
        self._looked.pop(job.table.topic.number, None)
        self.counters.merges += 1
        self.counters.merged_files += len(job.planned.files)
        self.counters.merged_bytes += job.planned.bytes
        self.counters.merge_file_bytes += size
        log.info(
            "merged", topic=job.table.topic.name, partition=job.planned.partition,
            files=len(job.planned.files), bytes=job.planned.bytes, size=size,
            made=len(merged.files), rows=sum(file.rows for file in job.planned.files),
            repair=job.planned.is_repair, ms=self.clock.monotonic_ms() - job.begun_ms,
        )  # fmt: skip

    def _failed(self, job: _Merging, failed: Failed) -> None:
        if failed.stale:
            self._put_off(job.table, failed.why)
            return
        self.counters.merges_failed += 1
        self.suspect([job.table.topic.number])
        first, topic = job.planned.files[0], job.table.topic
        log.warning("files are not merged", topic=topic.name, why=failed.why)
        if len(self._barred) >= BARRED_MAX:
            self._barred.clear()
        until_ms = self.clock.monotonic_ms() + BARRED_MS
        for file in job.planned.files:
            self._barred[os.path.join(job.table.path, file.path)] = until_ms
        why = f"from {first.path} on files stay as they are: {failed.why}"
        self._files_alone[topic.number] = why, until_ms

    def _put_off(self, table: Table, why: str) -> None:
        """Somebody was faster, or the table takes no such commit: later."""
        self.counters.merges_failed += 1
        number, snapshot = table.topic.number, table.snapshot
        self.suspect([number])
        before = self._looked.get(number)
        pause_ms = LOOK_AGAIN_MS if before is None else 2 * before.pause_ms
        self._looked[number] = _Looked(
            snapshot.version, len(snapshot.files), self.clock.monotonic_ms(),
            min(max(pause_ms, LOOK_AGAIN_MS), PAUSE_MS_MAX),
        )  # fmt: skip
        log.info("not merged", topic=table.topic.name, why=why)


def _paths(merged: Merged) -> set[str]:
    return {written.path for written in merged.files}


def bounds_of(
    topic: Topic, defaults: Mapping[str, str], settings: LakeSettings
) -> tuple[int, int]:
    """How large a file is to be, and how much time it may span (0: any), so that
    retention, which lets whole files go, is late by a share of its time only."""
    kept = TopicConfig.of(topic.configs, defaults)
    target_bytes = settings.target_file_bytes
    if kept.deleted and kept.retention_bytes > 0:
        share = kept.retention_bytes // (2 * RETENTION_SHARE)  # of the log: files pack
        target_bytes = max(1, min(target_bytes, share))
    span_ms = kept.retention_ms // RETENTION_SHARE if kept.deleted else 0
    return target_bytes, max(0, span_ms)


def _below(topic: Topic, log_start: int, settings: LakeSettings) -> Below:
    """What is asked of files that only the table keeps: to go in its own time."""
    kept_ms = value(LAKE_RETENTION_MS, topic.configs)
    assert isinstance(kept_ms, int)
    if kept_ms == AS_THE_LOG:
        return NOTHING_BELOW
    span_ms = 0 if kept_ms == FOR_EVER else max(1, kept_ms // RETENTION_SHARE)
    return Below(log_start, settings.target_file_bytes, span_ms)


def why_not_written(metadata: Metadata | None) -> str | None:
    """One sentence if the table has columns that we cannot write, else None."""
    try:
        all_columns("" if metadata is None else metadata.schema_string)
    except LakehouseError as error:
        return str(error)
    return None


def _is_unsorted(root: str, file: DataFile) -> bool:
    """Whether a file is in no order inside, or in row groups that are too large; the
    compactor's never are."""
    if span_of(file.relative_path) is not None:
        return False
    try:
        return _is_in_no_order(os.path.join(root, file.relative_path))
    except (LakehouseError, OSError, ValueError, StopIteration):
        return False  # who merges it will tell


@lru_cache(1 << 16)
def _is_in_no_order(path: str) -> bool:
    """By what the footer says alone: a look must not take long. Data files never
    change."""
    reach = -1
    for group in read_groups(path):
        bounds = next(c for c in group.columns if c.path == "offset").bounds
        large = group.rows > WHOLE_ROWS_MAX or group.bytes > WHOLE_BYTES
        if bounds is None or large or bounds[0] <= reach:
            return True
        reach = bounds[1]
    return False


def _tombstones_since(file: DataFile) -> int | None:
    """Of a cleaned file, since when its tombstones wait to go: files that share it are
    joined, so that none waits longer than it must, and none with what is not clean."""
    mark = mark_of(file.relative_path)
    return None if mark is None else mark.since_ms


def new_file(partition: int, written: Written) -> NewFile:
    return NewFile(
        written.path, partition, written.size, written.rows,
        written.first_offset, written.last_offset,
        written.timestamp_min_ms, written.timestamp_max_ms, written.modified_ms,
        written.nameless, written.timeless,
    )  # fmt: skip
