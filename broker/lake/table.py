"""One topic's table as the broker sees it: where it ends, and which file holds what.

The problem: the loop asks thousands of times a second where a table ends, and must not
wait; the table changes on disk whenever it likes. The idea: a thread follows the Delta
log and publishes a `View`, which never changes; the loop reads the newest one. The
price: the view is up to a poll old, which is only ever too modest.

A table may be gone, replaced or damaged: at a start, or at any later time. It is then
never taken for an empty one. What it held last stays in the view, which says why its
rows cannot be served; and where there was no view yet, `absent` says why.
"""

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import structlog

from lakehouse.errors import LakehouseError, TableMissing
from lakehouse.index import OffsetIndex, PartitionFiles
from lakehouse.location import check_contained
from lakehouse.log.actions import parse_commit
from lakehouse.log.delta_log import (
    LOG_DIRECTORY,
    Snapshot,
    entry_path,
    follow,
    is_gone,
    load,
    read_entry,
    table_ends,
    untrue,
)
from lakehouse.log.replaced import why_replaced
from lakehouse.regular import open_file

log = structlog.get_logger("lakelog.lake")

_POLLS_BETWEEN_LOADS = 20
"""A table that cannot be loaded is read whole at each attempt."""

_AWAY = -1, -1
"""No log's directory: the warehouse behind a link was not there."""

