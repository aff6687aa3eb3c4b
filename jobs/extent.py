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
from typing import Any

from broker.catalog import requests
from broker.catalog import topics as stored
from broker.catalog.catalog import Catalog
from broker.storage.files import PosixFiles
from broker.storage.reader import SegmentReader
from broker.topics.topic import Topic
from lakehouse import delta_log
from lakehouse.errors import TableMissing
from lakehouse.location import table_path

POLL_S = 0.1


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

    def of(self, name: str) -> TopicExtent:
        """Where one topic stands now. Raises NoSuchTopic and LakehouseError."""
        [topic] = self.topics([name])
        starts = self._catalog.read(stored.load_log_starts)
        path = table_path(self._tables, name)
        version, ends = self._table(path, topic)
        durable, sizes = self._in_segments(topic.number)
        partitions = []
        for number in range(topic.partitions):
            start, end = starts.get((topic.number, number), 0), ends.get(number, 0)
            high = max(start, end, durable.get(number, 0))
            extent = PartitionExtent(
                number, start, max(start, end), high, high, sizes.get(number, 0)
            )
            partitions.append(extent)
        return TopicExtent(name, path, version, partitions)

    def compact(self, names: Collection[str], timeout_s: float) -> list[TopicExtent]:
        """Wait until the tables hold what is durable now; asks the compactor to hurry.

        Raises NotInTime.
        """
        targets = {topic.name: self.of(topic.name) for topic in self.topics(names)}
        now_ms = int(time.time() * 1000)
        wanted = list(targets) if names else None
        self._catalog.change(lambda c: requests.ask(c, wanted, now_ms))
        deadline = time.monotonic() + timeout_s
        late = {name for name, extent in targets.items() if extent.pending()}
        while late:
            late = {name for name in late if not self._reached(targets[name])}
            if late and time.monotonic() > deadline:
                names_late = ", ".join(sorted(late))
                raise NotInTime(
                    f"not in the tables after {timeout_s:g} s: {names_late};"
                    " is a compactor running?"
                )
            time.sleep(POLL_S if late else 0)
        return [self.of(name) for name in targets]

    def _reached(self, target: TopicExtent) -> bool:
        ends = {p.partition: p.table_end for p in self.of(target.topic).partitions}
        return all(ends[p.partition] >= p.high_watermark for p in target.partitions)

    def _table(self, path: str, topic: Topic) -> tuple[int | None, dict[int, int]]:
        try:
            snapshot = delta_log.load(path)
        except TableMissing:
            return None, {}
        identity = topic.id.hex()
        if snapshot.topic_id != identity:  # an earlier topic of this name
            return None, {}
        return snapshot.version, delta_log.table_ends(snapshot, identity)

    def _in_segments(self, topic: int) -> tuple[dict[int, int], dict[int, int]]:
        ends: dict[int, int] = {}
        sizes: dict[int, int] = {}
        for info in self._segments.live():
            columns: dict[tuple[int, int], Any] = self._segments.columns(info.sequence)
            for (number, partition), found in columns.items():
                if number == topic and len(found.last):
                    end = int(found.last[-1]) + 1
                    ends[partition] = max(ends.get(partition, 0), end)
                    size = int(found.length.sum())
                    sizes[partition] = sizes.get(partition, 0) + size
        return ends, sizes
