"""One round: slices become files by one Spark job, files one commit per topic.

The problem: a round may be killed between any two of its steps, one of its slices may
be damaged, and one of its tables may refuse. None of that may double a record, lose
one, or hold up the other topics. The idea: nothing counts but the commits. Workers
report a slice that cannot be read instead of failing the job; a partition is committed
up to its first such slice; files of a commit that is refused are deleted, once the log
is seen not to name them (what a kill leaves is swept later), and the next round plans
again from what the table's log then says.
"""

import itertools
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import structlog

from broker.clock import ticks_ns
from broker.failpoints import passing
from broker.ids import TopicNumber, TopicPartition
from broker.status.schema import DAMAGED, way_out
from jobs.batches import Batches
from jobs.isolate import Spread, spread_isolated
from jobs.planner import Item, Round
from jobs.rows import Failed, FileTask, Written, work
from jobs.slices import Slice
from jobs.tables import Table
from lakehouse.errors import CommitRefused, RowsInTheWay
from lakehouse.location import Names
from lakehouse.log.commit import commit_files
from lakehouse.log.delta_log import load
from lakehouse.new_file import NewFile, partition_directory

COMMIT_THREADS: Final = 4
NS_A_MS: Final = 1_000_000

log = structlog.get_logger("lakelog.compactor")


@dataclass(slots=True)
class Outcome:
    """What a round did. ``failed``: partition -> why it stopped short; ``blocked``:
    partition -> which rows its table has in the way; ``refused``: topic -> why its
    table took no commit.
    """

    rows: int = 0
    log_bytes: int = 0
    file_bytes: int = 0
    files: int = 0
    commits: int = 0
    write_ms: int = 0
    commit_ms: int = 0
    failed: dict[TopicPartition, Failed] = field(default_factory=dict)
    blocked: dict[TopicPartition, str] = field(default_factory=dict)
    refused: dict[TopicNumber, str] = field(default_factory=dict)
    committed: set[TopicPartition] = field(default_factory=set)

    def add(self, other: "Outcome") -> None:
        self.rows += other.rows
        self.log_bytes += other.log_bytes
        self.file_bytes += other.file_bytes
        self.files += other.files
        self.commits += other.commits
        self.failed |= other.failed
        self.blocked |= other.blocked
        self.refused |= other.refused
        self.committed |= other.committed


def on_spark(context: Any) -> Spread:
    """Spread over the workers of a SparkContext, one Spark task per list."""

    def spread(tasks: list[list[FileTask]]) -> list[list[Written | Failed]]:
        found = context.parallelize(tasks, len(tasks)).map(work).collect()
        return list(found)

    return spread


def run_round(
    plan: Round,
    tables: dict[TopicNumber, Table],
    spread: Spread,
    attempt: str,
    may_commit: Callable[[], bool],
    niceness: int = 0,
    is_free: Callable[[TopicNumber], bool] = lambda number: True,
) -> Outcome:
    """Write and commit everything in ``plan``.

    ``tables`` by topic number; items of other topics are left for later, and so are
    those of topics that are not ``is_free`` once their files are written. ``attempt``
    makes file names that nobody else makes. A slice that kills its worker fails alone;
    raises what ``spread`` raises when it cannot do anything at all.
    """
    tasks = [[i for i in task if i.key[0] in tables] for task in plan.tasks]
    tasks = [task for task in tasks if task]
    if not tasks:
        return Outcome()
    passing("compact.before_files")
    begun_ns = ticks_ns()
    results = spread_isolated(
        spread,
        [
            [file_task(item, tables[item.key[0]], attempt, niceness) for item in task]
            for task in tasks
        ],
    )
    passing("compact.after_files")
    pairs = zip(itertools.chain(*tasks), itertools.chain(*results), strict=True)
    done = [(item, _judged(item, result)) for item, result in pairs]
    written_ns = ticks_ns()
    outcome = _commit_all(done, tables, is_free) if may_commit() else Outcome()
    outcome.write_ms = (written_ns - begun_ns) // NS_A_MS
    outcome.commit_ms = (ticks_ns() - written_ns) // NS_A_MS
    return outcome


def file_task(item: Item, table: Table, attempt: str, niceness: int = 0) -> FileTask:
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
        [_slice(chunk) for chunk in item.chunks if chunk.store],
        niceness,
    )


def _slice(chunk: Batches) -> Slice:
    return Slice(
        chunk.store,
        chunk.sequence,
        chunk.base.tobytes(),
        chunk.position.tobytes(),
        chunk.length.tobytes(),
        b"" if chunk.counts is None else chunk.counts.tobytes(),
    )


Done = tuple[Item, Written | Failed]


def _commit_all(
    done: list[Done],
    tables: dict[TopicNumber, Table],
    is_free: Callable[[TopicNumber], bool],
) -> Outcome:
    by_topic: dict[TopicNumber, list[Done]] = {}
    for item, result in done:
        by_topic.setdefault(item.key[0], []).append((item, result))
    whole = Outcome()
    for number in [number for number in by_topic if not is_free(number)]:
        paths = {result.path for _, result in by_topic.pop(number)}
        delete_unnamed(tables[number].path, paths)
    with ThreadPoolExecutor(COMMIT_THREADS) as pool:
        for part in pool.map(
            _commit_topic, map(tables.__getitem__, by_topic), by_topic.values()
        ):
            whole.add(part)
    return whole


