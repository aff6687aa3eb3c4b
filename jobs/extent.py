"""How far a topic reaches: in its table, in the segments, and what is still to come.

`lakelog table` and `lakelog compact` are programs of their own, beside a running broker
and compactor or without them. They look where the truth is: the catalog for the topics,
the Delta log for the table's ends, the segments (up to the durable end) for the rest.
Nothing is asked of the running parts except, through the catalog, to hurry; whether the
compactor is stuck, its status file says: only what failed after the request was seen
counts, and that is told by the request's number, which no clock can set back.

What is damaged is told beside what is known: the end of a table that cannot be read is
nobody's to guess, and is None.

What the log gave up is nothing to come, unless the topic's table keeps more than the
log does: then what segments have of it comes all the same.
"""

import time
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from broker.catalog import holds, requests
from broker.catalog import topics as stored
from broker.catalog.catalog import Catalog
from broker.ids import TopicPartition
from broker.status.file import read as read_status
from broker.status.schema import (
    BrokerStatus,
    CompactorStatus,
    OpenTransaction,
    TableState,
    held_sentence,
)
from broker.storage.manifest import ManifestDamaged
from broker.storage.segment import StaleSegment
from broker.storage.store import open_store
from broker.topics.configs import waits_for_table
from broker.topics.topic import Topic
from jobs.missing import read_checkpoint
from lakehouse.errors import TableMissing
from lakehouse.location import check_contained, table_place
from lakehouse.log import delta_log
from lakehouse.log.ours import why_not_merged
from lakehouse.log.remarks import remarks_of
from lakehouse.log.replaced import why_replaced
from lakehouse.log.writes import SMALL_BYTES

POLL_S = 0.1
PROBLEMS_MAX = 3
"""So many of the compactor's are told of tables that are late."""
LOOKS_MAX = 5

Offsets = dict[TopicPartition, int]


class NoSuchTopic(Exception):
    """The catalog does not know the topic."""


class NotInTime(Exception):
    """The tables did not reach what was asked for."""


class Stuck(Exception):
    """Tables do not reach what was asked for, and will not by waiting."""


@dataclass(frozen=True, slots=True)
class PartitionExtent:
    """Offsets of one partition. All ends are exclusive; ``table_end`` None: unknown. It
    is the log's start if that lies behind it and nothing below is to come."""

    partition: int
    log_start: int
    table_end: int | None
    high_watermark: int
    segment_bytes: int
    files: int = 0
    small_files: int = 0
    """Of less than `lakehouse.log.writes.SMALL_BYTES`."""


@dataclass(frozen=True, slots=True)
class TopicExtent:
    """``version`` is None where there is no table yet, or none that can be read.

    ``problem``: one sentence if something is damaged, else None.
    """

    topic: str
    path: str
    version: int | None
    partitions: list[PartitionExtent]
    problem: str | None = None
    files: int = 0
    file_bytes: int = 0
    not_merged: str | None = None
    """Why files stay as they are, as the table itself tells."""
    remarks: tuple[str, ...] = ()
    """What its owner asked for that keeps or breaks something, and stops nothing."""
    held_until_ms: int | None = None
    """Until when it is held, if it is: nothing is committed to it before."""
    needed: Mapping[int, int] = field(default_factory=dict)
    """Partition -> where its table has to end, wherever the log begins."""

    def pending(self) -> int | None:
        """Offsets that are durable and not in the table; None if nobody knows."""
        ends = [p.table_end for p in self.partitions if p.table_end is not None]
        if len(ends) < len(self.partitions):
            return None
        return sum(p.high_watermark for p in self.partitions) - sum(ends)


class _Table(NamedTuple):
    """What a table's log says; ``problem``: why it says nothing."""

    version: int | None = None
    ends: Mapping[int, int] = {}
    files: int = 0
    file_bytes: int = 0
    not_merged: str | None = None
    problem: str | None = None
    files_of: Mapping[int, int] = {}
    small_files_of: Mapping[int, int] = {}
    remarks: tuple[str, ...] = ()


class _Log(NamedTuple):
    """What the log says: where each partition ends, also in segments, and its bytes
    there."""

    ends: Offsets
    in_segments: Offsets
    sizes: Offsets
    problem: str | None = None


