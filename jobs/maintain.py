"""What has no place in a table any more: expired rows, orphans, deleted topics.

The problem: retention moves the start of a log, killed rounds leave files behind, and
deleted topics leave tables; yet somebody may be reading any of these files. The idea:
each thing leaves in two steps. First nothing refers to it (a commit, a rename); then,
after a delay, its bytes go. Only files that the compactor itself named are deleted:
what the owner's OPTIMIZE wrote, or replaced, is for the owner's VACUUM. A file that no
commit names is an orphan as long as it is so young that the log would tell if it left;
later nobody knows. And it is one only if its records are elsewhere, in the table or in
segments: else its commit was lost, and it may be their only copy.

All of this runs in the process that holds the lease, between rounds, so that no file of
a round in flight is taken for an orphan.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final
from urllib.parse import unquote

import structlog

from broker.catalog import topics as catalog_topics
from broker.catalog.catalog import Catalog
from broker.ids import PartitionNumber, TopicNumber, TopicPartition
from broker.topics.topic import Topic
from jobs.tables import Table, Tables
from lakehouse.actions import DataFile
from lakehouse.commit import drop, remove_files

OURS: Final = re.compile(r"partition=(\d+)/(\d{20})-(\d{20})-[0-9a-f-]+\.parquet")
"""What the compactor calls its files: partition, first offset, end."""
_DIRECTORY: Final = re.compile(r"partition=\d+")

log = structlog.get_logger("lakelog.compactor")

Starts = Mapping[TopicPartition, int]


InLog = Callable[[TopicPartition, int, int], bool]
"""Whether segments have all of [start, end) of a partition."""


def maintain_table(
    table: Table, starts: Starts, in_log: InLog, now_ms: int, delay_ms: int
) -> dict[str, int]:
    """One pass over one table; counts of what was done. Blocks.

    ``starts`` are the log starts of all partitions; ``delay_ms`` is how long a file
    stays after nothing refers to it.
    """
    removed = expire(table, starts, now_ms)
    deleted = delete_files(table, starts, in_log, now_ms, delay_ms)
    return {"files_expired": removed, "files_deleted": deleted}


def expire(table: Table, starts: Starts, now_ms: int) -> int:
    """Let the files that lie wholly below the log's start leave the table."""
    expired = [file for file in table.snapshot.files.values()
               if is_expired(file, table.topic.number, starts)]  # fmt: skip
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
    """Whether every row is below the log's start, as the statistics say."""
    return file.is_bounded and file.last_offset < starts.get(
        (number, PartitionNumber(file.partition)), 0
    )


def delete_files(
    table: Table, starts: Starts, in_log: InLog, now_ms: int, delay_ms: int
) -> int:
    """Delete files of ours that expired, and those that no commit ever named."""
    # The log after the listing: what was committed meanwhile is then seen as live.
    present = list(_our_files(table.path))
    table.follow()
    snapshot = table.snapshot
    live = {file.relative_path for file in snapshot.files.values()}
    removed = {unquote(path): when for path, when in snapshot.removed.items()}
    retention_ms = snapshot.deleted_file_retention_ms
    kept = set()
    for path, modified_ms in present:
        since_ms = removed.get(path, modified_ms)
        is_orphan = path not in removed and now_ms - modified_ms < retention_ms
        is_copy = is_orphan and _is_elsewhere(path, table, in_log)
        is_done_with = is_copy or _below_start(path, table.topic.number, starts)
        # What its owner rewrote stays: older versions may still be wanted.
        if path in live or not is_done_with or now_ms - since_ms < delay_ms:
            kept.add(path)
        else:
            os.unlink(os.path.join(table.path, path))
    snapshot.removed = {p: w for p, w in snapshot.removed.items() if unquote(p) in kept}
    return len(present) - len(kept)


def _is_elsewhere(path: str, table: Table, in_log: InLog) -> bool:
    """Whether the records of one of our files are in the table or in segments."""
    partition, start, end = _named(path)
    start = max(start, table.ends.get(partition, 0))
    return start >= end or in_log(table.topic.key(partition), start, end)


def _below_start(path: str, number: TopicNumber, starts: Starts) -> bool:
    partition, _, end = _named(path)
    return end <= starts.get((number, partition), 0)


def _named(path: str) -> tuple[PartitionNumber, int, int]:
    """Partition, first offset and end of one of our files."""
    match = OURS.fullmatch(path)
    assert match is not None
    return PartitionNumber(int(match[1])), int(match[2]), int(match[3])


def _our_files(root: str) -> Iterator[tuple[str, int]]:
    """(Path, time of last change in ms) of each data file that the compactor named."""
    for directory in os.listdir(root):
        if not _DIRECTORY.fullmatch(directory):
            continue
        with os.scandir(os.path.join(root, directory)) as entries:
            for entry in entries:
                path = f"{directory}/{entry.name}"
                if OURS.fullmatch(path):
                    yield path, entry.stat().st_mtime_ns // 1_000_000


class Maintenance:
    """All passes over all tables, one after the other."""

    def __init__(
        self, catalog: Catalog, tables: Tables, warehouse: str, in_log: InLog,
        file_delay_ms: int, table_delay_ms: int,
    ) -> None:  # fmt: skip
        self._catalog, self._tables, self._warehouse = catalog, tables, warehouse
        self._in_log = in_log
        self._file_delay_ms, self._table_delay_ms = file_delay_ms, table_delay_ms

    def run(self, topics: list[Topic], now_ms: int, go_on: Callable[[], bool]) -> None:
        """One pass; ``go_on`` is asked before each table. Failures are told."""
        starts = self._catalog.read(catalog_topics.load_log_starts)
        for table in self._tables.present(topics):
            if not go_on():
                return
            try:
                done = maintain_table(
                    table, starts, self._in_log, now_ms, self._file_delay_ms
                )
            except Exception as error:  # noqa: BLE001  (an owner may do anything)
                log.warning("not maintained", topic=table.topic.name, why=str(error))
                self._tables.forget(table.topic.number)
                continue
            if any(done.values()):
                log.info("maintained", topic=table.topic.name, **done)
        self._drop_deleted(now_ms, go_on)

    def _drop_deleted(self, now_ms: int, go_on: Callable[[], bool]) -> None:
        for deleted in self._catalog.read(catalog_topics.list_deleted):
            if now_ms - deleted.deleted_ms < self._table_delay_ms or not go_on():
                continue
            topic = deleted.topic
            try:
                drop(self._warehouse, topic.name, topic.id.hex())
            except Exception as error:  # noqa: BLE001  (as above)
                log.warning("not dropped", topic=topic.name, why=str(error))
                continue
            self._forget(topic)

    def _forget(self, topic: Topic) -> None:
        self._tables.forget(topic.number)
        self._catalog.change(
            lambda connection: catalog_topics.forget(connection, topic.number)
        )
        log.info("the table of a deleted topic is gone", topic=topic.name)
