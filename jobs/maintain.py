"""What has no place in a table any more: expired rows, orphans, deleted topics.

The problem: retention moves the start of a log, killed rounds leave files behind, and
deleted topics leave tables; yet somebody may be reading any of these files. The idea:
each thing leaves in two steps. First nothing refers to it (a commit, a rename); then
its bytes go: of rows that expired after the table's own period for that, so that
streams that are behind and older versions can still be read; of deleted topics after a
week; of orphans soon. With little space on the disk nobody's past is kept: all of it
goes as soon as orphans do. Only files that the compactor itself named are deleted:
what the owner's OPTIMIZE wrote, or replaced, is for the owner's VACUUM; what a merge
replaced goes as expired rows do (`jobs.merging.names` knows which). A file that no
commit names is an orphan as long as it is so young that the log would tell if it left;
later nobody knows, and its time begins when this process first saw that it is in no
table. And it is one only if its records are elsewhere, in files of the table that
are there or in segments: else its commit was lost, and it may be their only copy.

All of this runs in the process that holds the lease, between rounds, so that no file of
a round in flight is taken for an orphan.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Final, NamedTuple

import structlog

from broker.catalog import topics as catalog_topics
from broker.catalog.catalog import Catalog
from broker.ids import PartitionNumber, TopicNumber, TopicPartition
from broker.topics.configs import AS_THE_LOG, FOR_EVER, LAKE_RETENTION_MS, value
from broker.topics.topic import Topic
from jobs.describe import Describer
from jobs.merging.names import OURS, Replaced
from jobs.sweep import Files, Sweep
from jobs.tables import Table, Tables
from lakehouse.further import link_of
from lakehouse.in_flight import AHEAD_MS
from lakehouse.in_flight import DIRECTORY as BEGUN
from lakehouse.location import Names
from lakehouse.log.actions import DataFile
from lakehouse.log.commit import drop, leave_place, remove_files
from lakehouse.log.ours import why_nothing_leaves
from lakehouse.log.remarks import remarks_of
from lakehouse.warehouse_names import name_of

REST: Final = 50
"""A pass looks at each file that left: a table where that takes a second is left alone
for so many times that."""
_DIRECTORY: Final = re.compile(r"partition=\d+")

log = structlog.get_logger("lakelog.compactor")

Starts = Mapping[TopicPartition, int]


InLog = Callable[[TopicPartition, int, int], bool]
"""Whether segments have all of [start, end) of a partition."""


class Delays(NamedTuple):
    """How long something stays after nothing refers to it: files, at the least; a
    deleted topic's table in its place; and the same table at all."""

    file_ms: int
    aside_ms: int
    table_ms: int


def maintain_table(
    table: Table,
    starts: Starts,
    in_log: InLog,
    now_ms: int,
    delay_ms: int,
    sweep: Sweep,
    *,
    is_short: bool = False,
    writing: str | None = None,
) -> dict[str, int]:
    """One pass over one table; counts of what was done. Blocks.

    ``starts`` are the log starts of all partitions; ``delay_ms`` is how long a file
    stays that nothing refers to; ``sweep``: whether it is time to look for these;
    ``is_short``: there is little space on the disk. ``writing``: part of
    the absolute paths of files that no commit names yet.
    """
    removed = expire(table, starts, now_ms)
    stays_ms = delay_ms if is_short else max(delay_ms, table.snapshot.time_travel_ms)
    deleted = delete_files(
        table, starts, in_log, now_ms, delay_ms, stays_ms, sweep, writing
    )
    return {"files_expired": removed, "files_deleted": deleted}