class Extents:
    """Reads a data directory; every method blocks."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._tables = data_dir / "tables"
        self._path = data_dir / "catalog.db"
        self._catalog = Catalog.open(self._path, read_only=True)
        self._segments = open_store(str(data_dir / "wal"))

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
        and not in neither. Raises NoSuchTopic and OSError.
        """
        topics = self.topics(names)
        log = self._in_log()
        starts = self._catalog.read(stored.load_log_starts)
        held = self._held()
        return [
            replace(
                self._extent(topic, log, starts), held_until_ms=held.get(topic.name)
            )
            for topic in topics
        ]

    def hold(self, name: str, for_ms: int, by: str = holds.OWNER) -> int:
        """Have nothing committed to a topic's table for so long. Returns until when.
        Raises NoSuchTopic."""
        [topic] = self.topics([name])
        now_ms = int(time.time() * 1000)
        with Catalog.open(self._path, upgrades=False) as catalog:
            return catalog.change(
                lambda c: holds.hold(c, topic.id.hex(), by, now_ms, for_ms)
            )

    def release(self, name: str, by: str | None = None) -> int:
        """End holds of a topic's table: ``by``'s, or all. Returns how many there were.
        Raises NoSuchTopic."""
        [topic] = self.topics([name])
        with Catalog.open(self._path, upgrades=False) as catalog:
            return catalog.change(lambda c: holds.release(c, topic.id.hex(), by))

    def release_all(self, by: str) -> None:
        """End what ``by`` holds, of any topic's table."""
        with Catalog.open(self._path, upgrades=False) as catalog:
            catalog.change(lambda c: holds.release_all(c, by))

    def held_by_others(self, name: str, by: str) -> int | None:
        """Until when anybody but ``by`` holds a topic's table; None: nobody does.
        Raises NoSuchTopic."""
        [topic] = self.topics([name])
        now_ms = int(time.time() * 1000)
        found = self._catalog.read(lambda c: holds.load(c, now_ms, but=by))
        return found.get(topic.id.hex())

    def _held(self, but: str | None = None) -> dict[str, int]:
        """Topic -> until when its table is held, of those that are; ``but``: whose
        holds do not count."""
        now_ms = int(time.time() * 1000)
        found = self._catalog.read(lambda c: holds.load(c, now_ms, but=but))
        names = {topic.id.hex(): topic.name for topic in self.topics()} if found else {}
        return {names[id_]: until for id_, until in found.items() if id_ in names}

    def compact(self, names: Collection[str], timeout_s: float) -> list[TopicExtent]:
        """Ask for a flush and wait until the tables hold what is durable now.

        A topic that is deleted meanwhile is nothing to wait for, nor is the next one of
        its name. Raises NotInTime; and Stuck, once nothing is late but what was tried
        for this request in vain.
        """
        wanted = list(names) or None
        ids = {topic.name: topic.id for topic in self.topics()}
        late = [extent for extent in self.of(names) if extent.pending() != 0]
        request_id = self._ask(wanted)
        deadline = time.monotonic() + timeout_s
        while late := [one for one in late if not self._reached(one, ids)]:
            self._give_up_if_stuck(late, request_id)
            if time.monotonic() > deadline:
                names_late = [extent.topic for extent in late]
                raise NotInTime(
                    f"not in the tables after {timeout_s:g} s: {', '.join(names_late)}"
                    f"; {self._why_late(names_late)}"
                )
            time.sleep(POLL_S)
        known = {topic.name for topic in self.topics()}
        left = [name for name in names if name in known]
        return self.of(left) if left or not names else []

    def _ask(self, wanted: list[str] | None) -> int:
        now_ms = int(time.time() * 1000)
        with Catalog.open(self._path, upgrades=False) as catalog:
            return catalog.change(lambda c: requests.ask(c, wanted, now_ms))

    def _give_up_if_stuck(self, late: Collection[TopicExtent], request_id: int) -> None:
        status, held = self._status(), self._held()
        tables = () if status is None else status.tables
        why = {
            state.topic: state.why
            for state in tables
            if state.stuck and _knew(state, request_id)
        }
        owners = self._held(but=holds.ERASURE) if held else {}
        why |= {
            topic: held_sentence(topic, until, is_erased=topic not in owners)
            for topic, until in held.items()
        }
        why |= {extent.topic: extent.problem for extent in late if extent.problem}
        if all(extent.topic in why for extent in late):
            stuck = [f"{extent.topic} is stuck: {why[extent.topic]}" for extent in late]
            raise Stuck("; ".join(stuck))

    def _why_late(self, topics: Collection[str]) -> str:
        """What may keep these topics' tables from what was asked for."""
        status = self._status()
        if status is None or status.state == "stopped":
            return "is a compactor running?"
        broker = read_status(self._data_dir, BrokerStatus, time.time())
        open_ = () if broker is None else broker.transactions
        held = [_open_sentence(one) for one in open_ if one.topic in topics]
        if held:
            named = f"{', '.join(held)} (lakelog transactions list)"
            return f"open transactions hold them back: {named}"
        return _what_it_says(status, topics)

    def _status(self) -> CompactorStatus | None:
        return read_status(self._data_dir, CompactorStatus, time.time())

    def _extent(self, topic: Topic, log: _Log, starts: Offsets) -> TopicExtent:
        path = table_place(self._tables, topic.name)
        table, needed = self._table(path, topic), _needed(topic, log)
        partitions = []
        for number in range(topic.partitions):
            key = topic.key(number)
            start, reached = starts.get(key, 0), None
            if not table.problem:
                reached = _reach(table, number, start, needed.get(number, 0))
            high = max(start, reached or 0, log.ends.get(key, 0))
            size = log.sizes.get(key, 0)
            files = table.files_of.get(number, 0), table.small_files_of.get(number, 0)
            partitions.append(
                PartitionExtent(number, start, reached, high, size, *files)
            )
        damage = table.problem or log.problem
        return TopicExtent(
            topic.name, path, table.version, partitions, damage,
            table.files, table.file_bytes, table.not_merged, table.remarks,
            needed=needed,
        )  # fmt: skip

    def _reached(self, target: TopicExtent, ids: Mapping[str, bytes]) -> bool:
        asked = ids.get(target.topic)
        found = [topic for topic in self.topics() if topic.id == asked]
        if not found:
            return True
        table = self._table(target.path, found[0])
        starts = self._catalog.read(stored.load_log_starts)
        needed = target.needed if waits_for_table(found[0].configs) else {}
        return table.problem is None and all(
            _reach(
                table, p.partition, starts.get(found[0].key(p.partition), 0),
                needed.get(p.partition, 0),
            ) >= p.high_watermark
            for p in target.partitions
        )  # fmt: skip

    def _table(self, path: str, topic: Topic) -> _Table:
        """What the table's log says now."""
        try:
            check_contained(path)
            snapshot = delta_log.load(path)
        except TableMissing:
            return _Table()
        except Exception as error:  # noqa: BLE001  (an owner may do anything)
            return _Table(problem=str(error) or type(error).__name__)
        identity = topic.id.hex()
        if snapshot.topic_id != identity:  # replaced, or an earlier topic's
            return _Table(problem=why_replaced(snapshot, identity))
        files = snapshot.files.values()
        why = snapshot.unreadable
        return _Table(
            snapshot.version,
            delta_log.table_ends(snapshot, identity),
            len(files),
            sum(file.size for file in files),
            why or why_not_merged(snapshot.protocol, snapshot.metadata),
            files_of=Counter(one.partition for one in files),
            small_files_of=Counter(
                one.partition for one in files if one.size < SMALL_BYTES
            ),
            remarks=tuple(remarks_of(snapshot)),
        )

    def _in_log(self) -> _Log:
        """Where each partition ends in the segments, or ended by the checkpoint: what
        was released before it is in no segment any more, and one that is released
        during the look may have gone into another.
        """
        for _ in range(LOOKS_MAX):
            with suppress(StaleSegment):
                return self._look_into_log()
        return _Log({}, {}, {}, "segments were released during each look into the log")

    def _look_into_log(self) -> _Log:
        """Raises StaleSegment if a segment is released meanwhile."""
        ends: Offsets = {}
        in_segments: Offsets = {}
        sizes: Offsets = {}
        try:
            for info in self._segments.live():
                for key, found in self._segments.columns(info.sequence).items():
                    end = max(in_segments.get(key, 0), int(found.last[-1]) + 1)
                    ends[key] = in_segments[key] = end
                    sizes[key] = sizes.get(key, 0) + int(found.length.sum())
            for key, known in read_checkpoint(self._segments).items():
                ends[key] = max(ends.get(key, 0), known.durable)
        except (ManifestDamaged, ValueError) as error:
            return _Log(ends, in_segments, sizes, str(error))
        return _Log(ends, in_segments, sizes)


