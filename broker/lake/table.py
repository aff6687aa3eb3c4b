"""One topic's table as the broker sees it: where it ends, and which file holds what.

The problem: the loop asks thousands of times a second where a table ends, and must not
wait; the table changes on disk whenever it likes. The idea: a thread follows the Delta
log and publishes a `View`, which never changes; the loop reads the newest one. The
price: the view is up to a poll old, which is only ever too modest: a table's end does
not go back.
"""

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import structlog

from lakehouse.delta_log import LOG_DIRECTORY, Snapshot, follow, load, table_ends
from lakehouse.errors import LakehouseError, TableMissing
from lakehouse.index import OffsetIndex, PartitionFiles

log = structlog.get_logger("lakelog.lake")


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A table at one version; ``version`` -1: there is none yet."""

    version: int = -1
    ends: Mapping[int, int] = field(default_factory=dict)
    index: OffsetIndex = field(default_factory=lambda: OffsetIndex(-1, {}))
    unreadable: str | None = None
    """One sentence if its rows cannot be served."""

    def files(self, partition: int) -> PartitionFiles:
        return self.index.files_of(partition)


class TopicTable:
    """Follows one topic's table. ``view`` may be read by any thread at any time."""

    def __init__(self, topic_id: str, path: str) -> None:
        self.topic_id = topic_id
        self.path = path
        self.view = View()
        self._snapshot: Snapshot | None = None
        self._foreign: tuple[int, int] | None = None
        self._lock = threading.Lock()

    def poll(self) -> bool:
        """Look for new log entries; whether the view changed. Blocks a little.

        Costs one attempt to open a file, or one ``stat`` while there is no table.
        """
        with self._lock:
            before = self.view
            try:
                self._advance()
            except TableMissing:
                self._snapshot = None
            except (LakehouseError, OSError) as error:
                self._publish(replace(before, unreadable=str(error)))
            return self.view is not before

    def reload(self) -> None:
        """Read the log anew, from its newest checkpoint. Blocks."""
        with self._lock:
            self._snapshot = None
        self.poll()

    def catch_up(self) -> None:
        """Reload if a checkpoint is ahead of the view: its entries may be gone."""
        if self._snapshot is None or not self._is_behind(self._snapshot.version):
            return
        self.reload()

    def _is_behind(self, version: int) -> bool:
        try:
            with open(self._log_path("_last_checkpoint"), "rb") as file:
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
        index, torn = self.view.index, snapshot.torn
        in_step = index.version == snapshot.version
        commits = follow(snapshot)
        if snapshot.torn and snapshot.torn != torn:
            log.warning("the last log entry is torn", why=snapshot.torn)
        if in_step and not commits and self.view.unreadable is None:
            return
        if not in_step:  # an earlier call stopped half-way
            index = OffsetIndex.of(snapshot)
        elif commits:
            index = index.advanced(snapshot, commits)
        self._publish(_view(snapshot, index))

    def _begin(self) -> None:
        try:
            status = os.stat(self._log_path(""))
        except FileNotFoundError:
            return
        place = status.st_ino, status.st_mtime_ns
        if place == self._foreign:
            return  # still the table of an earlier topic of that name
        snapshot = load(self.path)
        if snapshot.topic_id != self.topic_id:
            self._foreign = place
            return
        self._snapshot = snapshot
        self._publish(_view(snapshot, OffsetIndex.of(snapshot)))

    def _publish(self, view: View) -> None:
        said, why = self.view.unreadable, view.unreadable
        if view.index is self.view.index and why == said:
            return
        if why is not None and why != said:
            log.error("table cannot be read", table=self.path, why=why)
        if said is not None and why is None:
            log.info("table can be read again", table=self.path)
        self.view = view

    def _log_path(self, name: str) -> str:
        return os.path.join(self.path, LOG_DIRECTORY, name)


def _view(snapshot: Snapshot, index: OffsetIndex) -> View:
    ends, why = table_ends(snapshot), snapshot.unreadable
    if snapshot.metadata is not None and snapshot.topic_id is None:
        why = why or "its owner took the topic's id out of its properties"
    return View(snapshot.version, ends, index, why)
