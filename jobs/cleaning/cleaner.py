"""Key compaction, as the compactor's step sees it: look, begin, commit what is done.

The problem: of a topic whose ``cleanup.policy`` has ``compact`` the last record of each
key is to stay, and to write a log anew takes minutes. The idea: as with merges
(`jobs.merging.merger`), one worker of the lowest priority writes while rounds go on,
and the step commits; whoever of the two has worked last asks second. What is decided
from is the snapshot that the step follows; a clean that comes to nothing (an owner
changed a file) leaves all as it was, and is tried again later.

Nothing begins while records are late. A table is looked at once a minute at most, and
so each of its partitions is cleaned no more often than that: Kafka never touches its
newest segment, here files come from the newest on.

The price: a look costs a millisecond for a thousand files.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import structlog

from broker.clock import Clock
from broker.failpoints import passing
from broker.ids import TopicNumber
from broker.settings import LakeSettings
from broker.topics.configs import TopicConfig, value
from jobs.cleaning import plan
from jobs.cleaning.plan import Clean, Rules
from jobs.cleaning.rewrite import Cleaned, CleanTask
from jobs.looks import Looks
from jobs.merging.background import Runner
from jobs.merging.merger import bounds_of, new_file, why_not_written
from jobs.round import delete_unnamed
from jobs.rows import Failed
from jobs.slot import Find, Job, Slot
from jobs.status import Counters
from jobs.tables import Table
from lakehouse.errors import CommitRefused
from lakehouse.location import path_inside
from lakehouse.log.actions import DataFile
from lakehouse.log.commit import replace_files
from lakehouse.log.ours import why_not_cleaned
from lakehouse.owners_columns import all_columns

LOOK_AGAIN_MS: Final = 60_000
PAUSE_MS_MAX: Final = 3_600_000
REPORTED_MAX: Final = 100

_Cleaning = Job[Clean, CleanTask]

log = structlog.get_logger("lakelog.compactor")


@dataclass(slots=True)
class _Rest:
    """When a partition, or a table, is looked at again, and after what pause."""

    again_ms: int = 0
    pause_ms: int = 0

    def lengthen(self, now_ms: int) -> None:
        pause_ms = max(LOOK_AGAIN_MS, 2 * self.pause_ms)
        self.pause_ms = min(pause_ms, PAUSE_MS_MAX)
        self.again_ms = now_ms + self.pause_ms


@dataclass(slots=True)
class _Looked:
    """When a table is looked at again; behind which partition, and without those whose
    rows are odd. ``waits``: partition -> what its newest records wait for."""

    rest: _Rest = field(default_factory=_Rest)
    partition: int = -1
    odd: dict[int, _Rest] = field(default_factory=dict)
    waits: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class Cleaner:
    """Called by the compactor's step alone."""

    settings: LakeSettings
    runner: Runner
    clock: Clock
    counters: Counters
    spill: Path
    committed: Callable[[Table], None] = lambda table: None
    """Called after each commit of a clean."""
    suspect: Callable[[Iterable[TopicNumber]], None] = lambda numbers: None
    """Hears of topics whose tables may have files that no commit will name."""
    defaults: Callable[[], Mapping[str, str]] = dict
    """What holds for topics that do not say it themselves; read once in a look."""
    slot: Slot[Clean, CleanTask] = field(init=False)
    _looked: dict[TopicNumber, _Looked] = field(default_factory=dict)
    _left_alone: dict[TopicNumber, str] = field(default_factory=dict)
    _looks: Looks = field(init=False)

    def __post_init__(self) -> None:
        self._looks = Looks(self.clock)
        self.slot = Slot(self.runner, self.clock)

    @property
    def left_alone(self) -> dict[TopicNumber, str]:
        """Topic number -> why its records are not cleaned; not all if many."""
        return dict(list(self._left_alone.items())[:REPORTED_MAX])

    @property
    def writing(self) -> str | None:
        """What the names of the files have that no commit names yet."""
        job = self.slot.job
        return None if job is None else f"-{job.task.attempt}-"

    def finish(self, find: Find, may_commit: Callable[[], bool]) -> None:
        """Commit the clean that is under way, if it is done. ``find``: a table as it is
        followed now; None: it is not."""
        ended = self.slot.take()
        if ended is None:
            return
        job, done = ended
        self._looks.soon()
        if isinstance(done, Failed):
            partition = None if done.stale else job.planned.partition
            self._put_off(job.table, done.why, partition)
            return
        assert isinstance(done, Cleaned), "what was asked for"
        passing("clean.after_file")
        table = find(job.table.topic.number)
        is_wanted = table is not None and self._is_wanted(job, table)
        if table is None or not is_wanted or not may_commit():
            delete_unnamed(job.table.path, {file.path for file in done.files})
        else:
            self._commit(replace(job, table=table), done)

    def _is_wanted(self, job: _Cleaning, table: Table) -> bool:
        """Whether the topic is there, and its policy is what it was."""
        config = TopicConfig.of(table.topic.configs, self.defaults())
        return table.topic.id == job.table.topic.id and config.compacted

    def look(self, tables: Iterable[Table], is_late: bool) -> None:
        """Begin a clean if one is due and none is under way."""
        if self.slot.is_busy or is_late or not self.settings.clean:
            return
        find = partial(self._find, cache(self.defaults))
        found = self._looks.first(tables, self._is_due, find)
        if found is not None:
            self._begin(*found)

    def keep(self, numbers: Iterable[TopicNumber]) -> None:
        """Forget all other topics: they were deleted."""
        kept = set(numbers)
        for gone in self._looked.keys() - kept:
            del self._looked[gone]
            self._left_alone.pop(gone, None)

    def _is_due(self, table: Table) -> bool:
        known = self._looked.get(table.topic.number)
        return known is None or known.rest.again_ms <= self.clock.monotonic_ms()

    def _find(
        self, defaults_of: Callable[[], Mapping[str, str]], table: Table
    ) -> Clean | None:
        """Of partitions, one behind that of the last clean; then the table rests."""
        known = self._looked.setdefault(table.topic.number, _Looked())
        defaults = defaults_of()
        is_wanted = TopicConfig.of(table.topic.configs, defaults).compacted
        why = _why_not(table) if is_wanted else None
        found = None
        if is_wanted and why is None:
            found = self._find_in(table, defaults, known)
            why = next(iter(known.waits.values()), None)
        self._report(table, why, is_free=not (known.odd and is_wanted))
        known.partition = -1 if found is None else found.partition
        if found is None:
            known.rest.again_ms = self.clock.monotonic_ms() + LOOK_AGAIN_MS
        return found

    def _find_in(
        self, table: Table, defaults: Mapping[str, str], known: _Looked
    ) -> Clean | None:
        """Of the partitions behind that of the last clean the first that is due."""
        index = table.snapshot.index
        rules = self._rules(table, defaults)
        for p in self._due_of(known, index.partitions):
            rules = rules._replace(end=table.ends.get(p, 0))
            found = plan.find(index.files_of(p), rules)
            if found is not None:
                return found
            known.odd.pop(p, None)
            barred = plan.in_the_way(index.files_of(p), rules)
            known.waits.pop(p, None)
            if barred is not None:
                known.waits[p] = _waits_for(barred)
        return None

    def _report(self, table: Table, why: str | None, *, is_free: bool) -> None:
        """Why nothing is cleaned, or that all is well unless rows of it are odd."""
        number = table.topic.number
        if why is not None:
            if self._left_alone.get(number) != why:
                log.info("a table is not cleaned", topic=table.topic.name, why=why)
            self._left_alone[number] = why
        elif is_free:
            self._left_alone.pop(number, None)

    def _due_of(self, known: _Looked, partitions: Iterable[int]) -> list[int]:
        now_ms = self.clock.monotonic_ms()
        resting = {p for p, rest in known.odd.items() if now_ms < rest.again_ms}
        return sorted(p for p in partitions if p > known.partition and p not in resting)

    def _rules(self, table: Table, defaults: Mapping[str, str]) -> Rules:
        def configured(name: str) -> Any:
            return value(name, table.topic.configs, defaults)

        target_bytes, span_ms_max = bounds_of(table.topic, defaults, self.settings)
        return Rules(
            self.clock.now_ms(),
            0,
            configured("min.cleanable.dirty.ratio"),
            configured("min.compaction.lag.ms"),
            configured("max.compaction.lag.ms"),
            configured("delete.retention.ms"),
            target_bytes,
            lambda file: path_inside(table.path, file.relative_path) is None,
            span_ms_max,
        )

    def _begin(self, table: Table, clean: Clean) -> None:
        metadata = table.snapshot.metadata
        assert metadata is not None, "it was looked at"
        task = CleanTask(
            table.path,
            clean.partition,
            clean.end,
            clean.groups,
            self.slot.attempt("c"),
            all_columns(metadata.schema_string).serialize().to_pybytes(),
            str(self.spill),
            self.settings.merge_bytes_per_s,
        )
        passing("clean.before_file")
        self.slot.begin(table, clean, task)

    def _commit(self, job: _Cleaning, done: Cleaned) -> None:
        table, clean = job.table, job.planned
        new = [new_file(clean.partition, file) for file in done.files]
        try:
            passing("clean.before_commit")
            replace_files(
                table.path, table.id, clean.files, new, schema=job.schema,
                now_ms=self.clock.now_ms(), snapshot=table.snapshot,
                cleaned=(clean.first_offset, clean.end),
                on_written=lambda: passing("clean.after_entry"),
                on_committed=lambda: passing("clean.after_commit"),
            )  # fmt: skip
            passing("clean.after_sync")
            table.follow()
        except Exception as error:  # noqa: BLE001  (an owner may do anything)
            if isinstance(error, CommitRefused):
                delete_unnamed(table.path, {file.path for file in done.files})
            self._put_off(table, str(error) or type(error).__name__)
            return
        self._count(job, done)
        self.committed(table)

    def _count(self, job: _Cleaning, done: Cleaned) -> None:
        known = self._looked[job.table.topic.number]
        known.rest.pause_ms = 0
        known.odd.pop(job.planned.partition, None)
        rows, size = (
            sum(getattr(f, name) for f in done.files) for name in ("rows", "size")
        )
        self.counters.cleans += 1
        self.counters.cleaned_rows += done.rows - rows
        self.counters.cleaned_bytes += job.planned.bytes
        self.counters.clean_file_bytes += size
        log.info(
            "cleaned", topic=job.table.topic.name, partition=job.planned.partition,
            end=job.planned.end, ratio=round(job.planned.ratio, 3), keys=done.keys,
            rows=done.rows, kept=rows, bytes=job.planned.bytes, size=size,
            files=len(job.planned.files), ms=self.clock.monotonic_ms() - job.begun_ms,
        )  # fmt: skip

    def _put_off(self, table: Table, why: str, odd: int | None = None) -> None:
        """Somebody was faster; or the rows of the partition ``odd`` are not to be
        moved, which their owner is to know, and which keeps no other waiting."""
        self.counters.cleans_failed += 1
        number = table.topic.number
        self.suspect([number])
        known = self._looked.setdefault(number, _Looked())
        rest = known.rest if odd is None else known.odd.setdefault(odd, _Rest())
        rest.lengthen(self.clock.monotonic_ms())
        if odd is not None:
            self._left_alone[number] = f"its keys are not compacted: {why}"
        log.info("not cleaned", topic=table.topic.name, why=why)


def _waits_for(file: DataFile) -> str:
    """One sentence on a file that nothing behind it is cleaned for."""
    why = "may not be touched"
    if file.vector is not None:
        why = "has deletion vectors (REORG TABLE ... APPLY (PURGE) ends that)"
    return f"its keys are not compacted from {file.relative_path} on, which {why}"


def _why_not(table: Table) -> str | None:
    """One sentence if no row may leave this table for its key's sake, else None."""
    snapshot = table.snapshot
    why = snapshot.torn or snapshot.unreadable
    why = why or why_not_cleaned(snapshot.protocol, snapshot.metadata)
    return why or why_not_written(snapshot.metadata)