def _what_it_says(status: CompactorStatus, topics: Collection[str]) -> str:
    """A live compactor's reasons, those that name these topics first."""
    theirs = tuple(f"{topic}{end}" for topic in topics for end in " -")
    said = sorted(status.problems, key=lambda one: not one.startswith(theirs))
    if said:
        return f"the compactor says: {'; '.join(said[:PROBLEMS_MAX])}"
    if status.state != "running":
        return f"of the compactor its status says: {status.state}"
    return "the compactor runs, so ask for longer (--timeout)"


def _needed(topic: Topic, log: _Log) -> dict[int, int]:
    """Partition -> the end of what its table is to get out of segments even if the log
    gave it up; none where the table keeps no more than the log."""
    if not waits_for_table(topic.configs):
        return {}
    ends = {n: log.in_segments.get(topic.key(n), 0) for n in range(topic.partitions)}
    return {number: end for number, end in ends.items() if end}


def _reach(table: _Table, number: int, log_start: int, needed: int) -> int:
    """Up to where nothing of a partition is to come any more."""
    end = table.ends.get(number, 0)
    return end if end < needed else max(end, log_start)


def _open_sentence(one: OpenTransaction) -> str:
    whose = one.transactional_id or f"producer {one.producer_id}"
    return (
        f"of {whose} in {one.topic}-{one.partition} from offset {one.start_offset} on"
    )


def _knew(state: TableState, request_id: int) -> bool:
    """Whether the table was tried after the request was seen; a compactor that does not
    say is believed, for it may never say.
    """
    return state.request_id is None or state.request_id >= request_id
