"""One round: slices become files by one Spark job, files one commit per topic.

The problem: a round may be killed between any two of its steps, one of its slices may
be damaged, and one of its tables may refuse. None of that may double a record, lose
one, or hold up the other topics. The idea: nothing counts but the commits. Workers
report a slice that cannot be read instead of failing the job; a partition is committed
up to its first such slice; a commit that is refused leaves files that nobody refers to,
which are swept, and the next round plans again from what the table's log then says.
"""

import itertools
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from broker.failpoints import passing
from jobs.planner import Batches, Item, Round, TopicPartition
from jobs.rows import Failed, FileTask, Slice, Written, write_files
from jobs.tables import Table
from lakehouse.commit import commit_files
from lakehouse.errors import LakehouseError
from lakehouse.new_file import NewFile, partition_directory

COMMIT_THREADS: Final = 4

log = structlog.get_logger("lakelog.compactor")

Spread = Callable[[list[list[FileTask]]], list[list[Written | Failed]]]
"""Runs tasks somewhere, in any order; results in the order of the tasks."""


@dataclass(slots=True)
class Outcome:
    """What a round did. ``failed``: partition -> why it stopped short."""

    rows: int = 0
    log_bytes: int = 0
    file_bytes: int = 0
    files: int = 0
    commits: int = 0
    failed: dict[TopicPartition, Failed] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)

    def add(self, other: "Outcome") -> None:
        self.rows += other.rows
        self.log_bytes += other.log_bytes
        self.file_bytes += other.file_bytes
        self.files += other.files
        self.commits += other.commits
        self.failed |= other.failed
        self.refused |= other.refused


def on_spark(context: Any) -> Spread:
    """Spread over the workers of a SparkContext, one Spark task per list."""

    def spread(tasks: list[list[FileTask]]) -> list[list[Written | Failed]]:
        found = context.parallelize(tasks, len(tasks)).map(write_files).collect()
        return list(found)

    return spread


def run_round(
    plan: Round,
    tables: dict[int, Table],
    spread: Spread,
    attempt: str,
    may_commit: Callable[[], bool],
) -> Outcome:
    """Write and commit everything in ``plan``.

    ``tables`` by topic number; items of other topics are left for later. ``attempt``
    makes file names that nobody else makes. Raises what ``spread`` raises.
    """
    tasks = [[i for i in task if i.key[0] in tables] for task in plan.tasks]
    tasks = [task for task in tasks if task]
    if not tasks:
        return Outcome()
    passing("compact.before_files")
    results = spread(
        [[file_task(item, tables[item.key[0]], attempt) for item in t] for t in tasks]
    )
    passing("compact.after_files")
    done = list(zip(itertools.chain(*tasks), itertools.chain(*results), strict=True))
    return _commit_all(done, tables) if may_commit() else Outcome()


def file_task(item: Item, table: Table, attempt: str) -> FileTask:
    """The item as plain values for a worker, with the name of its file."""
    partition = item.key[1]
    name = f"{item.start:020d}-{item.end:020d}-{attempt}.parquet"
    return FileTask(
        table.path,
        f"{partition_directory(partition)}/{name}",
        table.topic.name,
        partition,
        item.start,
        item.end,
        [_slice(chunk) for chunk in item.chunks],
    )


def _slice(chunk: Batches) -> Slice:
    columns = (chunk.base, chunk.position, chunk.length)
    return Slice(chunk.path, chunk.sequence, *(c.tobytes() for c in columns))


Done = tuple[Item, Written | Failed]


def _commit_all(done: list[Done], tables: dict[int, Table]) -> Outcome:
    by_topic: dict[int, list[Done]] = {}
    for item, result in done:
        by_topic.setdefault(item.key[0], []).append((item, result))
    whole = Outcome()
    with ThreadPoolExecutor(COMMIT_THREADS) as pool:
        for part in pool.map(
            _commit_topic, map(tables.__getitem__, by_topic), by_topic.values()
        ):
            whole.add(part)
    return whole


def _commit_topic(table: Table, done: list[Done]) -> Outcome:
    """Commit what of one topic was written without a break; tell the rest."""
    outcome = Outcome()
    whole = whole_prefixes(done, outcome.failed)
    if not whole:
        return outcome
    ranges: dict[int, tuple[int, int]] = {}
    for item, _ in whole:
        partition = item.key[1]
        start = ranges.get(partition, (item.start, 0))[0]
        ranges[partition] = (start, item.end)
    files = [_new_file(item, written) for item, written in whole if written.rows]
    passing("compact.before_commit")
    try:
        committed = commit_files(
            table.path, table.id, table.next_round, ranges, files,
            on_committed=lambda: passing("compact.after_commit"),
        )  # fmt: skip
    except (LakehouseError, OSError) as error:
        log.warning("not committed", topic=table.topic.name, why=str(error))
        outcome.refused.add(table.topic.number)
        return outcome
    passing("compact.after_sync")
    if not committed.was_there:
        _count(outcome, whole)
    return outcome


def whole_prefixes(
    done: Iterable[Done], failed: dict[TopicPartition, Failed]
) -> list[tuple[Item, Written]]:
    """Per partition, the items up to the first that failed, in order of offset."""
    whole: list[tuple[Item, Written]] = []
    for item, result in sorted(done, key=lambda one: (one[0].key, one[0].start)):
        if isinstance(result, Failed):
            failed.setdefault(item.key, result)
        elif item.key not in failed:
            whole.append((item, result))
    return whole


def _new_file(item: Item, written: Written) -> NewFile:
    return NewFile(
        written.path,
        item.key[1],
        written.size,
        written.rows,
        written.first_offset,
        written.last_offset,
        written.timestamp_min_ms,
        written.timestamp_max_ms,
        written.modified_ms,
    )


def _count(outcome: Outcome, whole: list[tuple[Item, Written]]) -> None:
    outcome.commits += 1
    for item, written in whole:
        outcome.rows += written.rows
        outcome.log_bytes += item.bytes
        outcome.file_bytes += written.size
        outcome.files += written.rows > 0
