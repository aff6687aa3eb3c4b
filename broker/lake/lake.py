"""The tables, as the rest of the broker sees them: the face of this package.

Questions about where a table ends are answered at once from what is followed; reading
is awaited. See the README for the life of a cold fetch and of a segment's release.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import structlog

from broker.ids import PartitionNumber, TopicNumber
from broker.lake.cold import ColdFigures, ColdRead, ColdReader, Searched
from broker.lake.cpu_throttle import CpuThrottle
from broker.lake.follower import CallSoon, Follower, OnAdvance
from broker.lake.table import TopicTable, View
from broker.lake.verify import Lacking, Verifier
from broker.topics.topic import Topic
from lakehouse.location import table_place
from lakehouse.log.actions import DataFile
from lakehouse.watching.log_watch import LogWatch

log = structlog.get_logger("lakelog.lake")

_NO_TABLE = View()


def _ignore(_number: int) -> None:
    """Nobody asked to be notified."""


class Lake:
    """All topics' tables below ``warehouse``. Used on the loop, but for `start`.

    ``call_soon`` hands a callable to the loop from any thread; ``on_advance`` gets a
    topic's number on the loop whenever its table moved; ``others_work`` tells whether
    cold reads should stand back, on any thread.
    """

    def __init__(
        self,
        warehouse: Path,
        *,
        call_soon: CallSoon,
        on_advance: OnAdvance = _ignore,
        follow_ms: int = 250,
        cold_cache_bytes: int = 64 << 20,
        read_threads: int = 2,
        others_work: Callable[[], bool] = lambda: False,
    ) -> None:
        self._warehouse = warehouse
        self.on_advance = on_advance
        watch = LogWatch(str(warehouse))
        self._follower = Follower(follow_ms, call_soon, self._advanced, watch)
        self._cold = ColdReader(
            cold_cache_bytes, read_threads, CpuThrottle(others_work)
        )
        self._verifiers: dict[TopicNumber, Verifier] = {}
        self._changes: dict[TopicNumber, int] = {}
        self._odd: dict[TopicNumber, None] = {}
        """Topics whose views have something to tell: few of thousands."""
        self._warm = False

    def start(self, topics: Iterable[Topic]) -> None:
        """Load the tables of these topics and begin to follow. Blocks."""
        tables = {topic.number: self._table(topic) for topic in topics}
        self._follower.start(tables.items())
        for number in tables:
            self._warm_if_needed(number)

    def close(self) -> None:
        """Stop following and reading; blocks until what is under way is done."""
        self._follower.close()
        self._cold.close()

    def cold_figures(self) -> ColdFigures:
        """What consumers were given out of tables, counted."""
        return self._cold.figures()

    def rest(self) -> None:
        """Drop what was kept for those who read old offsets; any thread."""
        self._cold.rest()

    def topic_created(self, topic: Topic) -> None:
        """Follow a new topic's table, from when it appears."""
        self._follower.add(topic.number, self._table(topic))

    def topic_changed(self, topic: Topic) -> None:
        """Nothing is done: no table depends on what may change in a topic."""

    def topic_deleted(self, topic: Topic) -> None:
        """Forget a topic's table."""
        self._follower.drop(topic.number)
        self._verifiers.pop(topic.number, None)
        self._changes.pop(topic.number, None)

    def wake(self) -> None:
        """Follow all tables now, not at the next poll."""
        self._follower.wake()

    def table_end(self, number: TopicNumber, partition: PartitionNumber) -> int:
        """First offset that is not in the table; 0 if there is no table."""
        return self._view(number).ends.get(partition, 0)

    def take_changed(self) -> list[TopicNumber]:
        """The topics, by number, whose owners changed rows since the last call; also
        those whose tables were loaded with other files than they had: nobody knows what
        happened before."""
        changed = []
        for number, table in self._odd_tables():
            view = table.view
            if view.unreadable is None and self._changes.get(number, 0) < view.changed:
                self._changes[number] = view.changed
                changed.append(number)
        return changed

    def table_bytes(self, number: TopicNumber, partition: PartitionNumber) -> int:
        """Bytes of the partition's data files."""
        return self._view(number).files(partition).size_bytes

    def files(
        self, number: TopicNumber, partition: PartitionNumber
    ) -> Sequence[DataFile]:
        """The partition's data files, by first offset."""
        return self._view(number).files(partition)

    def unreadable(self, number: TopicNumber) -> str | None:
        """One sentence if the table cannot be read, else None."""
        return self._view(number).unreadable

    def why_missing(self, number: TopicNumber, partition: PartitionNumber) -> str:
        """One sentence: why the table does not have what it should."""
        view = self._view(number)
        why = view.unreadable or view.absent
        if why is not None:
            return why
        end = view.ends.get(partition, 0)
        torn = "" if view.torn is None else f", and {view.torn}"
        return f"the table's commits end at offset {end}{torn}"

    def unreadable_topics(self) -> dict[TopicNumber, str]:
        """Topic number -> one sentence, for each whose rows cannot be served."""
        return {
            number: table.view.unreadable
            for number, table in self._odd_tables()
            if table.view.unreadable is not None
        }

    def unserved_topics(self) -> dict[TopicNumber, str]:
        """The same, and those of whose rows some could not be served."""
        if not self._cold.faults:
            return self.unreadable_topics()
        numbers = {id(table): number for number, table in self._follower.items()}
        found = {
            numbers[id(fault.table)]: fault.sentence
            for fault in reversed(self._cold.faults.all())
            if id(fault.table) in numbers
        }
        return found | self.unreadable_topics()

    def problems(self) -> list[str]:
        """One sentence for each table whose rows cannot be served, or some of them, or
        whose log says what is not so. Where a read came to nothing is tried again."""
        self._forget_dropped()
        self._cold.look_again()
        found = [fault.sentence for fault in self._cold.faults.all()]
        for _, table in self._odd_tables():
            view = table.view
            if view.unreadable is not None:
                found.append(
                    f"the table {table.path} cannot be read: {view.unreadable}"
                )
            elif view.untrue is not None:
                found.append(f"the table {table.path}: {view.untrue}")
        verifiers = list(self._verifiers.values())
        return found + [each.problem for each in verifiers if each.problem is not None]

    async def read(
        self,
        number: TopicNumber,
        partition: PartitionNumber,
        offset: int,
        bytes_max: int,
    ) -> ColdRead:
        """Batches from ``offset`` on; see `ColdRead`.

        Raises KafkaError KAFKA_STORAGE_ERROR if the table cannot be read.
        """
        table = self._follower.get(number)
        if table is None:
            return ColdRead([], offset)
        return await self._cold.read(table, partition, offset, bytes_max)

    async def find_timestamp(
        self,
        number: TopicNumber,
        partition: PartitionNumber,
        timestamp_ms: int,
        start_offset: int = 0,
    ) -> Searched:
        """The first record in the table, from ``start_offset`` on, that is stamped
        ``timestamp_ms`` or later. Raises as `read`.
        """
        table = self._follower.get(number)
        if table is None:
            return Searched(None, 0)
        return await self._cold.find_timestamp(
            table, partition, timestamp_ms, start_offset
        )

    async def max_timestamp(
        self, number: TopicNumber, partition: PartitionNumber, start_offset: int = 0
    ) -> Searched:
        """The first record with the greatest timestamp in the table, from
        ``start_offset`` on. Raises as `read`.
        """
        table = self._follower.get(number)
        if table is None:
            return Searched(None, 0)
        return await self._cold.max_timestamp(table, partition, start_offset)

    def verified_ends(self, number: TopicNumber) -> dict[int, int]:
        """Partition -> end below which all is in the table for sure, but for what is
        `lacking`; see `Verifier`.

        Blocks; one thread at a time. A view that claims more than the log on disk has
        (another writer overwrote an entry) is loaded anew. What cannot be read cannot
        be served, so its segments stay.
        """
        table = self._follower.get(number)
        if table is None or table.view.unreadable is not None:
            return {}
        verifier = self._verifiers.setdefault(
            number, Verifier(table.topic_id, table.path)
        )
        view, ends = table.view, verifier.ends(table.view.version)
        if ends is None:
            return {}
        if view.version <= verifier.version and any(
            end > ends.get(partition, 0) for partition, end in view.ends.items()
        ):
            log.error("log entries were overwritten", table=table.path)
            table.reload()
        return ends

    def lacking(self, number: TopicNumber) -> Lacking:
        """Partition -> ranges of offsets that are not in the table although they lie
        below its verified end: their files are gone. Of the last `verified_ends`."""
        verifier = self._verifiers.get(number)
        return {} if verifier is None else verifier.lacking

    def unverified(self) -> list[TopicNumber]:
        """Numbers of the topics whose tables had a problem when they were verified."""
        verifiers = list(self._verifiers.items())
        return [number for number, each in verifiers if each.problem is not None]

    def _forget_dropped(self) -> None:
        """A deleted topic's table is nobody's any more."""
        if not self._cold.faults:
            return
        followed = {id(table) for _, table in self._follower.items()}
        for fault in self._cold.faults.all():
            if id(fault.table) not in followed:
                self._cold.faults.drop(fault)

    def _table(self, topic: Topic) -> TopicTable:
        place = table_place(self._warehouse, topic.name)
        return TopicTable(topic.id.hex(), place, partial(self._viewed, topic.number))

    def _viewed(self, number: TopicNumber, view: View) -> None:
        """On any thread. Whoever asks what it is looks at the view as it is then."""
        if (
            view.unreadable
            or view.untrue
            or self._changes.get(number, 0) < view.changed
        ):
            self._odd[number] = None

    def _odd_tables(self) -> list[tuple[TopicNumber, TopicTable]]:
        """Those whose views may have something to tell, by topic; those that have not
        any more are forgotten."""
        found = []
        for number in sorted(self._odd.copy()):
            table = self._follower.get(number)
            if table is not None:
                found.append((number, table))
            self._odd.pop(number, None)
            if table is not None:
                self._viewed(number, table.view)
        return found

    def _view(self, number: TopicNumber) -> View:
        table = self._follower.get(number)
        return _NO_TABLE if table is None else table.view

    def _advanced(self, number: TopicNumber) -> None:
        self._warm_if_needed(number)
        self.on_advance(number)

    def _warm_if_needed(self, number: TopicNumber) -> None:
        """Load the code of cold reads once, when a table holds anything."""
        if not self._warm and self._view(number).ends:
            self._warm = True
            self._cold.warm()