def expire(table: Table, starts: Starts, now_ms: int) -> int:
    """Let the files leave the table that lie wholly below the log's start, once the
    topic's ``lake.retention.ms`` is over; none where its owner lets none leave."""
    kept_ms = value(LAKE_RETENTION_MS, table.topic.configs)
    assert isinstance(kept_ms, int)
    if kept_ms == FOR_EVER or why_nothing_leaves(table.snapshot.metadata):
        return 0
    expired = [
        file
        for file in table.snapshot.files.values()
        if is_expired(file, table.topic.number, starts)
        and (kept_ms == AS_THE_LOG or _newest_ms(file) < now_ms - kept_ms)
    ]
    if not expired:
        return 0
    remove_files(
        table.path,
        table.id,
        [(file.path, file.partition, file.size, file.rows) for file in expired],
        now_ms=now_ms,
        log_starts={
            file.partition: starts[table.topic.key(file.partition)] for file in expired
        },
        snapshot=table.snapshot,
    )
    table.follow()
    return len(expired)


def is_expired(file: DataFile, number: TopicNumber, starts: Starts) -> bool:
    """Whether every row is below the log's start, as the statistics say.

    What an owner put below offset 0 was never in the log, and does not leave with it.
    """
    start = starts.get((number, PartitionNumber(file.partition)), 0)
    return file.is_bounded and 0 <= file.last_offset < start


def _newest_ms(file: DataFile) -> int:
    """When its last record was made; that of one without a timestamp: written."""
    newest_ms = file.timestamp_max_ms
    return newest_ms if newest_ms >= 0 else file.modified_ms


def delete_files(
    table: Table,
    starts: Starts,
    in_log: InLog,
    now_ms: int,
    delay_ms: int,
    stays_ms: int,
    sweep: Sweep,
    writing: str | None = None,
) -> int:
    """Delete files of ours that expired, or that a merge replaced, ``stays_ms`` after
    they left the table (where the log forgot when: after they were first seen to have
    left), and those that no commit ever named, after ``delay_ms``; but for those that
    are being written."""
    # The log after the listing: what was committed meanwhile is then seen as live.
    present = _candidates(table, sweep, now_ms, delay_ms, writing)
    table.follow()
    snapshot = table.snapshot
    live = {file.relative_path for file in snapshot.files.values()}
    # Those of a table that was moved are named by where it was.
    spared = {found[0] for path in live if (found := OURS.search(path))}
    removed = snapshot.left
    retention_ms = snapshot.deleted_file_retention_ms
    unnamed = present.keys() - live - removed.keys()
    left_ms = sweep.seen(table.topic.number, unnamed, now_ms) | removed
    replaced = Replaced(live)
    kept = set()
    for path, modified_ms in present.items():
        is_orphan = path not in removed and now_ms - modified_ms < retention_ms
        is_copy = is_orphan and _is_elsewhere(path, table, in_log)
        is_done_with = is_copy or _below_start(path, table.topic.number, starts)
        is_done_with |= not is_orphan and path in replaced
        since_ms = modified_ms if is_orphan else left_ms.get(path, now_ms)
        # What its owner rewrote stays: older versions may still be wanted.
        stays = delay_ms if is_orphan else stays_ms
        is_written = writing is not None and writing in os.path.join(table.path, path)
        is_kept = path in spared or is_written
        if is_kept or not is_done_with or now_ms - since_ms < stays:
            kept.add(path)
        else:
            with suppress(FileNotFoundError):  # its owner's VACUUM was faster
                os.unlink(os.path.join(table.path, path))
    names = Names(table.path)
    snapshot.removed = {
        named: when
        for named, when in snapshot.removed.items()
        if names.below(named) in kept
    }
    left = {path: present[path] for path in kept - live - removed.keys()}
    sweep.keep(table.topic.number, left)
    return len(present) - len(kept)


def _candidates(
    table: Table, sweep: Sweep, now_ms: int, delay_ms: int, writing: str | None
) -> Files:
    """All files of ours if it is time to look at them, else those that may have to go:
    what left the table, and what an earlier look found."""
    number = table.topic.number
    is_due = sweep.is_due(number, now_ms)
    if is_due or sweep.has_begun(number):
        is_any = _delete_begun(table, sweep, writing, now_ms, delay_ms)
        sweep.keep_begun(number, is_any=is_any)
    if is_due:
        present = dict(_our_files(table.path))
        sweep.looked(number, now_ms)
        return present
    left = table.snapshot.left.items()
    ours = {path: when for path, when in left if OURS.fullmatch(path)}
    return ours | sweep.left(number)


