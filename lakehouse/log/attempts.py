"""One commit to a topic's table, tried after the last entry that was followed.

The problem: between a look at the log and our entry anybody may commit. The idea: what
is to be written is judged on a snapshot that follows the log, and put at the version
after it; where another entry stands already, the snapshot takes it in and all is judged
again. Tables that are not plain (`lakehouse.log.ours`) are committed to by the library.

Used by the compactor's process, and by tools while none runs; everything here blocks.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from lakehouse.errors import CommitRefused, LogDamaged
from lakehouse.log.delta_log import Snapshot, follow, load
from lakehouse.log.log_store import drop_left, drop_left_beyond
from lakehouse.log.next_entry import Step, check_goes_on, sync_entries
from lakehouse.log.ours import why_no_commit, why_not_ours, why_nothing_leaves

COMMIT_ATTEMPTS = 16
"""Others may commit between our look and our entry; each time all is checked again."""


class Committed(NamedTuple):
    """What a commit came to: its table version, or that an earlier try had made it."""

    version: int
    was_there: bool = False


def commit_judged(
    table: Snapshot,
    topic_id: str,
    judge: Step,
    ours: Callable[[int], bool],
    librarys: Callable[[int], bool],
    *,
    removes: bool = False,
    moves: bool = False,
) -> Committed:
    """Judge, and write the entry after what was judged, until nobody was faster.

    ``ours`` and ``librarys`` write the entry after a version, ``ours`` durably; False:
    another one is there. ``removes`` and ``moves`` as of
    `lakehouse.log.ours.why_not_ours`. Raises CommitRefused, also where something
    ``removes`` and nothing may leave.
    """
    for _ in range(COMMIT_ATTEMPTS):
        judge()
        if removes and (kept := why_nothing_leaves(table.metadata)):
            raise CommitRefused(f"{table.path}: {kept}")
        before, refused = table.version, None
        odd = why_not_ours(table.protocol, table.metadata, removes=removes, moves=moves)
        drop_left(table.path, before + 1)  # readers would believe them of ours
        try:
            done = _by_library(table, librarys) if odd else ours(before)
        except CommitRefused as error:
            done, refused = False, _because(odd, error)
        if done:
            with suppress(LogDamaged, OSError):  # what comes after ours
                follow(table)
            return Committed(before + 1)
        if not _take_in(table, topic_id):
            raise refused or CommitRefused(f"{table.path}: its log moves")
    raise CommitRefused(f"{table.path}: others commit faster all the time")


def _by_library(table: Snapshot, librarys: Callable[[int], bool]) -> bool:
    """As `put_next` does it: a whole one of ours proves all before it."""
    version = table.version
    sync_entries(table, version)
    done = librarys(version)
    if done:
        sync_entries(table, version + 1)
    return done


def _because(odd: str | None, error: CommitRefused) -> CommitRefused:
    """The error, behind what of the table made it the library's to commit to."""
    return error if odd is None else CommitRefused(f"{odd} ({error})")


def current(path: str, topic_id: str, snapshot: Snapshot | None) -> Snapshot:
    """The table as its log says now, refused when it is another topic's."""
    table = load(path, keep_removed=False) if snapshot is None else snapshot
    assert table.path == path, "the snapshot is this table's"
    _take_in(table, topic_id)
    if snapshot is None:  # else it was done when that was loaded
        drop_left_beyond(path)
    return table


def _take_in(table: Snapshot, topic_id: str) -> bool:
    """Follow the log; whether there was something. Raises CommitRefused when it is no
    longer the log that was followed, or is torn, or another topic's; or cannot be read,
    or not our files by its columns: nobody would get what we add, and who restores what
    was before would lose it.
    """
    check_goes_on(table)
    commits = follow(table)
    if table.torn is not None:
        raise CommitRefused(table.torn)
    if table.unreadable is not None:
        raise CommitRefused(f"{table.path}: {table.unreadable}")
    if table.topic_id != topic_id:
        raise CommitRefused(
            f"{table.path} belongs to topic id {table.topic_id}, not {topic_id}"
        )
    lost = why_no_commit(table.metadata)
    if lost is not None:
        raise CommitRefused(f"{table.path}: {lost}")
    return bool(commits)
