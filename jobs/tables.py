"""The tables of the topics that have something to compact, each followed by its log.

The problem: where a table ends decides what is compacted next, and only its own log may
say so. The idea: one snapshot per topic, moved on by trying to open the next log entry;
it is thrown away and read again whenever something is odd. Tables at rest are not asked
in each step (`lakehouse.watching`). A topic without a table gets one; a torn last
entry, a damaged checkpoint or log compaction file, left by a power cut, is put aside,
and an empty entry is filled in.
"""

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

import structlog

from broker.ids import TopicNumber, TopicPartition
from broker.topics.topic import Topic
from lakehouse import further
from lakehouse.errors import LogDamaged, TableMissing, TableUnreadable
from lakehouse.location import table_path, table_place
from lakehouse.log import delta_log
from lakehouse.log.blank import fill_between
from lakehouse.log.checkpoint import hint_mark
from lakehouse.log.checkpoint_repair import (
    is_known,
    prove_checkpoint,
    repair_checkpoint,
)
from lakehouse.log.commit import create_table, repair
from lakehouse.log.compaction_repair import repair_compactions
from lakehouse.log.delta_log import LOG_DIRECTORY, Snapshot
from lakehouse.log.library import opens
from lakehouse.log.log_store import sweep
from lakehouse.log.ours import why_no_commit
from lakehouse.log.replaced import why_replaced
from lakehouse.tables import lead_again
from lakehouse.warehouse_names import name_of
from lakehouse.watching.log_looks import LogLooks
from lakehouse.watching.log_watch import LogWatch

log = structlog.get_logger("lakelog.compactor")


@dataclass(slots=True)
class Table:
    """A topic's table. ``ends``: partition -> first offset that it has not."""

    topic: Topic
    path: str
    snapshot: Snapshot
    ends: dict[int, int] = field(default_factory=dict)
    _ends_version: int = -1
    """The version whose ends these are: a commit moves the snapshot, too."""
    _hint: object = None
    """Which checkpoint was looked at."""

    @property
    def id(self) -> str:
        return self.topic.id.hex()

    @property
    def next_round(self) -> int:
        """A number above every round that the table has seen."""
        return self.snapshot.transactions.get(self.id, 0) + 1

    @property
    def is_overtaken(self) -> bool:
        """Whether the last entry that was read is not there any more, or another is:
        what it says must not be gone on from."""
        snapshot = self.snapshot
        return delta_log.is_gone(self.path, snapshot.version, snapshot.mark)

    def checkpoint_is_seen(self) -> None:
        """The checkpoint that is there now is known to be whole."""
        self._hint = hint_mark(os.path.join(self.path, LOG_DIRECTORY))

    @property
    def is_unproven(self) -> bool:
        """Whether a checkpoint has come that nobody here has looked at: our commits
        need none, but its owner may not be able to open the table."""
        return self._hint != hint_mark(os.path.join(self.path, LOG_DIRECTORY))

    def follow(self) -> None:
        """Take in what was committed since. Raises LogDamaged."""
        delta_log.follow(self.snapshot)
        if self._ends_version != self.snapshot.version:
            self.ends = delta_log.table_ends(self.snapshot, self.id)
            self._ends_version = self.snapshot.version


