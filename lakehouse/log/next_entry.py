"""Our entry at the version after the last one that was followed.

The problem: that version may be taken, or be overwritten; and a log that its owner
cleaned meanwhile has free versions that are no part of the table. The idea: all that
was followed is synced (`lakehouse.log.named_files`), the entry is put where none is,
and then it is read back, and what it follows is looked for. The price: some small
reads.

Used by the compactor's process only; everything here blocks.
"""

import os
from collections.abc import Callable
from contextlib import suppress

from lakehouse import properties
from lakehouse.durable import sync_directory, sync_or_write_anew
from lakehouse.errors import CommitLost, CommitRefused
from lakehouse.log.checkpoint import complete_checkpoints, hinted_version
from lakehouse.log.delta_log import (
    LOG_DIRECTORY,
    Snapshot,
    entry_path,
    is_gone,
    read_entry,
)
from lakehouse.log.log_store import put_if_absent
from lakehouse.log.named_files import (
    sum_of,
    sync_checkpoint,
    sync_named,
    sync_opened,
)

Step = Callable[[], None]


def check_goes_on(table: Snapshot) -> None:
    """Raise CommitRefused if the last entry that was followed is not there any more."""
    if is_gone(table.path, table.version, table.mark):
        raise CommitRefused(f"{table.path}: its log was replaced while it was followed")


def put_next(
    table: Snapshot, text: bytes, on_written: Step, on_committed: Step
) -> bool:
    """Put our entry after the last one that was followed, durably; False if one is
    there. Raises CommitLost if it is not part of the table; CommitRefused and OSError.
    """
    version, linked_ns = table.version + 1, 0

    def note_linked() -> None:
        nonlocal linked_ns
        # by the file system's own clock, as the age of a checkpoint is
        with suppress(FileNotFoundError):  # it went already, and is read back below
            linked_ns = os.stat(entry_path(table.path, version)).st_ctime_ns
        on_committed()

    if _synced.get(_key(table)) != table.version:
        sync_entries(table, table.version)
        check_goes_on(table)
    else:
        sync_checkpoint(table.path)
    made = put_if_absent(
        table.path, version, text, on_written=on_written, on_linked=note_linked
    )
    if not made:
        return False
    if text_of(table.path, version) != text:
        raise CommitLost(f"{table.path}: the commit at {version} is not in the log")
    if _was_cleaned_away(table, version, linked_ns):
        _take_back(table.path, version)
        raise CommitLost(f"{table.path}: its log went before the commit at {version}")
    _synced[_key(table)] = version
    return True


def _was_cleaned_away(table: Snapshot, version: int, linked_ns: int) -> bool:
    """Whether a log was there behind its last entry that was followed, and went.

    A checkpoint comes before that; and entries go in no order. One that was made after
    our entry had its name stands on it. A hint that is damaged may name any version.
    """
    directory = os.path.join(table.path, LOG_DIRECTORY)
    if (hinted_version(directory) or 0) > version:
        for made, names in complete_checkpoints(os.listdir(directory)):
            if made > version and _made_ns(directory, names) <= linked_ns:
                return True
    return is_gone(table.path, table.version, table.mark)


def _made_ns(directory: str, names: list[str]) -> int:
    """When the first part of a checkpoint was written; long ago if it went."""
    try:
        paths = [os.path.join(directory, name) for name in names]
        return min(os.stat(path).st_mtime_ns for path in paths)
    except FileNotFoundError:
        return 0


def _take_back(path: str, version: int) -> None:
    """Ours follows nothing: who cleaned the log had made this version, and what comes
    after it; or a checkpoint has ours already."""
    with suppress(FileNotFoundError):
        os.unlink(entry_path(path, version))
    sync_directory(os.path.join(path, LOG_DIRECTORY))


def text_of(path: str, version: int) -> bytes | None:
    """The bytes of a log entry; None if there is none."""
    try:
        return read_entry(path, version)
    except FileNotFoundError:
        return None


_synced: dict[tuple[str, str | None], int] = {}
"""(Path, topic id) -> last log entry that this process synced."""


def _key(table: Snapshot) -> tuple[str, str | None]:
    return table.path, table.topic_id


def sync_entries(table: Snapshot, version: int) -> None:
    """Sync the log up to ``version``: entries of other writers too, what they name
    before, and a checkpoint of theirs. Raises LogDamaged, and OSError."""
    known = _synced.get(_key(table))
    if known is None or known > version:  # not known, or of a log that is replaced
        known = version - properties.CHECKPOINT_INTERVAL
    done = set[str]()
    for candidate in range(max(0, known + 1), version + 1):
        with suppress(FileNotFoundError):  # cleaned away behind a checkpoint
            sync_named(table.path, read_entry(table.path, candidate), done)
            entry = entry_path(table.path, candidate)
            sync_opened(sum_of(entry))
            sync_or_write_anew(entry)
    sync_checkpoint(table.path)
    sync_directory(os.path.join(table.path, LOG_DIRECTORY))
    _synced[_key(table)] = version
