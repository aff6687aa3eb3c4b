"""What the Delta log says of one table, in a few numbers; blocks.

A listing asks for the same tables again and again, so the numbers of the last ones are
kept, of some 10,000 partitions together, as long as no entry came or went. A log that
moved a moment ago is not kept: a second entry could come within the same tick of the
file system's clock.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from admin_api.lake import Lake
from broker.topics.topic import Topic
from lakehouse.errors import LakehouseError, TableMissing
from lakehouse.index import PartitionFiles
from lakehouse.log.actions import Metadata, Protocol
from lakehouse.log.delta_log import Snapshot, stamp, table_ends, untrue
from lakehouse.log.remarks import remarks_of
from lakehouse.log.writes import SMALL_BYTES

KEPT_MAX: Final = 20_000
"""Partitions and their ends, and one more for each table."""
QUIET_NS: Final = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Files:
    """Files of a table, or of one of its partitions; ``rows`` None: not all say it."""

    count: int = 0
    bytes: int = 0
    small: int = 0
    rows: int | None = 0


@dataclass(frozen=True, slots=True)
class TableFacts:
    """``version`` is None where there is no table yet, or none that can be read;
    ``problem`` is then why. A table that is there may have a problem as well."""

    location: str
    version: int | None = None
    problem: str | None = None
    remarks: tuple[str, ...] = ()
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    files: Files = field(default_factory=Files)
    partitions: Mapping[int, Files] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)

    @property
    def ends_are_known(self) -> bool:
        """Whether it is known where the partitions end: a missing table has nothing."""
        return self.version is not None or self.problem is None


class FactsReader:
    """Reads Delta logs, and remembers what it found; from any thread."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[tuple[int, bytes], TableFacts]] = (
            OrderedDict()
        )
        self._weight = 0

    def of(self, topic: Topic) -> TableFacts:
        """What the log of the topic's table says now."""
        path = self._lake.place(topic)
        seen = stamp(path), topic.id
        with self._lock:
            kept = self._kept.get(path)
            if kept is not None and kept[0] == seen:
                self._kept.move_to_end(path)
                return kept[1]
        found = self._read(topic, path)
        now_ns = time.time_ns()  # noqa: TID251  (compared with the directory's own)
        if 0 < seen[0] < now_ns - QUIET_NS:
            self._keep(path, seen, found)
        return found

    def _keep(self, path: str, seen: tuple[int, bytes], found: TableFacts) -> None:
        with self._lock:
            before = self._kept.pop(path, None)
            self._weight += _weight(found) - (_weight(before[1]) if before else 0)
            self._kept[path] = seen, found
            while self._weight > KEPT_MAX:
                _, (_, oldest) = self._kept.popitem(last=False)
                self._weight -= _weight(oldest)

    def _read(self, topic: Topic, path: str) -> TableFacts:
        try:
            return facts_of(self._lake.snapshot(topic))
        except TableMissing:
            return TableFacts(path)
        except LakehouseError as error:
            return TableFacts(path, problem=str(error))


def _weight(found: TableFacts) -> int:
    return 1 + len(found.partitions) + len(found.ends)


def facts_of(snapshot: Snapshot) -> TableFacts:
    """The numbers of a table that was read."""
    index = snapshot.index
    partitions = {p: _files(found) for p, found in index.partitions.items()}
    return TableFacts(
        location=snapshot.path,
        version=snapshot.version,
        problem=_problem(snapshot),
        remarks=tuple(remarks_of(snapshot)),
        protocol=snapshot.protocol,
        metadata=snapshot.metadata,
        files=_sum(list(partitions.values())),
        partitions=partitions,
        ends=table_ends(snapshot),
    )


def _problem(snapshot: Snapshot) -> str | None:
    return (
        snapshot.torn
        or snapshot.unreadable
        or untrue(snapshot, snapshot.topic_id or "")
    )


def _files(found: PartitionFiles) -> Files:
    rows = [file.rows for file in found]
    return Files(
        count=len(found),
        bytes=found.size_bytes,
        small=sum(file.size < SMALL_BYTES for file in found),
        rows=None if -1 in rows else sum(rows),
    )


def _sum(parts: list[Files]) -> Files:
    rows = [part.rows for part in parts]
    return Files(
        count=sum(part.count for part in parts),
        bytes=sum(part.bytes for part in parts),
        small=sum(part.small for part in parts),
        rows=None if None in rows else sum(row for row in rows if row is not None),
    )