class Tables:
    """Tables by topic number; all methods block for a moment."""

    def __init__(
        self,
        warehouse: str,
        monotonic_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self._warehouse, self._monotonic_ms = warehouse, monotonic_ms
        self._looks = LogLooks(LogWatch(warehouse))
        self._looked_at: dict[TopicNumber, Topic] = {}
        self._moved: set[int] = set()
        """Topics whose tables are to be looked at before anything is said of them."""
        self._asked: list[Topic] | None = None
        """The topics whose ends were gathered last; None: some may have moved since."""
        self._ends: dict[TopicPartition, int] = {}
        self._tables: dict[TopicNumber, Table] = {}
        self.unreadable: dict[TopicNumber, str] = {}
        """Topic number -> why nothing can be done with its table now."""
        self.refusing: dict[TopicNumber, str] = {}
        """Topic number -> why its table, which can be read, will take no commit."""
        self.absent: dict[TopicNumber, str] = {}
        """Topic number -> why it has no table, as of the last look."""
        self._tried: dict[int, int] = {}
        """Topic number -> how its log stood when it was last read."""

    def ends(self, topics: list[Topic]) -> Mapping[TopicPartition, int]:
        """Where the tables of ``topics`` end; the same mapping while nothing moves.

        Partitions that no commit has named yet are missing, and so are topics without
        a table. A table that cannot be read is logged once, see `unreadable`.
        """
        self._look(topics)
        if topics != self._asked:
            self._asked = topics
            self._ends = {
                table.topic.key(partition): end
                for table in self._found(topics)
                for partition, end in table.ends.items()
            }
        return self._ends

    def known(self, topics: list[Topic]) -> list[Table]:
        """The tables that exist and can be read; those at rest are not asked."""
        self._look(topics)
        return self._found(topics)

    def keep(self, numbers: Collection[TopicNumber]) -> None:
        """Forget all other topics: they were deleted."""
        for gone in self._looked_at.keys() - numbers:
            del self._looked_at[gone]
            self._looks.drop(gone)
            self._moved.discard(gone)
            self.absent.pop(gone, None)
            self.refusing.pop(gone, None)
            self._tried.pop(gone, None)

    def close(self) -> None:
        """Watch nothing any more."""
        self._looks.close()

    def troubled(self, numbers: Iterable[TopicNumber]) -> set[TopicNumber]:
        """Those of these topics whose tables are not there, or cannot be read."""
        odd = self.unreadable, self.absent
        return {number for number in numbers if any(number in one for one in odd)}

    def _found(self, topics: Iterable[Topic]) -> list[Table]:
        tables = (self._tables.get(topic.number) for topic in topics)
        return [table for table in tables if table is not None]

    def _look(self, topics: list[Topic]) -> None:
        """Look at the tables that moved, and those that cannot be read."""
        known, tables, absent = self._looked_at, self._tables, self.absent
        for topic in topics:
            if known.get(topic.number) is not topic:
                self._begin(topic)
        anew, recent = self._looks.due(self._monotonic_ms())
        self._moved |= anew | recent | self.unreadable.keys()
        moved = [
            topic
            for topic in topics
            if (number := topic.number) in self._moved
            or (number not in tables and number not in absent)
        ]
        self._moved.difference_update(topic.number for topic in moved)
        if moved:  # whoever asked: the ends are to be gathered anew
            self._asked = None
        self.present([topic for topic in moved if not self._is_still_absent(topic)])

    def _begin(self, topic: Topic) -> None:
        """It is new, or was altered."""
        number = topic.number
        self._looked_at[number] = topic
        self._moved.add(number)
        if number not in self._looks:
            self._looks.add(number, table_place(self._warehouse, topic.name))

    def _is_still_absent(self, topic: Topic) -> bool:
        """Whether there is no log where none was. Of one in a further warehouse its
        place does not tell: it may have lost its link."""
        number = topic.number
        return (
            number in self.absent
            and not name_of(topic.configs)
            and self._tried.get(number) == 0
            and not self.moved(topic)
        )

    def open(self, topic: Topic) -> Table:
        """The topic's table, created if it is missing, with nothing torn behind it.

        Raises LakehouseError and OSError.
        """
        table = self._present(topic)
        self._moved.add(topic.number)
        if table is None:
            path = create_table(
                self._warehouse,
                topic.name,
                topic.id.hex(),
                topic.partitions,
                number=topic.number,
                configs=topic.configs,
            )
            table = self._load(topic, path)
        if table.snapshot.torn:  # behind which the library proves nothing
            log.warning("a torn log entry is repaired", why=table.snapshot.torn)
            repair(table.path)
            table = self._load(topic, table.path)
        if table.is_unproven:
            table = self._prove(table)
        return table

    def _prove(self, table: Table) -> Table:
        """The table without a checkpoint that is damaged, as somebody left one."""
        topic, path = table.topic, table.path
        if not opens(path):
            table = self._load(topic, path)
        why = prove_checkpoint(table.snapshot)
        if why is not None:
            log.warning("a damaged checkpoint is put aside", table=path, why=why)
            table = self._load(topic, path)
        table.checkpoint_is_seen()
        return table

    def followed(self, number: TopicNumber) -> Table | None:
        """A table as of the last look; None if it was not there, or was forgotten."""
        return self._tables.get(number)

    def all(self) -> list[Table]:
        """Those that are followed, as of the last look at each."""
        return list(self._tables.values())

    def free(
        self, topics: Collection[TopicNumber], is_barred: Callable[[TopicNumber], bool]
    ) -> list[Table]:
        """Those of these topics that may be committed to."""
        found = (table for table in self.all() if table.topic.number in topics)
        return [table for table in found if not is_barred(table.topic.number)]

    def forget(self, number: TopicNumber) -> None:
        """Forget a table: it is read anew at its next use."""
        self._tables.pop(number, None)

    def moved(self, topic: Topic) -> bool:
        """Whether its log has changed since anybody here read it."""
        stamp = delta_log.stamp(table_place(self._warehouse, topic.name))
        return self._tried.get(topic.number, stamp) != stamp

    def present(self, topics: list[Topic]) -> list[Table]:
        """The tables that exist and can be read."""
        found = []
        for topic in topics:
            try:
                table = self._present(topic)
            except Exception as error:  # noqa: BLE001  (an owner may do anything)
                self._report(topic, str(error) or type(error).__name__)
                continue
            self.unreadable.pop(topic.number, None)
            self._note_refusing(topic, table)
            if table is not None:
                found.append(table)
        return found

    def _note_refusing(self, topic: Topic, table: Table | None) -> None:
        """Of a table that lost columns of ours that is told before a record comes."""
        why = None if table is None else _why_no_commit(table.snapshot)
        before = self.refusing.pop(topic.number, None)
        if why is None:
            return
        self.refusing[topic.number] = f"its table takes no commit: {why}"
        if before is None:
            log.warning("a table will take no commit", topic=topic.name, why=why)

    def _report(self, topic: Topic, why: str) -> None:
        if self.unreadable.get(topic.number) != why:
            log.error("a table cannot be read", topic=topic.name, why=why)
        self.unreadable[topic.number] = why
        self.refusing.pop(topic.number, None)
        self.forget(topic.number)

    def _present(self, topic: Topic) -> Table | None:
        path = table_path(self._warehouse, topic.name)
        self._tried[topic.number] = delta_log.stamp(path)
        table = self._tables.get(topic.number)
        if table is not None and _goes_on(table):
            table.topic = topic  # it may have been altered
            return table
        self.forget(topic.number)
        try:
            return self._load(topic, path)
        except TableMissing as error:
            # One that lost its link may lie there: none is made, nor given up.
            further.base_of(path, name_of(topic.configs))
            if not self._lead_again(topic):
                self.absent[topic.number] = str(error)
                return None
            return self._load(topic, path)

    def _lead_again(self, topic: Topic) -> bool:
        """Whether it was there, behind a link that was lost and is there again."""
        name, path = name_of(topic.configs), table_place(self._warehouse, topic.name)
        if not lead_again(self._warehouse, topic.name, topic.id.hex(), name):
            return False
        log.warning("a link to a table was lost, and is made again", table=path)
        return True

    def _load(self, topic: Topic, path: str) -> Table:
        snapshot = _loaded(path, topic.id.hex())
        if snapshot.topic_id != topic.id.hex():
            why = why_replaced(snapshot, topic.id.hex())
            if why is not None:  # nothing is lost: its files are there, and stay
                raise TableUnreadable(why)
            raise TableMissing(f"{path} is the table of another topic")
        sweep(path)
        why = repair_checkpoint(snapshot)
        if why is not None:
            log.warning("a damaged checkpoint is put aside", table=path, why=why)
        _repair_compactions(snapshot)
        table = Table(topic, path, snapshot)
        if is_known(snapshot):
            table.checkpoint_is_seen()
        table.follow()
        self._tables[topic.number] = table
        self.absent.pop(topic.number, None)
        return table


def _repair_compactions(snapshot: Snapshot) -> None:
    """We read none of them: one that cannot be put aside is no reason not to go on."""
    path = snapshot.path
    try:
        why = repair_compactions(snapshot)
    except OSError as error:
        log.warning("no log compaction file is put aside", table=path, why=str(error))
        return
    if why is not None:
        log.warning("a log compaction file is put aside", table=path, why=why)


def _why_no_commit(snapshot: Snapshot) -> str | None:
    """As a commit would say it, which asks first whether the table can be read."""
    lost = why_no_commit(snapshot.metadata)
    return lost and (snapshot.unreadable or lost)


def _goes_on(table: Table) -> bool:
    """Whether its log moves a followed table on, and it is still the topic's."""
    if table.is_overtaken:
        return False
    try:
        table.follow()
    except LogDamaged:
        return False
    return table.snapshot.topic_id == table.id


def _loaded(path: str, topic_id: str) -> Snapshot:
    """The state of a topic's table. An empty entry that its owner went on from is one
    without actions, as his tools take it, and is filled in. Raises as `load`."""
    try:
        return delta_log.load(path)
    except LogDamaged as error:
        if not fill_between(path, topic_id):
            raise
        log.warning("an empty log entry is filled in", why=str(error))
    return delta_log.load(path)