def _is_elsewhere(path: str, table: Table, in_log: InLog) -> bool:
    """Whether the records of one of our files are in the table or in segments."""
    partition, start, end = _named(path)
    table_end = table.ends.get(partition, 0)
    if start < table_end and not _is_whole(table, partition, start, end):
        return False
    start = max(start, table_end)
    return start >= end or in_log(table.topic.key(partition), start, end)


def _is_whole(table: Table, partition: int, start: int, end: int) -> bool:
    """Whether each file is there that the table names for [start, end): a merge whose
    commit was lost may have taken the place of those that are not."""
    return all(
        os.path.lexists(os.path.join(table.path, file.relative_path))
        for file in table.snapshot.files.values()
        if file.partition == partition
        if file.first_offset < end and file.last_offset >= start
    )


def _below_start(path: str, number: TopicNumber, starts: Starts) -> bool:
    partition, _, end = _named(path)
    return end <= starts.get((number, partition), 0)


def _named(path: str) -> tuple[PartitionNumber, int, int]:
    """Partition, first offset and end of one of our files."""
    match = OURS.fullmatch(path)
    assert match is not None
    return PartitionNumber(int(match[1])), int(match[2]), int(match[3])


def _our_files(root: str) -> Iterator[tuple[str, int]]:
    """(Path, when it was written in ms) of each data file that the compactor named."""
    for directory in os.listdir(root):
        if not _DIRECTORY.fullmatch(directory):
            continue
        with os.scandir(os.path.join(root, directory)) as entries:
            for entry in entries:
                path = f"{directory}/{entry.name}"
                if OURS.fullmatch(path):
                    yield path, entry.stat().st_mtime_ns // 1_000_000 - AHEAD_MS


def _delete_begun(
    table: Table, sweep: Sweep, writing: str | None, now_ms: int, delay_ms: int
) -> bool:
    """Delete what killed workers had begun to write; whether some is too young."""
    directory = os.path.join(table.path, BEGUN)
    begun = {
        path: changed_ms
        for path, changed_ms in _begun_in(directory)
        if writing is None or writing not in path
    }
    dated = sweep.dated(table.topic.number, begun, now_ms, delay_ms)
    old = [path for path, since_ms in dated.items() if now_ms - since_ms >= delay_ms]
    for path in old:
        with suppress(FileNotFoundError):  # it was done, and has its place
            os.unlink(os.path.join(directory, path))
    return len(old) < len(dated)


def _begun_in(directory: str) -> Iterator[tuple[str, int]]:
    """(Name, when it changed last in ms) of each file that is being written."""
    with suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                yield entry.name, entry.stat().st_mtime_ns // 1_000_000


