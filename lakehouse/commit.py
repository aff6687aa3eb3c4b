"""Committing to a topic's table: the only writer of its Delta log on our side.

The problem: each range of offsets must be in the table exactly once, whatever process
is killed at whatever instant, however many compactors believe they are the one; and
Delta does not fsync. The idea: the table's own log decides. A commit carries two kinds
of ``txn`` action: ``<topic id>`` with the round's number, and
``<topic id>/<partition>`` with the end offset it brings that partition to. A range may
only be added where its start is the partition's end, as the log says; two commits that
carry the same ``txn`` cannot both land, as Delta's conflict check says. Ends outlive an
owner's DELETE.

Order of durability: data files first, then the entry, then its directory; so an entry
that survived a power cut names files that did. The entry is then read back, since on a
local disk another writer may overwrite it (Spark's LocalLogStore renames).

The price: 3-13 ms a commit, most of it in the library's reading of the log. Used by the
compactor's process only; everything here blocks.
"""

import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import deltalake
import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from lakehouse import properties
from lakehouse.actions import parse_commit
from lakehouse.delta_log import LOG_DIRECTORY, entry_path, load, read_entry
from lakehouse.durable import (
    SyncFailed,
    sync_directory,
    sync_file,
    sync_files,
    write_anew,
)
from lakehouse.ends import ends_of
from lakehouse.errors import CommitLost, CommitRefused, RowsInTheWay, TableMissing
from lakehouse.foreign_rows import ForeignRows, foreign_rows
from lakehouse.new_file import NewFile, add_action
from lakehouse.properties import partition_application
from lakehouse.tables import (
    create_table,
    drop,
    repair,
    repair_checkpoint,
    set_aside,
)

__all__ = [
    "Committed",
    "NewFile",
    "commit_files",
    "create_table",
    "drop",
    "remove_files",
    "repair",
    "repair_checkpoint",
    "set_aside",
]

Ranges = Mapping[int, tuple[int, int]]
"""Partition -> [first offset, end offset)."""

_NO_HOOKS = deltalake.PostCommitHookProperties(
    create_checkpoint=False, cleanup_expired_logs=False
)
_READ_BACK_VERSIONS = 1000
COMMIT_ATTEMPTS = 15
"""Others may commit between our look and our entry; each time all is checked again."""


class Committed(NamedTuple):
    """What a commit came to: its table version, or that an earlier try had made it."""

    version: int
    was_there: bool = False


def commit_files(
    path: str,
    topic_id: str,
    round_number: int,
    ranges: Ranges,
    files: Sequence[NewFile],
    *,
    records: Mapping[int, int] | None = None,
    known_ends: Mapping[int, int] | None = None,
    on_committed: Callable[[], None] = lambda: None,
) -> Committed:
    """Add ``files`` as one round: all of ``ranges``, durable when this returns.

    A range may hold no rows at all. ``records``: how many records the log held in each
    range, for who audits the table later; left out, the commit does not say.
    ``known_ends``: where the caller saw partitions end; one that has no end any more
    lost its commits.
    ``on_committed`` is called between the commit and its fsync (a failpoint). Repeating
    a round that is there is a no-op.

    Raises RowsInTheWay when the table has rows in a range; CommitRefused when it stands
    elsewhere than the ranges begin, or is to forget its ends, or other writers are
    faster all the time; CommitLost when the entry is not there when read back; OSError
    when a file is not as it is described or cannot be synced.
    """
    assert ranges, "a round covers something"
    table = _open(path, topic_id)
    _check_ends_are_kept(table)
    if _is_there(path, table, topic_id, round_number, ranges):
        _sync_entries(path, topic_id, table.version())
        return Committed(table.version(), was_there=True)
    _check_and_sync_files(path, ranges, files)
    for attempt in itertools.count(1):
        _check_ends_are_kept(table)
        _check_starts(path, table, topic_id, ranges, known_ends or {})
        _check_no_rows(path, table, topic_id, ranges)
        try:
            _write(
                table,
                [add_action(file) for file in files],
                _round_metadata(ranges, records),
                _transactions(topic_id, round_number, ranges),
                retries=0,
            )
            break
        except CommitRefused:
            if attempt == COMMIT_ATTEMPTS or not _moved(table, topic_id):
                raise
    on_committed()
    wanted = {topic_id: round_number}
    version = _read_back(path, table.version(), wanted, {file.path for file in files})
    _sync_entries(path, topic_id, version)
    _checkpoint_if_due(path, version)
    return Committed(version)


def _moved(table: deltalake.DeltaTable, topic_id: str) -> bool:
    """Take in what others committed meanwhile; whether there was something."""
    before = table.version()
    try:
        table.update_incremental()
    except DeltaError as error:
        raise CommitRefused(f"{table.table_uri}: {error}") from error
    _check_identity(table, topic_id)
    return table.version() > before


