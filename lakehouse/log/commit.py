"""Committing to a topic's table: the only writer of its Delta log on our side.

The problem: each range of offsets must be in the table exactly once, whatever process
is killed at whatever instant, however many compactors believe they are the one; and
Delta does not fsync. The idea: the table's own log decides. A commit carries two kinds
of ``txn`` action: ``<topic id>`` with the round's number, and
``<topic id>/<partition>`` with the end offset it brings that partition to. A range may
only be added where its start is the partition's end, as the log says; of two entries
of one version only one can be there. Ends outlive an owner's DELETE.

A commit is judged on a snapshot that follows the log, and put at the version after it.
Where another entry stands already, the snapshot takes it in and all is judged again, on
whatever it changed: files, ``txn`` actions, properties, columns, the protocol. That is
more than Delta's rules ask of an append that reads nothing. What leaves the table must
still be in it, and what is replaced still be as it was read.

Order of durability: data files first, then the entries of others, then ours, then its
directory; so an entry that survived a power cut names files that did. The entry is then
read back, since on a local disk another writer may overwrite it (Spark's LocalLogStore
renames); and the entry before it is looked for, and a checkpoint that is ahead: a
version that was cleaned away is free again, and what is put there is no part of the
table.

The price: of a snapshot that is followed, 2 ms for a hundred partitions and 0.2 a new
file, most of that its sync, whatever the age of the table; to load one takes as long as
its files are many. Tables that are not plain
(`lakehouse.log.ours`) are committed to by the library. Used by the compactor's process,
and by `lakelog erase` while that stands back; everything here blocks.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from lakehouse import properties
from lakehouse.durable import sync_files
from lakehouse.errors import CommitLost, CommitRefused, RowsInTheWay
from lakehouse.files.foreign_rows import ForeignRows, foreign_rows
from lakehouse.in_flight import is_over, keep
from lakehouse.log import library
from lakehouse.log.actions import DataFile, parse_commit, reported
from lakehouse.log.attempts import COMMIT_ATTEMPTS, Committed, commit_judged, current
from lakehouse.log.delta_log import Snapshot, table_ends
from lakehouse.log.entry import (
    Removal,
    Removals,
    Replacement,
    Round,
    removals_entry,
    replacement_entry,
    round_entry,
)
from lakehouse.log.in_commit import moment_of
from lakehouse.log.next_entry import Step, put_next, sync_entries, text_of
from lakehouse.log.ours import why_not_cleaned, why_not_merged
from lakehouse.new_file import NewFile
from lakehouse.properties import partition_application
from lakehouse.tables import (
    create_table,
    drop,
    leave_place,
    repair,
    set_aside,
)

__all__ = [
    "COMMIT_ATTEMPTS",
    "Committed",
    "NewFile",
    "commit_files",
    "create_table",
    "drop",
    "leave_place",
    "remove_files",
    "repair",
    "replace_files",
    "set_aside",
]

Ranges = Mapping[int, tuple[int, int]]
"""Partition -> [first offset, end offset)."""


def _nothing() -> None:
    """No failpoint."""


def commit_files(
    path: str,
    topic_id: str,
    round_number: int,
    ranges: Ranges,
    files: Sequence[NewFile],
    *,
    records: Mapping[int, int] | None = None,
    known_ends: Mapping[int, int] | None = None,
    snapshot: Snapshot | None = None,
    on_written: Step = _nothing,
    on_committed: Step = _nothing,
) -> Committed:
    """Add ``files`` as one round: all of ``ranges``, durable when this returns.

    A range may hold no rows at all. ``records``: how many records the log held in each
    range, for who audits the table later; left out, the commit does not say.
    ``known_ends``: where the caller saw partitions end; one that has no end any more
    lost its commits. ``snapshot`` is one that follows the table, and is brought to what
    the log says now, our entry included; without it the table is loaded.
    ``on_written`` is called when our entry waits for its name, ``on_committed`` between
    the commit and its fsync (failpoints). Repeating a round that is there is a no-op.

    Raises RowsInTheWay when the table has rows in a range; CommitRefused when it stands
    elsewhere than the ranges begin, or is to forget its ends, or other writers are
    faster all the time; CommitLost when the entry is not there when read back; OSError
    when a file is not as it is described or cannot be synced; TableMissing and
    LogDamaged.
    """
    assert ranges, "a round covers something"
    table = current(path, topic_id, snapshot)
    _check_ends_are_kept(table)
    if _is_there(table, topic_id, round_number, ranges):
        sync_entries(table, table.version)
        return Committed(table.version, was_there=True)
    _check_and_sync_files(path, ranges, files)
    said = _said(ranges, records)
    added = Round(files, _transactions(topic_id, round_number, ranges), said)

    def judge() -> None:
        _check_ends_are_kept(table)
        _check_starts(table, topic_id, ranges, known_ends or {})
        _check_no_rows(table, topic_id, ranges)

    def ours(version: int) -> bool:
        text = round_entry(added, version, moment_of(table, _now_ms()))
        look = _still_there(path, files, on_written)
        return put_next(table, text, look, on_committed)

    def librarys(version: int) -> bool:
        if not library.commit_round(path, version, added):
            return False
        on_committed()
        wanted = {topic_id: round_number}
        _read_back(path, version, wanted, {file.path for file in files})
        return True

    return commit_judged(table, topic_id, judge, ours, librarys)


def remove_files(
    path: str,
    topic_id: str,
    files: Iterable[tuple[str, int, int] | tuple[str, int, int, int]],
    *,
    now_ms: int,
    log_starts: Mapping[int, int],
    snapshot: Snapshot | None = None,
) -> Committed:
    """Let files leave the table: retention. Their bytes stay until they are deleted.

    ``files`` are (path as in the log, partition, size, rows if known); ``snapshot`` as
    in `commit_files`. Raises CommitRefused when the owner changed one of them
    meanwhile: look again.
    """
    table = current(path, topic_id, snapshot)
    starts = {str(p): offset for p, offset in log_starts.items()}
    named = [Removal(*file) for file in files]
    assert named, "there is something to remove"

    def judge() -> None:
        for file in named:
            if file.path not in table.files:
                raise CommitRefused(f"{path}: {file.path} is not in it any more")

    def gone() -> Removals:
        leaving = [f._replace(vector=table.files[f.path].vector) for f in named]
        return Removals(leaving, now_ms, {properties.LOG_START: starts})

    def ours(version: int) -> bool:
        text = removals_entry(gone(), version, moment_of(table, _now_ms()))
        return put_next(table, text, _nothing, _nothing)

    def librarys(version: int) -> bool:
        if not library.commit_removals(path, version, gone()):
            return False
        _read_back(path, version, {}, {file.path for file in named})
        return True

    return commit_judged(table, topic_id, judge, ours, librarys, removes=True)


def replace_files(
    path: str,
    topic_id: str,
    gone: Sequence[DataFile],
    files: Sequence[NewFile],
    *,
    schema: str,
    now_ms: int,
    cleaned: tuple[int, int] | None = None,
    erased: tuple[str, int] | None = None,
    snapshot: Snapshot | None = None,
    on_written: Step = _nothing,
    on_committed: Step = _nothing,
) -> Committed:
    """Put ``files`` in the place of ``gone``, files of one partition: the same rows,
    and none is changed. The bytes of ``gone`` stay until they are deleted.

    ``cleaned``: key compaction of [first offset, end offset): rows may be fewer.
    ``erased``: (request, rows) somebody wants gone: fewer, or none, and no ``files``.
    ``schema``: the table's, as of when the files were read; the rest as in
    `commit_files`. Raises CommitRefused when anybody changed one of the files since, or
    the columns, or asks more of the table now, or other rows would stand there, or one
    of ``files`` waited for so long that a VACUUM may be about to take it; else as
    `commit_files`.
    """
    assert gone, "there is something to replace"
    table = current(path, topic_id, snapshot)
    partition, rows = gone[0].partition, sum(file.rows for file in gone)
    keeps_rows = cleaned is None and erased is None
    kept = _check_rows(path, gone, files, is_same=keeps_rows, none=erased is not None)
    reach = min(f.first_offset for f in gone), max(f.last_offset for f in gone) + 1
    _check_is_young(path, files)
    _check_and_sync_files(path, {partition: reach}, files)
    removals = [
        Removal(file.path, partition, file.size, vector=file.vector) for file in gone
    ]
    said, deleted = _said_of_rows(gone, rows, kept, cleaned, erased)
    replaced = Replacement(removals, files, now_ms, said, deleted, erased is not None)
    why_not = why_not_merged if keeps_rows else why_not_cleaned

    def judge() -> None:
        why = why_not(table.protocol, table.metadata) or table.unreadable
        if why is not None:
            raise CommitRefused(f"{path}: {why}")
        if table.metadata is None or table.metadata.schema_string != schema:
            raise CommitRefused(f"{path}: its columns were changed")
        for file in gone:
            if table.files.get(file.path) != file:
                raise CommitRefused(f"{path}: {file.path} was changed or is gone")

    def ours(version: int) -> bool:
        text = replacement_entry(replaced, version, moment_of(table, _now_ms()))
        look = _still_there(path, files, on_written)
        return put_next(table, text, look, on_committed)

    def librarys(version: int) -> bool:
        if not library.commit_replacement(path, version, replaced):
            return False
        on_committed()
        named = {file.path for file in files} | {file.path for file in removals}
        _read_back(path, version, {}, named)
        return True

    return commit_judged(table, topic_id, judge, ours, librarys, moves=True)


def _said_of_rows(
    gone: Sequence[DataFile],
    rows: int,
    kept: int,
    cleaned: tuple[int, int] | None,
    erased: tuple[str, int] | None,
) -> tuple[dict[str, Any], int | None]:
    """What a replacement says of its rows, and how many leave; None: none may."""
    files, partition = len(gone), str(reported(gone[0].partition))
    if cleaned is not None:
        counts = [*cleaned, files, rows, kept]
        return {properties.CLEANED: {partition: counts}}, rows - kept
    if erased is not None:
        request, deleted = erased
        said = {"request": request, partition: [files, kept, deleted]}
        return {properties.ERASED: said}, deleted
    return {properties.MERGED: {partition: [files, rows]}}, None


def _check_rows(
    path: str,
    gone: Sequence[DataFile],
    files: Sequence[NewFile],
    *,
    is_same: bool,
    none: bool,
) -> int:
    """How many rows come. They are of the partition of those that leave, and as many;
    or, if they are not the same, fewer; none, if that may be."""
    partitions = {f.partition for f in gone} | {f.partition for f in files}
    assert len(partitions) == 1, "of one partition"
    before, after = sum(f.rows for f in gone), sum(f.rows for f in files)
    is_unknown = any(f.rows < 0 for f in gone)  # its owner's log has no statistics
    if none and (is_unknown or after <= before):
        return after  # as many, if only rows left that had been deleted before
    if after != before and (is_same or not 0 < after < before):
        raise CommitRefused(f"{path}: {after} rows are not the {before} of its files")
    return after


def _now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)


def _said(ranges: Ranges, records: Mapping[int, int] | None) -> dict[str, Any]:
    said: dict[str, Any] = {
        properties.RANGES: {str(p): list(pair) for p, pair in ranges.items()}
    }
    if records is not None:
        said[properties.ROWS] = {str(p): records.get(p, 0) for p in ranges}
    return said


def _is_there(
    table: Snapshot, topic_id: str, round_number: int, ranges: Ranges
) -> bool:
    """Whether this very round was committed before."""
    done = table.transactions.get(topic_id, 0)
    if done < round_number:
        return False
    ends = table_ends(table, topic_id)
    if all(ends.get(p, 0) >= end for p, (_, end) in ranges.items()):
        return True
    raise CommitRefused(
        f"{table.path}: round {round_number} is not above {done}, and {ends} "
        f"is short of {dict(ranges)}"
    )


def _check_starts(
    table: Snapshot, topic_id: str, ranges: Ranges, known_ends: Mapping[int, int]
) -> None:
    """A range may only be added where the partition's table ends.

    A partition with no ``txn`` yet may begin anywhere: its log may start above 0. But
    its table has no rows of that range then: see `_check_no_rows`.
    """
    ends = table_ends(table, topic_id)
    for p, (first, end) in ranges.items():
        assert first < end, f"partition {p}: [{first}, {end}) is empty"
        known = ends.get(p)
        if known is None and p in known_ends:
            raise CommitRefused(
                f"{table.path}: partition {p} ended at {known_ends[p]}, and no "
                "commit says so any more"
            )
        if known is not None and known != first:
            raise CommitRefused(
                f"{table.path}: partition {p} ends at {known}, not at {first}"
            )


def _check_no_rows(table: Snapshot, topic_id: str, ranges: Ranges) -> None:
    """No file may have rows in a range: they are an owner's own, or of commits that
    were forgotten. Raises RowsInTheWay."""
    near = {p: span for p, span in ranges.items() if table.reaches(p, span[0])}
    found = foreign_rows(table.path, table.files.values(), near) if near else {}
    if found:
        ends = table_ends(table, topic_id)
        sentences = {p: _sentence(p, found[p], ends.get(p)) for p in sorted(found)}
        raise RowsInTheWay(table.path, sentences)


def _sentence(partition: int, rows: ForeignRows, end: int | None) -> str:
    where = f"partition {partition} has rows at offsets {rows.low} to {rows.high}"
    if end is None:
        return f"{where}, and no commit says where it ends ({rows.path})"
    return (
        f"{where}, where records are to come, and these can come once its owner has "
        f"deleted those ({rows.path})"
    )


def _check_ends_are_kept(table: Snapshot) -> None:
    """Spark's checkpoints leave our ``txn`` actions out when these may expire."""
    duration = table.configuration.get(properties.TRANSACTIONS_EXPIRE)
    if duration is not None:
        raise CommitRefused(
            f"{table.path}: {properties.TRANSACTIONS_EXPIRE} is {duration}: it "
            "would let the table forget how far it reaches; unset it"
        )


