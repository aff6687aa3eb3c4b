"""How far a topic reaches: in its table, in the segments, and what is still to come.

`lakelog table` and `lakelog compact` are programs of their own, beside a running broker
and compactor or without them. They look where the truth is: the catalog for the topics,
the Delta log for the table's ends, the segments (up to the durable end) for the rest.
Nothing is asked of the running parts except, through the catalog, to hurry.
"""

import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from broker.catalog import requests
from broker.catalog import topics as stored
from broker.catalog.catalog import Catalog
from broker.storage.entry import TopicPartition
from broker.storage.files import PosixFiles
from broker.storage.reader import SegmentReader
from broker.topics.topic import Topic
from lakehouse import delta_log
from lakehouse.errors import TableMissing
from lakehouse.location import table_path

POLL_S = 0.1

Offsets = dict[TopicPartition, int]


class NoSuchTopic(Exception):
    """The catalog does not know the topic."""


class NotInTime(Exception):
    """The tables did not reach what was asked for."""


@dataclass(frozen=True, slots=True)
class PartitionExtent:
    """Offsets of one partition. All ends are exclusive."""

    partition: int
    log_start: int
    table_end: int
    last_stable_offset: int
    high_watermark: int
    segment_bytes: int


@dataclass(frozen=True, slots=True)
class TopicExtent:
    """``version`` is None where there is no table yet."""

    topic: str
    path: str
    version: int | None
    partitions: list[PartitionExtent]

    def pending(self) -> int:
        """Offsets that are durable and not in the table."""
        return sum(p.high_watermark - p.table_end for p in self.partitions)


class Extents:
    """Reads a data directory; every method blocks."""

    def __init__(self, data_dir: Path) -> None:
        self._tables = data_dir / "tables"
        self._catalog = Catalog.open(data_dir / "catalog.db")
        self._segments = SegmentReader(PosixFiles(), data_dir / "wal")

    def close(self) -> None:
        self._catalog.close()

    def topics(self, names: Collection[str] = ()) -> list[Topic]:
        """The named topics, or all. Raises NoSuchTopic."""
        known = {topic.name: topic for topic in self._catalog.read(stored.load)}
        for name in names:
            if name not in known:
                raise NoSuchTopic(f"there is no topic {name!r}")
        return [known[name] for name in names or sorted(known)]

    def of(self, names: Collection[str] = ()) -> list[TopicExtent]:
        """Where the named topics, or all, stand now.

        Segments are looked at before tables: what is let go in between is found in both
        and not in neither. Raises NoSuchTopic and LakehouseError.
        """
        topics = self.topics(names)
        durable, sizes = self._in_segments()
        starts = self._catalog.read(stored.load_log_starts)
        return [self._extent(topic, durable, sizes, starts) for topic in topics]

    def compact(self, names: Collection[str], timeout_s: float) -> list[TopicExtent]:
        """Wait until the tables hold what is durable now; asks the compactor to hurry.

        A topic that is deleted meanwhile is nothing to wait for. Raises NotInTime.
        """
        wanted = list(names) or None
        late = [extent for extent in self.of(names) if extent.pending()]
        self._catalog.change(lambda c: requests.ask(c, wanted, int(time.time() * 1000)))
        deadline = time.monotonic() + timeout_s
        while late := [extent for extent in late if not self._reached(extent)]:
            if time.monotonic() > deadline:
                names_late = ", ".join(extent.topic for extent in late)
                raise NotInTime(
                    f"not in the tables after {timeout_s:g} s: {names_late};"
                    " is a compactor running?"
                )
            time.sleep(POLL_S)
        known = {topic.name for topic in self.topics()}
        return self.of([name for name in names if name in known])

    def _extent(
        self, topic: Topic, durable: Offsets, sizes: Offsets, starts: Offsets
    ) -> TopicExtent:
        path = table_path(self._tables, topic.name)
        version, ends = self._table(path, topic)
        partitions = []
        for number in range(topic.partitions):
            key = topic.number, number
            start, end = starts.get(key, 0), ends.get(number, 0)
            reached = max(start, end)
            high = max(reached, durable.get(key, 0))
            partitions.append(
                PartitionExtent(number, start, reached, high, high, sizes.get(key, 0))
            )
        return TopicExtent(topic.name, path, version, partitions)

    def _reached(self, target: TopicExtent) -> bool:
        found = [topic for topic in self.topics() if topic.name == target.topic]
        if not found:
            return True
        _, ends = self._table(target.path, found[0])
        starts = self._catalog.read(stored.load_log_starts)
        return all(
            max(ends.get(p.partition, 0), starts.get((found[0].number, p.partition), 0))
            >= p.high_watermark
            for p in target.partitions
        )

    def _table(self, path: str, topic: Topic) -> tuple[int | None, dict[int, int]]:
        try:
            snapshot = delta_log.load(path)
        except TableMissing:
            return None, {}
        identity = topic.id.hex()
        if snapshot.topic_id != identity:  # an earlier topic of this name
            return None, {}
        return snapshot.version, delta_log.table_ends(snapshot, identity)

    def _in_segments(self) -> tuple[Offsets, Offsets]:
        """Where each partition ends in the segments, and its bytes there."""
        ends: Offsets = {}
        sizes: Offsets = {}
        for info in self._segments.live():
            for key, found in self._segments.columns(info.sequence).items():
                ends[key] = max(ends.get(key, 0), int(found.last[-1]) + 1)
                sizes[key] = sizes.get(key, 0) + int(found.length.sum())
        return ends, sizes
