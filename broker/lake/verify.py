"""What a table holds for sure: its commits read again from disk, and made durable.

The problem: the segments behind a commit may be released only when the commit cannot be
lost any more. Delta does not fsync; the compactor does, but may be killed in between;
and on a local disk another writer may overwrite a log entry. The idea: before a segment
goes, the broker reads the entries itself, checks that each file they add is there in
its full length, and syncs files, entries and directories. What it read is what counts,
not what it followed. A file that is not there, or not whole, is no reason to hold the
rest: what it should hold is named, and is not released.

The price: an open and an fsync per file, once, mostly of what is on disk already. A
failed fsync is never repeated: the kernel may have dropped the bytes and say yes the
second time. That table releases nothing until the broker starts anew. Any other error,
such as too many open files, was before the fsync, and the next call tries again.
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

import structlog

from lakehouse.durable import SyncFailed, sync_directory, sync_file, sync_files
from lakehouse.ends import counted, ends_of
from lakehouse.errors import LakehouseError, LogDamaged, TableMissing, TableUnreadable
from lakehouse.location import Names, path_inside
from lakehouse.log.actions import Commit, DataFile, parse_commit
from lakehouse.log.delta_log import (
    LOG_DIRECTORY,
    Mark,
    entry_path,
    is_gone,
    load,
    read_marked,
)
from lakehouse.log.named_files import (
    sum_of,
    sync_checkpoint,
    sync_named,
    sync_opened,
)
from lakehouse.properties import CHANGE_FEED, CHECKPOINT_INTERVAL

log = structlog.get_logger("lakelog.lake")

Lacking = Mapping[int, Sequence[tuple[int, int]]]
"""Partition -> ranges of offsets [first, end)."""


class Verifier:
    """Verifies one topic's table, on one thread at a time."""

    def __init__(self, topic_id: str, path: str) -> None:
        self._topic_id = topic_id
        self._path = path
        self._version = -1
        self._mark: Mark | None = None
        self._transactions: dict[str, int] = {}
        self._lacking: dict[str, tuple[DataFile, str]] = {}
        self._failed: str | None = None
        self._logged: str | None = None
        self.lacking: Lacking = {}
        """Of what lies below the ends: partition -> [first offset, end) of each file
        that is not there as its commit says. Replaced, never changed."""
        self.problem: str | None = None
        """One sentence if there is such a file, or nothing can be verified."""

    @property
    def version(self) -> int:
        """The last log entry that was verified; -1: none."""
        return self._version

    def ends(self, version: int = -1) -> dict[int, int] | None:
        """Partition -> end offset below which every record is durably in the table, but
        for what is `lacking`.

        ``version``: one that is known to exist, in case entries were cleaned away.
        Blocks. None: it cannot be verified; why is logged.
        """
        if self._failed is not None:
            return None
        try:
            self._look_for_lacking()
            self._advance(version)
        except TableMissing:
            return {}
        except (LakehouseError, FileNotFoundError, ValueError, KeyError) as error:
            self._report(log.error, "table not verified", str(error))
            return None
        except SyncFailed as error:
            self._failed = str(error)
            self._report(log.critical, "table cannot be synced", self._failed)
            return None
        except OSError as error:  # too many open files, say: it passes
            self._report(log.warning, "table not verified yet", str(error))
            return None
        except Exception as error:  # noqa: BLE001  (an owner may write anything)
            self._report(log.exception, "table not verified", repr(error))
            return None
        self._publish_lacking()
        if self.problem is None:
            self._logged = None
        return ends_of(self._transactions, self._topic_id)

    def _publish_lacking(self) -> None:
        lacking: dict[int, list[tuple[int, int]]] = {}
        for file, _ in self._lacking.values():
            span = file.first_offset, file.last_offset + 1
            lacking.setdefault(file.partition, []).append(span)
        self.lacking, self.problem = lacking, None
        if self._lacking:
            file, why = next(iter(self._lacking.values()))
            self.problem = (
                f"the table {self._path} lacks {len(self._lacking)} of its data files: "
                f"{file.path} {why}"
            )
            self._log_once(log.error, "data files are not there", self.problem)

    def _report(self, say: Callable[..., object], what: str, why: str) -> None:
        self.problem = (
            f"the table {self._path} cannot be verified, and its segments stay: {why}"
        )
        self._log_once(say, what, why)

    def _log_once(self, say: Callable[..., object], what: str, why: str) -> None:
        """Log a failure the first time only: it is tried again twice a second."""
        if why != self._logged:
            self._logged = why
            say(what, table=self._path, why=why)

    def _advance(self, wanted: int) -> None:
        if self._version < 0 or self._is_gone():
            self._begin()
            return
        while True:
            version = self._version + 1
            try:
                text, mark = read_marked(self._path, version)
            except FileNotFoundError:
                if version <= wanted:
                    self._begin()  # cleaned away: start from a checkpoint
                return
            if is_gone(self._path, self._version, self._mark):
                self._begin()  # between the first look and the reading
                return
            self._take(parse_commit(version, text), text)
            self._mark = mark

    def _is_gone(self) -> bool:
        """Whether the last entry that was verified is not there any more, or another
        stands in its place."""
        there = os.path.exists(entry_path(self._path, self._version))
        return not there or is_gone(self._path, self._version, self._mark)

    def _begin(self) -> None:
        """Verify the table as a whole: at start, or when entries are gone."""
        snapshot = load(self._path)
        if snapshot.topic_id != self._topic_id:
            raise TableMissing(self._path)
        if snapshot.unreadable is not None:
            raise LogDamaged(snapshot.unreadable)
        lacking = self._sync_data(snapshot.files.values())
        if snapshot.metadata and CHANGE_FEED in snapshot.metadata.configuration:
            self._sync_changes(snapshot.version)
        self._sync_log()
        self._lacking = lacking  # not before: an error leaves ends and version, too
        self._version, self._mark = snapshot.version, snapshot.mark
        self._transactions = dict(snapshot.transactions)

    def _take(self, commit: Commit, text: bytes) -> None:
        """Verify one more entry. Files that left again since need not be there."""
        names = Names(self._path)
        adds = [file.of_table(names) for file in commit.adds]
        lacking = self._sync_data(adds, may_be_gone=True)
        sync_named(self._path, text, set(), sync_file)  # change data are no table's
        sync_file(entry_path(self._path, commit.version))
        sync_checkpoint(self._path, sync_file)
        sync_directory(os.path.join(self._path, LOG_DIRECTORY))
        for path in commit.removes:
            self._lacking.pop(path, None)
        self._lacking |= lacking
        self._transactions |= counted(commit, self._transactions)
        self._version = commit.version

    def _sync_changes(self, version: int) -> None:
        """Sync what the newest entries of its owner's say of changes: of what is older
        the kernel did it by itself."""
        done = set[str]()
        for newest in range(max(0, version - CHECKPOINT_INTERVAL), version + 1):
            with suppress(FileNotFoundError):  # cleaned away behind a checkpoint
                text, _ = read_marked(self._path, newest)
                sync_named(self._path, text, done, sync_file)

    def _sync_data(
        self, files: Collection[DataFile], may_be_gone: bool = False
    ) -> dict[str, tuple[DataFile, str]]:
        """Sync what is there as its commit says. The rest is returned, unless a later
        commit took it out again."""
        found = [(file, self._why_lacking(file)) for file in files]
        lacking = {file.path: (file, why) for file, why in found if why is not None}
        if lacking and may_be_gone:
            left = lacking.keys() - load(self._path).files.keys()
            lacking = {path: lacking[path] for path in lacking if path not in left}
        present = [file.relative_path for file, why in found if why is None]
        vectors = [path for file in files for path in _vectors(self._path, file)]
        for path in present + vectors:
            sync_opened(sum_of(self._below(path)), sync_file)
        sync_files(self._path, present + vectors)
        return lacking

    def _below(self, path: str) -> str:
        return os.path.join(self._path, path)

    def _why_lacking(self, file: DataFile) -> str | None:
        """The end of a sentence if a file is not there in its full length, else None.
        Raises OSError."""
        if path_inside(self._path, file.relative_path) is None:
            return "is not in it"
        try:
            size = os.path.getsize(self._below(file.relative_path))
        except (FileNotFoundError, NotADirectoryError):
            return "is not there"
        if size != file.size:
            return f"has {size} bytes, and its commit says {file.size}"
        return None

    def _look_for_lacking(self) -> None:
        """Its owner may have put a file back."""
        for path, (file, _) in list(self._lacking.items()):
            if self._why_lacking(file) is None:
                sync_files(self._path, [file.relative_path])
                del self._lacking[path]

    def _sync_log(self) -> None:
        directory = os.path.join(self._path, LOG_DIRECTORY)
        for name in os.listdir(directory):
            if name[:20].isdigit() or name == "_last_checkpoint":
                sync_file(os.path.join(directory, name))
        sidecars = os.path.join(directory, "_sidecars")
        if os.path.isdir(sidecars):
            for name in os.listdir(sidecars):
                sync_file(os.path.join(sidecars, name))
            sync_directory(sidecars)
        sync_checkpoint(self._path, sync_file)  # with its sums
        sync_directory(directory)
        sync_directory(self._path)
        sync_directory(os.path.dirname(self._path))


def _vectors(root: str, file: DataFile) -> list[str]:
    """The file of an owner's deletion vector, below ``root``, which nobody synced; none
    if there is none. Who reads it tells what is wrong with it."""
    if file.vector is None:
        return []
    from lakehouse.files.deletion_vectors import ABSOLUTE, placed

    try:
        found = placed(root, file.vector)
    except TableUnreadable:
        return []
    assert found is not None, "it was not None before"
    is_there = found.storage == ABSOLUTE and os.path.isfile(found.place)
    return [os.path.relpath(found.place, root)] if is_there else []