_YOUNG_VERSIONS = 50
"""A table that was not there at the last look has few; of more nobody asks each."""


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A table at one version; ``version`` -1: there is none yet."""

    version: int = -1
    ends: Mapping[int, int] = field(default_factory=dict)
    index: OffsetIndex = field(default_factory=lambda: OffsetIndex(-1, {}))
    unreadable: str | None = None
    """One sentence if its rows cannot be served."""
    absent: str | None = None
    """One sentence if no table of this topic was found so far."""
    changed: int = 0
    """Counts the changes by its owner, and the loads that may hide one: after he
    took log entries out, versions go back."""
    torn: str | None = None
    """One sentence if the last log entry is not whole, and does not count."""
    untrue: str | None = None
    """One sentence if a commit says an end that nothing proves, which does not count,
    or other files than it counts rows of."""

    def files(self, partition: int) -> PartitionFiles:
        """The files with rows of the log: an owner's INSERT at or above the table's end
        took no place in it."""
        return self.index.files_of(partition).before(self.ends.get(partition, 0))


class TopicTable:
    """Follows one topic's table. ``view`` may be read by any thread at any time."""

    def __init__(
        self,
        topic_id: str,
        path: str,
        on_view: Callable[[View], None] = lambda view: None,
    ) -> None:
        """``on_view`` gets each view when it is published, on whichever thread."""
        self.topic_id = topic_id
        self.path = path
        self._on_view = on_view
        self.view = View(absent=f"there is no table at {path}")
        self._snapshot: Snapshot | None = None
        self._passed_over: tuple[int, int] | None = None
        self._polls_until_load = 0
        self._was_absent = False
        self._polls_until_search = 0
        self._replaced: tuple[object, str] | None = None
        """As of which entry the table is not the topic's any more, and why."""
        self._lock = threading.Lock()

    def poll(self) -> bool:
        """Look for new log entries; whether the view changed. Blocks a little.

        Costs one attempt to open a file, or one ``stat`` while there is no table.
        """
        with self._lock:
            before = self.view
            self._polls_until_search -= 1
            try:
                self._advance()
            except TableMissing as error:
                self._lose(str(error))
            except (LakehouseError, OSError) as error:
                self._publish(replace(before, unreadable=str(error)))
            except Exception as error:  # the follower's thread serves all tables
                log.exception("a fault while following a table", table=self.path)
                self._publish(replace(before, unreadable=repr(error)))
            return self.view is not before

    def retry(self) -> None:
        """Load it at the next poll if that failed before: something happened since."""
        with self._lock:
            self._forget_failure()

    def reload(self) -> None:
        """Read the log anew, from its newest checkpoint. Blocks."""
        with self._lock:
            self._snapshot = None
            self._forget_failure()
        self.poll()

    def search(self) -> None:
        """Look where a file went that is in the view and not on disk. Blocks.

        What the newest entries say is looked at each time. The whole log is read anew
        once in some rounds only: every fetch of rows that are gone for good comes here.
        """
        before = self.view
        self.poll()
        self.catch_up()
        if self.view is before and self._polls_until_search <= 0:
            self._polls_until_search = _POLLS_BETWEEN_LOADS
            self.reload()

    def catch_up(self) -> None:
        """Reload if a checkpoint is ahead of the view, whose entries may be gone by
        now, or if the entry at which the view stands is not there any more, or is
        another one."""
        snapshot = self._snapshot
        if snapshot is None:
            return
        try:
            is_behind = self._is_overtaken(snapshot)
        except OSError:  # a file in the directory's place, say: the load tells
            is_behind = True
        if is_behind:
            self.reload()

    def _is_overtaken(self, snapshot: Snapshot) -> bool:
        version = snapshot.version
        is_there = os.path.exists(entry_path(self.path, version))
        is_other = is_gone(self.path, version, snapshot.mark)
        return not is_there or is_other or self._is_behind(version)

    def _is_behind(self, version: int) -> bool:
        try:
            with open_file(self._log_path("_last_checkpoint")) as file:
                text = file.read()
        except OSError:
            return False
        _, _, rest = text.partition(b'"version":')
        digits = rest.lstrip()[:20].split(b",")[0].split(b"}")[0].strip()
        return digits.isdigit() and int(digits) > version

    def _advance(self) -> None:
        snapshot = self._snapshot
        if snapshot is None:
            self._begin()
            return
        torn = snapshot.torn
        in_step = self.view.version == snapshot.version
        version, mark = snapshot.version, snapshot.mark
        commits = follow(snapshot)
        if commits and is_gone(self.path, version, mark):
            log.warning(
                "a log entry was replaced or removed", table=self.path, version=version
            )
            self._snapshot = None  # what it says now follows from another entry
            self._forget_failure()
            self._begin()
            return
        if snapshot.torn and snapshot.torn != torn:
            log.warning("the last log entry is torn", why=snapshot.torn)
        is_reported = snapshot.torn == self.view.torn
        if in_step and not commits and is_reported and self.view.unreadable is None:
            return
        changed = self.view.changed
        if not in_step:  # an earlier call stopped half-way
            changed += 1
        elif commits:
            changed += sum(commit.is_owners for commit in commits)
        self._publish(self._view(snapshot, changed))

    def _begin(self) -> None:
        """Load what is there; what failed or was another topic's is not loaded again
        before it changes, or some rounds later."""
        try:
            status = os.stat(self._log_path(""))
        except FileNotFoundError:
            self._check_away()
            return
        place = status.st_ino, status.st_mtime_ns
        if place == self._passed_over and self._polls_until_load:
            self._polls_until_load -= 1
            return
        self._passed_over, self._polls_until_load = place, _POLLS_BETWEEN_LOADS
        check_contained(self.path)
        snapshot = load(self.path, keep_removed=False)
        if not self._is_ours(snapshot):
            self._lose(f"the table at {self.path} is not this topic's")
            return
        self._forget_failure()
        self._snapshot = snapshot
        index, before = snapshot.index, self.view
        if self._was_absent:
            is_changed = _was_changed(snapshot)
        else:
            is_changed = before.version < 0 or not index.has_files_of(before.index)
        self._was_absent = False
        self._publish(self._view(snapshot, before.changed + is_changed))

    def _check_away(self) -> None:
        """Raise LocationRefused if a warehouse is not there, which is asked in some of
        the rounds only: a thousand tables may lie in it; else TableMissing."""
        is_link = os.path.islink(self.path)
        if is_link and self._passed_over == _AWAY and self._polls_until_load:
            self._polls_until_load -= 1
            return
        self._forget_failure()
        if is_link:
            self._passed_over, self._polls_until_load = _AWAY, _POLLS_BETWEEN_LOADS
            check_contained(self.path)
            self._forget_failure()
        raise TableMissing(f"there is no table at {self.path}")

    def _is_ours(self, snapshot: Snapshot) -> bool:
        """By its properties; or, if an owner replaced these, by what was committed."""
        if snapshot.topic_id == self.topic_id:
            return True
        return bool(table_ends(snapshot, self.topic_id))

    def _forget_failure(self) -> None:
        self._passed_over, self._polls_until_load = None, 0

    def _lose(self, why: str) -> None:
        """There is no such table now. What was known of it is kept, and refused."""
        self._snapshot = None
        view = self.view
        self._was_absent = view.version < 0
        if view.version >= 0:
            self._publish(replace(view, unreadable=why))
        elif view.absent != why or view.unreadable is not None:
            self.view = replace(view, absent=why, unreadable=None)
            self._on_view(self.view)

    def _view(self, snapshot: Snapshot, changed: int) -> View:
        why = snapshot.unreadable
        if snapshot.metadata is not None and snapshot.topic_id != self.topic_id:
            why = self._why_replaced(snapshot)
        return View(
            snapshot.version,
            table_ends(snapshot, self.topic_id),
            snapshot.index,
            why,
            changed=changed,
            torn=snapshot.torn,
            untrue=untrue(snapshot, self.topic_id),
        )

    def _why_replaced(self, snapshot: Snapshot) -> str:
        """In the compactor's words. Once for each entry: the log is read for it."""
        entry = snapshot.version, snapshot.mark
        if self._replaced is None or self._replaced[0] != entry:
            why = why_replaced(snapshot, self.topic_id) or "it is another topic's"
            self._replaced = entry, why
        return self._replaced[1]

    def _publish(self, view: View) -> None:
        said, why = self.view.unreadable, view.unreadable
        same = why == said and view.torn == self.view.torn
        if view.index is self.view.index and same:
            return
        if view.untrue is not None and view.untrue != self.view.untrue:
            log.error("a log says what is not so", table=self.path, why=view.untrue)
        if why is not None and why != said:
            log.error("table cannot be read", table=self.path, why=why)
        if said is not None and why is None:
            log.info("table can be read again", table=self.path)
        self.view = view
        self._on_view(view)

    def _log_path(self, name: str) -> str:
        return os.path.join(self.path, LOG_DIRECTORY, name)


def _was_changed(snapshot: Snapshot) -> bool:
    """Whether the owner of a new table changed rows before it was looked at.

    The table was not there at the last look, which may be long ago. Where the log does
    not tell, he may have.
    """
    if snapshot.version > _YOUNG_VERSIONS:
        return True
    for version in range(snapshot.version + 1):
        try:
            commit = parse_commit(version, read_entry(snapshot.path, version))
        except (FileNotFoundError, ValueError):  # cleaned away, or empty
            return True
        if commit.is_owners:
            return True
    return False