class Maintenance:
    """All passes over all tables, one after the other. ``is_short``: whether there is
    little space in the further warehouse of a name, or in the warehouse, of none."""

    def __init__(
        self, catalog: Catalog, tables: Tables, warehouse: str, in_log: InLog,
        delays: Delays, is_short: Callable[[str], bool],
        writing: Callable[[], str | None] = lambda: None,
        monotonic_ms: Callable[[], int] = lambda: 0,
    ) -> None:  # fmt: skip
        self._catalog, self._tables, self._warehouse = catalog, tables, warehouse
        self._in_log, self._delays, self._is_short = in_log, delays, is_short
        self._writing, self._monotonic_ms = writing, monotonic_ms
        self._rests: dict[TopicNumber, int] = {}
        self._sweep = Sweep()
        self._describer = Describer()
        self._remarks: dict[TopicNumber, list[str]] = {}
        """What was logged of tables whose owners ask for something odd."""
        self._aside: set[TopicNumber] = set()
        """Deleted topics whose tables left their place: a look loads what is there."""

    def suspect(self, numbers: Iterable[TopicNumber]) -> None:
        """A round failed in these topics, and may have left files."""
        self._sweep.suspect(numbers)

    def run(
        self,
        look: Callable[[], Mapping[TopicNumber, Topic]],
        now_ms: int,
        go_on: Callable[[], bool],
        is_free: Callable[[TopicNumber], bool] = lambda number: True,
    ) -> None:
        """One pass; ``go_on`` is asked before each table, and ``is_free``, whether
        anything may be committed to it. Failures are told.

        Topics are looked at behind the log starts: whoever lets a table keep its rows,
        and trims the log then, did so in this order.
        """
        starts = self._catalog.read(catalog_topics.load_log_starts)
        topics = list(look().values())
        known = {topic.number for topic in topics}
        self._sweep.forget(self._sweep.topics - known)
        self._describer.keep(known)
        self._rests = {n: ms for n, ms in self._rests.items() if n in known}
        self._remarks = {n: said for n, said in self._remarks.items() if n in known}
        is_short = cache(self._look_at_space)
        self._tables.keep(known)
        for table in self._tables.known(topics):
            if not go_on():
                return
            begun_ms, number = self._monotonic_ms(), table.topic.number
            if begun_ms < self._rests.get(number, 0) or not is_free(number):
                continue
            try:
                self._describer.describe(table, starts, now_ms)
                self._report_remarks(table)
                done = maintain_table(
                    table, starts, self._in_log, now_ms, self._delays.file_ms,
                    self._sweep, writing=self._writing(),
                    is_short=is_short(name_of(table.topic.configs)),
                )  # fmt: skip
            except Exception as error:  # noqa: BLE001  (an owner may do anything)
                log.warning("not maintained", topic=table.topic.name, why=str(error))
                self._sweep.suspect([table.topic.number])
                self._tables.forget(table.topic.number)
                continue
            ended_ms = self._monotonic_ms()
            self._rests[number] = ended_ms + REST * (ended_ms - begun_ms)
            if any(done.values()):
                log.info("maintained", topic=table.topic.name, **done)
        aside_ms, kept_ms = self._delays.aside_ms, self._delays.table_ms
        for deleted in self._catalog.read(catalog_topics.list_deleted):
            topic, age_ms = deleted.topic, now_ms - deleted.deleted_ms
            table_ms = aside_ms if is_short(name_of(topic.configs)) else kept_ms
            if age_ms >= min(table_ms, aside_ms) and go_on():
                self._end(topic, is_over=age_ms >= table_ms)

    def _report_remarks(self, table: Table) -> None:
        """Log, once, what keeps rows or files of a table, or breaks statements."""
        number, found = table.topic.number, remarks_of(table.snapshot)
        for remark in found:
            if remark not in self._remarks.get(number, ()):
                log.warning("a remark on a table", topic=table.topic.name, why=remark)
        self._remarks[number] = found

    def _look_at_space(self, name: str) -> bool:
        """Whether there is little space in a warehouse; if so that is logged."""
        is_short = self._is_short(name)
        if is_short:
            log.warning(
                "little space on the disk of the tables: nothing is kept for time "
                "travel", tables=link_of(self._warehouse, name),
            )  # fmt: skip
        return is_short

    def _end(self, topic: Topic, *, is_over: bool) -> None:
        """Move a deleted topic's table aside, once, or delete it."""
        if not is_over and topic.number in self._aside:
            return
        try:
            end = drop if is_over else leave_place
            name = name_of(topic.configs)
            end(self._warehouse, topic.name, topic.id.hex(), name)
        except Exception as error:  # noqa: BLE001  (an owner may do anything)
            log.warning("not dropped", topic=topic.name, why=str(error))
            return
        self._tables.forget(topic.number)
        self._aside.add(topic.number)
        if is_over:
            self._aside.remove(topic.number)
            self._catalog.change(
                lambda connection: catalog_topics.forget(connection, topic.number)
            )
            log.info("the table of a deleted topic is gone", topic=topic.name)