def _commit_topic(table: Table, done: list[Done]) -> Outcome:
    """Commit what of one topic was written without a break; tell the rest, and delete
    its files."""
    outcome = Outcome()
    whole = whole_prefixes(done, outcome.failed)
    kept = {written.path for _, written in whole}
    while whole:
        try:
            was_there = _commit(table, whole)
        except RowsInTheWay as error:
            whole = _left_out(whole, error.partitions, outcome.blocked)
            kept = {written.path for _, written in whole}
            continue
        except Exception as error:  # noqa: BLE001  (an owner may do anything to a table)
            log.warning("not committed", topic=table.topic.name, why=str(error))
            outcome.refused[table.topic.number] = str(error) or type(error).__name__
            if isinstance(error, CommitRefused):
                kept.clear()
            break
        outcome.committed = {item.key for item, _ in whole}
        if not was_there:
            _count(outcome, whole)
        break
    delete_unnamed(table.path, {result.path for _, result in done} - kept)
    return outcome


def delete_unnamed(root: str, paths: Collection[str]) -> None:
    """Delete files of a try that came to nothing, unless the table's log names them or
    cannot tell: then they are orphans, see `jobs.maintain`."""
    if not paths:
        return
    try:
        snapshot = load(root)
    except Exception:  # noqa: BLE001  (an owner may do anything to a table)
        return
    known = *snapshot.files, *snapshot.removed
    named = set(map(Names(root).below, known))
    for path in paths:
        if path not in named and snapshot.torn is None:
            with suppress(OSError):
                os.unlink(os.path.join(root, path))


def _left_out(
    whole: list[tuple[Item, Written]],
    partitions: Mapping[int, str],
    blocked: dict[TopicPartition, str],
) -> list[tuple[Item, Written]]:
    """``whole`` without these partitions, of which ``blocked`` is told why."""
    for item, _ in whole:
        if item.key[1] in partitions:
            blocked[item.key] = partitions[item.key[1]]
    return [one for one in whole if one[0].key[1] not in partitions]


def _commit(table: Table, whole: list[tuple[Item, Written]]) -> bool:
    """Commit what was written; whether an earlier try had. Raises as `commit_files`."""
    ranges: dict[int, tuple[int, int]] = {}
    for item, _ in whole:
        partition = item.key[1]
        start = ranges.get(partition, (item.start, 0))[0]
        ranges[partition] = (start, item.end)
    files = [_new_file(item, written) for item, written in whole if written.rows]
    passing("compact.before_commit")
    committed = commit_files(
        table.path, table.id, table.next_round, ranges, files,
        records=_records(whole), known_ends=table.ends, snapshot=table.snapshot,
        on_written=lambda: passing("compact.after_entry"),
        on_committed=lambda: passing("compact.after_commit"),
    )  # fmt: skip
    passing("compact.after_sync")
    return committed.was_there


def whole_prefixes(
    done: Iterable[Done], failed: dict[TopicPartition, Failed]
) -> list[tuple[Item, Written]]:
    """Per partition, the items up to the first that failed, in order of offset."""
    whole: list[tuple[Item, Written]] = []
    for item, result in sorted(done, key=lambda one: (one[0].key, one[0].start)):
        if isinstance(result, Failed):
            if whole and whole[-1][0].key == item.key:
                result = result._replace(is_behind=True)
            failed.setdefault(item.key, result)
        elif item.key not in failed:
            whole.append((item, result))
    return whole


def _judged(item: Item, result: Written | Failed) -> Written | Failed:
    """A file that lacks a record, or has one too many, is not committed."""
    if isinstance(result, Failed):
        return result if result.stale else _placed(item, result)
    if result.rows == item.records:
        return result
    why = (
        f"offsets {item.start} to {item.end - 1} hold {item.records} records, and "
        f"{result.rows} rows were written"
    )
    return _placed(item, Failed(result.path, why, stale=False))


def _placed(item: Item, failed: Failed) -> Failed:
    """The same failure, and if it is known for which batch it is, that and what can be
    done. What fails for another reason may pass: there is nothing to give up."""
    for chunk in item.chunks:
        at = int(np.searchsorted(chunk.base, failed.offset))
        if at < len(chunk) and int(chunk.base[at]) == failed.offset:
            last = int(chunk.last[at])
            return failed._replace(
                why=f"{failed.why}. {way_out(last + 1, DAMAGED)}",
                last=last,
                is_behind=int(item.chunks[0].base[0]) < failed.offset,
            )
    return failed


def _records(whole: list[tuple[Item, Written]]) -> dict[int, int]:
    """Partition -> records that the log holds in what is committed."""
    found: dict[int, int] = {}
    for item, _ in whole:
        found[item.key[1]] = found.get(item.key[1], 0) + item.records
    return found


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
