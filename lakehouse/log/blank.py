"""Log entries that are empty get something to say: that nothing was done.

The problem: a power cut may leave an entry of an owner's without a byte, and Delta's
readers take that for a version without actions. So a stream may stand behind it, and
its owner may have gone on. Were its version given to another commit, that stream would
never see what it brought. The idea: what others have read stays a version that did
nothing, and says so, in the place where it is. The file's own time is when it was made.

Used by the compactor's process only; everything here blocks.
"""

import os
from contextlib import suppress

from lakehouse.errors import LogDamaged, TableMissing
from lakehouse.log.actions import parse_commit
from lakehouse.log.delta_log import (
    Snapshot,
    entry_path,
    entry_versions,
    follow,
    load_version,
    read_entry,
)
from lakehouse.log.entry import repair_entry
from lakehouse.log.in_commit import moment_of
from lakehouse.log.log_store import put_for_blank
from lakehouse.log.next_entry import sync_entries
from lakehouse.log.provenance import is_ours
from lakehouse.log.torn import is_blank


def fill_last(table: Snapshot, count: int) -> None:
    """Fill in so many empty entries behind the last one that was followed, the lowest
    first: who is killed meanwhile leaves fewer. The snapshot takes them in."""
    for _ in range(count):
        _fill(table)
        follow(table)


def fill_between(path: str, topic_id: str) -> bool:
    """Fill in the empty entries that a whole one of an owner's follows, of the topic's
    table; was there one? What is torn and has bytes was whole when that was made, and
    so was whatever one of ours follows, which syncs all that is before it: damage."""
    filled = False
    for version in _between(path):
        with suppress(TableMissing, LogDamaged):
            table = load_version(path, version - 1)
            if table.topic_id == topic_id:
                filled |= _fill(table, is_last=False)
    return filled


def _between(path: str) -> list[int]:
    found: list[int] = []
    blank: list[int] = []
    for version in entry_versions(path):
        if is_blank(entry_path(path, version)):
            blank.append(version)
        elif found or blank:
            text = _whole(path, version)
            if text is not None:
                found = [] if is_ours(text.decode()) else found + blank
            blank = []
    return found


def _whole(path: str, version: int) -> bytes | None:
    try:
        text = read_entry(path, version)
        parse_commit(version, text)
    except (OSError, ValueError, LogDamaged):
        return None
    return text


def _fill(table: Snapshot, *, is_last: bool = True) -> bool:
    """Fill in the next entry, if it is there and empty. One that others follow was made
    before them, whatever its file says: just behind the one before it."""
    version = table.version + 1
    try:
        made_ns = os.stat(entry_path(table.path, version)).st_mtime_ns
    except FileNotFoundError:
        return False
    made_ms = made_ns // 1_000_000
    moment = moment_of(table, made_ms if is_last else 0)._replace(now_ms=made_ms)
    sync_entries(table, table.version)  # a whole one of ours proves all before it
    entry = repair_entry(table.version, moment)
    return put_for_blank(table.path, version, entry, made_ns)