def _round_metadata(
    ranges: Ranges, records: Mapping[int, int] | None
) -> dict[str, Any]:
    said: dict[str, Any] = {
        properties.RANGES: {str(p): list(pair) for p, pair in ranges.items()}
    }
    if records is not None:
        said[properties.ROWS] = {str(p): records.get(p, 0) for p in ranges}
    return said


def remove_files(
    path: str,
    topic_id: str,
    files: Iterable[tuple[str, int, int]],
    *,
    now_ms: int,
    log_starts: Mapping[int, int],
) -> Committed:
    """Let files leave the table: retention. Their bytes stay until they are deleted.

    ``files`` are (path as in the log, partition, size). Raises CommitRefused when the
    owner changed one of them meanwhile: look again.
    """
    table = _open(path, topic_id)
    actions: list[AddAction | RemoveAction] = [
        RemoveAction(name, True, now_ms, size, {"partition": str(partition)})
        for name, partition, size in files
    ]
    assert actions, "there is something to remove"
    starts = {str(p): offset for p, offset in log_starts.items()}
    _write(table, actions, {properties.LOG_START: starts}, [])
    gone = {action.path for action in actions}
    version = _read_back(path, table.version(), {}, gone)
    _sync_entries(path, topic_id, version)
    _checkpoint_if_due(path, version)
    return Committed(version)


def _open(path: str, topic_id: str) -> deltalake.DeltaTable:
    """The table at its newest version, refused when it is another topic's."""
    try:
        table = deltalake.DeltaTable(path)
    except TableNotFoundError as error:
        raise TableMissing(f"{path} holds no Delta table") from error
    except DeltaError as error:
        raise CommitRefused(f"{path}: {error}") from error
    _check_identity(table, topic_id)
    return table


def _check_identity(table: deltalake.DeltaTable, topic_id: str) -> None:
    found = table.metadata().configuration.get(properties.TOPIC_ID)
    if found != topic_id:
        raise CommitRefused(
            f"{table.table_uri} belongs to topic id {found}, not {topic_id}"
        )


def _is_there(
    path: str,
    table: deltalake.DeltaTable,
    topic_id: str,
    round_number: int,
    ranges: Ranges,
) -> bool:
    """Whether this very round was committed before."""
    if (table.transaction_version(topic_id) or 0) < round_number:
        return False
    counted = _counted(path, table)
    done = counted.get(topic_id, 0)
    if done < round_number:
        return False
    ends = ends_of(counted, topic_id)
    if all(ends.get(p, 0) >= end for p, (_, end) in ranges.items()):
        return True
    raise CommitRefused(
        f"{table.table_uri}: round {round_number} is not above {done}, and {ends} "
        f"is short of {dict(ranges)}"
    )


def _counted(path: str, table: deltalake.DeltaTable) -> Mapping[str, int]:
    """The ``txn`` actions that count: the library believes each."""
    snapshot = load(path)
    if snapshot.version != table.version():
        raise CommitRefused(f"{table.table_uri}: it moves while it is looked at")
    return snapshot.transactions


def _check_starts(
    path: str,
    table: deltalake.DeltaTable,
    topic_id: str,
    ranges: Ranges,
    known_ends: Mapping[int, int],
) -> None:
    """A range may only be added where the partition's table ends.

    A partition with no ``txn`` yet may begin anywhere: its log may start above 0. But
    its table has no rows of that range then: see `_check_no_rows`.
    """
    ends = {
        p: table.transaction_version(partition_application(topic_id, p)) for p in ranges
    }
    if any(end not in (None, ranges[p][0]) for p, end in ends.items()):
        ends |= dict.fromkeys(ends) | ends_of(_counted(path, table), topic_id)
    for p, (first, end) in ranges.items():
        assert first < end, f"partition {p}: [{first}, {end}) is empty"
        known = ends[p]
        if known is None and p in known_ends:
            raise CommitRefused(
                f"{table.table_uri}: partition {p} ended at {known_ends[p]}, and no "
                "commit says so any more"
            )
        if known is not None and known != first:
            raise CommitRefused(
                f"{table.table_uri}: partition {p} ends at {known}, not at {first}"
            )


def _check_no_rows(
    path: str, table: deltalake.DeltaTable, topic_id: str, ranges: Ranges
) -> None:
    """No file may have rows in a range: they are an owner's own, or of commits that
    were forgotten. Raises RowsInTheWay."""
    adds: Any = pa.table(table.get_add_actions(flatten=True))
    found = foreign_rows(path, adds, ranges)
    if found:
        raise RowsInTheWay(
            table.table_uri,
            {
                p: _sentence(p, rows, table.transaction_version(application))
                for p, rows in sorted(found.items())
                for application in [partition_application(topic_id, p)]
            },
        )