def _check_and_sync_files(path: str, ranges: Ranges, files: Sequence[NewFile]) -> None:
    """Files are what the entry will say of them, and durable before it."""
    for file in files:
        first, end = ranges[file.partition]
        assert file.nameless == file.rows or (
            first <= file.first_offset <= file.last_offset < end
        ), file
        size = os.path.getsize(os.path.join(path, file.path))
        if size != file.size:
            raise OSError(f"{path}/{file.path} has {size} bytes, not {file.size}")
        keep(os.path.join(path, file.path))
    sync_files(path, [file.path for file in files])


def _check_is_young(path: str, files: Sequence[NewFile]) -> None:
    """What may be gone soon takes the place of nothing."""
    for file in files:
        if is_over(os.path.join(path, file.path), file.modified_ms):
            raise CommitRefused(
                f"{path}: {file.path} waited so long for its commit that a VACUUM may "
                "be about to take it"
            )


def _still_there(path: str, files: Sequence[NewFile], on_written: Step) -> Step:
    """``on_written``, and a last look: to another compactor, which came when this one
    had been stopped for a minute, files that no commit names were orphans; and to a
    VACUUM that came before, they were old."""

    def look() -> None:
        on_written()
        for file in files:
            try:
                keep(os.path.join(path, file.path))
            except FileNotFoundError as error:
                raise CommitRefused(f"{path}: {file.path} went meanwhile") from error

    return look


def _transactions(topic_id: str, round_number: int, ranges: Ranges) -> dict[str, int]:
    ends = {
        partition_application(topic_id, p): end
        for p, (_, end) in sorted(ranges.items())
    }
    return {topic_id: round_number} | ends


def _read_back(
    path: str, read_version: int, transactions: Mapping[str, int], paths: set[str]
) -> None:
    """The entry that the library put after a version holds what was committed."""
    text = text_of(path, read_version + 1)
    if text is not None:
        commit = parse_commit(read_version + 1, text)
        found = {file.path for file in commit.adds} | set(commit.removes)
        if found == paths and transactions.items() <= commit.transactions.items():
            return
    raise CommitLost(
        f"{path}: the commit after version {read_version} is not in the log"
    )