def _sentence(partition: int, rows: ForeignRows, end: int | None) -> str:
    where = f"partition {partition} has rows at offsets {rows.low} to {rows.high}"
    if end is None:
        return f"{where}, and no commit says where it ends ({rows.path})"
    return (
        f"{where}, where records are to come, and these can come once its owner has "
        f"deleted those ({rows.path})"
    )


def _check_ends_are_kept(table: deltalake.DeltaTable) -> None:
    """Spark's checkpoints leave our ``txn`` actions out when these may expire."""
    duration = table.metadata().configuration.get(properties.TRANSACTIONS_EXPIRE)
    if duration is not None:
        raise CommitRefused(
            f"{table.table_uri}: {properties.TRANSACTIONS_EXPIRE} is {duration}: it "
            "would let the table forget how far it reaches; unset it"
        )


def _check_and_sync_files(path: str, ranges: Ranges, files: Sequence[NewFile]) -> None:
    """Files are what the entry will say of them, and durable before it."""
    for file in files:
        first, end = ranges[file.partition]
        assert first <= file.first_offset <= file.last_offset < end, file
        size = os.path.getsize(os.path.join(path, file.path))
        if size != file.size:
            raise OSError(f"{path}/{file.path} has {size} bytes, not {file.size}")
    sync_files(path, [file.path for file in files])


def _transactions(
    topic_id: str, round_number: int, ranges: Ranges
) -> list[deltalake.Transaction]:
    ends = [
        deltalake.Transaction(partition_application(topic_id, p), end)
        for p, (_, end) in sorted(ranges.items())
    ]
    return [deltalake.Transaction(topic_id, round_number), *ends]


def _write(
    table: deltalake.DeltaTable,
    actions: list[AddAction | RemoveAction],
    metadata: dict[str, Any],
    transactions: list[deltalake.Transaction],
    retries: int | None = None,
) -> None:
    """Write one log entry. Raises CommitRefused when somebody was faster more often
    than the library may look again, without any of our checks (None: 15 times)."""
    try:
        table.create_write_transaction(
            actions,
            "append",
            table.schema(),
            partition_by=["partition"],
            commit_properties=deltalake.CommitProperties(
                custom_metadata=metadata,
                app_transactions=transactions,
                max_commit_retries=retries,
            ),
            post_commithook_properties=_NO_HOOKS,
        )
    except (CommitFailedError, DeltaError) as error:
        raise CommitRefused(f"{table.table_uri}: {error}") from error


def _read_back(
    path: str, version: int, transactions: Mapping[str, int], paths: set[str]
) -> int:
    """The version that our commit became: the entry that holds what was committed."""
    for candidate in range(version + 1, version + 1 + _READ_BACK_VERSIONS):
        try:
            commit = parse_commit(candidate, read_entry(path, candidate))
        except FileNotFoundError:
            break
        found = {file.path for file in commit.adds} | set(commit.removes)
        if found == paths and transactions.items() <= commit.transactions.items():
            return candidate
    raise CommitLost(f"{path}: the commit after version {version} is not in the log")


_synced: dict[tuple[str, str], int] = {}
"""(Path, topic id) -> last log entry that this process synced."""


def _sync_entries(path: str, topic_id: str, version: int) -> None:
    """Sync the log up to ``version``, entries of other writers included."""
    first = _synced.get((path, topic_id), version - properties.CHECKPOINT_INTERVAL) + 1
    for candidate in range(max(0, first), version + 1):
        try:
            _sync_entry(entry_path(path, candidate))
        except FileNotFoundError:
            if candidate == version:
                raise
    sync_directory(os.path.join(path, LOG_DIRECTORY))
    _synced[path, topic_id] = version


def _sync_entry(entry: str) -> None:
    """Others believe the entry, and would believe its next sync: so it is not left."""
    try:
        sync_file(entry)
    except SyncFailed:
        write_anew(entry)


def _checkpoint_if_due(path: str, version: int) -> None:
    """Every hundredth version; the expired part of the log goes with it."""
    if version % properties.CHECKPOINT_INTERVAL:
        return
    table = deltalake.DeltaTable(path, version=version)
    table.create_checkpoint()
    directory = os.path.join(path, LOG_DIRECTORY)
    sync_file(os.path.join(directory, f"{version:020d}.checkpoint.parquet"))
    sync_file(os.path.join(directory, "_last_checkpoint"))
    sync_directory(directory)
    table.cleanup_metadata()
