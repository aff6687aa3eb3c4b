"""A data directory with a real log, catalog and tables, without a broker."""

import errno
import itertools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from broker.catalog import topics as catalog_topics
from broker.catalog.catalog import Catalog
from broker.ids import TopicPartition
from broker.log import checkpoint
from broker.log.partition import PartitionLog
from broker.records.batch import read_header
from broker.settings import LakeSettings, Settings, TopicSettings
from broker.storage.files import Files, PosixFiles
from broker.storage.manifest import read_manifest
from broker.storage.objects import LocalObjects
from broker.storage.readable import PAGE_BYTES
from broker.storage.store import LocalSegmentStore
from broker.storage.wal import Append, Carried, Wal
from broker.topics.topic import Topic
from jobs.backlog import Backlog
from jobs.cleaning.rewrite import CleanTask, clean_files
from jobs.compactor import Compactor
from jobs.merging.background import Done, Runner, Task
from jobs.merging.rewrite import merge_files
from jobs.round import Spread
from jobs.rows import Failed, FileTask, Written, write_files
from lakehouse.location import table_path
from lakehouse.log.actions import DataFile
from lakehouse.log.delta_log import load
from tests.support.batches import Record, make_batch, read_batch
from tests.support.clock import ManualClock
from tests.support.new_catalog import lay_catalog
from tests.support.patience import IDLE_S, wait_until

FLUSH_MS = 5000
FLUSHES = {"flush_ms": FLUSH_MS, "flush_max_ms": FLUSH_MS}

DELAY = 60_000
WEEK = 604_800_000
"""For so long a table's files stay once they left it, and a deleted topic's table."""


def some(count: int, tag: bytes = b"v") -> list[Record]:
    """Records of all kinds: keys, values and headers that are there or not."""
    return [
        Record(
            None if i % 3 == 0 else b"k%d" % i,
            None if i % 5 == 0 else tag * (i % 7),
            ((b"h", b"1"), (b"h", None)) if i % 4 == 0 else (),
            1_700_000_000_000 + i,
        )
        for i in range(count)
    ]


def here(tasks: list[list[FileTask]]) -> list[list[Written | Failed]]:
    """What Spark's workers do, done in this process."""
    return [write_files(task) for task in tasks]


def damage(path: Path, batch: bytearray) -> None:
    """Change a byte of a batch in its segment."""
    with open(path, "r+b") as file:
        at = file.read().index(batch)
        file.seek(at + 80)
        file.write(b"\xff")


class MergesHere:
    """Merges and cleans in this process, when they are asked for; ``between`` is called
    before each is taken."""

    def __init__(self, between: Callable[[Any], None] = lambda task: None):
        self.tasks: list[Any] = []
        self._between, self._done = between, list[Done]()

    def start(self, task: Task) -> None:
        self.tasks.append(task)
        is_clean = isinstance(task, CleanTask)
        self._done.append(clean_files(task) if is_clean else merge_files(task))

    def take(self) -> Done | None:
        self._between(self.tasks[-1])
        return self._done.pop()

    def wait(self, timeout_s: float | None = None) -> None:
        """All is done."""


class WornFiles(PosixFiles):
    """One page of one file cannot be read."""

    bad: tuple[Path, int] | None = None

    def pread(self, file: int, length: int, position: int) -> bytes:
        if self.bad is not None and position < self.bad[1] + PAGE_BYTES:
            is_there = self.bad[1] < position + length
            if is_there and os.readlink(f"/proc/self/fd/{file}") == str(self.bad[0]):
                raise OSError(errno.EIO, "Input/output error")
        return super().pread(file, length, position)


class World:
    """Produces as a broker would, and steps a compactor by hand."""

    def __init__(self, data_dir: Path, segment_bytes: int = 1 << 20) -> None:
        self.data_dir = data_dir
        self.clock = ManualClock()
        self.catalog = Catalog.open(lay_catalog(data_dir))
        self.segment_bytes = segment_bytes
        self.produced: dict[tuple[int, int], list[Record]] = {}
        self.holes: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._ids = itertools.count(1)
        self.wal = self._open()

    def _open(self, *, is_whole: bool = True) -> Wal:
        """The log that is there; None: it may be whole, or not."""
        wal, recovery = Wal.open(
            PosixFiles(), self.data_dir / "wal", call_soon=self._calls.put,
            segment_bytes=self.segment_bytes, hot_bytes=1 << 20,
        )  # fmt: skip
        assert bool(recovery.damage) != is_whole
        return wal

    def topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> Topic:
        return self.catalog.change(
            lambda c: catalog_topics.create(
                c,
                name,
                bytes([next(self._ids)]) * 16,
                partitions,
                dict(configs or {}),
                1,
            )
        )

    def produce(
        self,
        topic: Topic,
        records: Sequence[Record],
        partition: int = 0,
        *,
        skip: int = 0,
        **more: Any,
    ) -> None:
        """One batch, durable when this returns; ``skip`` leaves offsets out."""
        seen = self.produced.setdefault((topic.number, partition), [])
        end = seen[-1].offset + 1 if seen else 0
        base = end + skip
        if skip:
            self.holes.setdefault((topic.number, partition), []).append((end, base))
        batch = make_batch(records, base, **more)
        self.append(topic, batch, partition)
        seen += read_batch(batch)

    def append(self, topic: Topic, batch: bytearray, partition: int = 0) -> None:
        header = read_header(batch)
        done: list[Append] = []
        self.wal.append(
            Append(
                topic.number, partition, batch, header, header.base_offset,
                header.last_offset, header.max_timestamp, done.append,
            )
        )  # fmt: skip
        while not done:
            self._calls.get(timeout=IDLE_S)()
        assert done[0].error is None

    def roll(self) -> None:
        """Seal the active segment."""
        before = len(self.wal.segments())
        self.wal.roll()
        self._drain(lambda: self.wal.segments()[before - 1].sealed)

    def checkpoint(self) -> None:
        """Say how far the partitions are durable, as the broker does at each seal."""
        ends = {key: seen[-1].offset + 1 for key, seen in self.produced.items()}
        logs = {key: PartitionLog(0, end) for key, end in ends.items()}
        for key, holes in self.holes.items():
            logs[key].holes = holes
        payload = checkpoint.pack(logs.items())
        self.wal.checkpoint(payload)

        def is_written() -> bool:
            manifest = read_manifest(LocalObjects(PosixFiles(), self.data_dir / "wal"))
            return manifest is not None and manifest.payload == payload

        self._drain(is_written)

    def carry(self, needed: dict[TopicPartition, int]) -> None:
        """Carry what is ``needed`` (partition -> from which offset on) of all sealed
        segments into one that replaces them."""
        self.roll()
        self.checkpoint()
        sealed = [info.sequence for info in self.wal.segments() if info.sealed]
        heard: list[Carried | None] = []
        self.wal.carry(sealed, needed, heard.append)
        self._drain(lambda: bool(heard))
        assert heard[0] is not None
        self.wal.release_replaced(heard[0].sequences)

    def wait_for_recycler(self) -> None:
        """Until the files of released segments are free."""
        self._drain(lambda: not self.wal._segments.released())

    def release(self) -> None:
        """Release every segment: what they held is in tables."""
        self.roll()
        self.checkpoint()
        for info in self.wal.segments():
            if info.sealed:
                self.wal.release(info.sequence)
        self._drain(
            lambda: not LocalSegmentStore(PosixFiles(), self.data_dir / "wal").live()
        )

    def _drain(self, until: Callable[[], bool]) -> None:
        def is_so() -> bool:
            while not self._calls.empty():
                self._calls.get()()
            return until()

        wait_until(is_so, pause_s=0.001)

    def restart_log(self, *, is_whole: bool = True) -> None:
        self.wal.close()
        self.wal = self._open(is_whole=is_whole)

    def compactor(
        self,
        spread: Spread = here,
        *,
        cores: Callable[[], int] = lambda: 2,
        holds_lease: Callable[[], bool] = lambda: True,
        set_niceness: Callable[[int], bool] = lambda niceness: True,
        files: Files | None = None,
        merges: Runner | None = None,
        topics: TopicSettings | None = None,
        **lake: Any,
    ) -> Compactor:
        settings = Settings(
            data_dir=self.data_dir,
            lake=LakeSettings(**FLUSHES | lake),
            topics=topics or TopicSettings(),
        )
        reader = LocalSegmentStore(files or PosixFiles(), self.data_dir / "wal")
        return Compactor(
            settings, self.catalog, Backlog(reader), spread, cores, self.clock,
            holds_lease, set_niceness, merges,
        )  # fmt: skip

    def flush(self, compactor: Compactor) -> None:
        """Look, let time pass until everything is due, and do all of it."""
        compactor.step()
        self.clock.advance(FLUSH_MS)
        while compactor.step():
            pass

    def path(self, topic: Topic) -> Path:
        return Path(table_path(self.data_dir / "tables", topic.name))

    def rows(self, topic: Topic, partition: int = 0) -> list[Record]:
        """What the table holds, read by deltalake, in order of offset."""
        import deltalake

        if not (self.path(topic) / "_delta_log").is_dir():
            return []
        table = deltalake.DeltaTable(str(self.path(topic))).to_pyarrow_table()
        return records_of(table, partition)

    def check_rows(self) -> None:
        """Each record that was produced is in its table, once, and nothing else."""
        topics = {t.number: t for t in self.catalog.read(catalog_topics.load)}
        for (number, partition), records in self.produced.items():
            assert self.rows(topics[number], partition) == records

    def close(self) -> None:
        self.wal.close()
        self.catalog.close()


def records_of(table: Any, partition: int) -> list[Record]:
    """The rows of one partition as a consumer would see them."""
    at = table.schema.get_field_index("timestamp")
    plain = table.set_column(at, "timestamp", table["timestamp"].cast("int64"))
    rows = [row for row in plain.to_pylist() if row["partition"] == partition]
    return [
        Record(
            row["key"],
            row["value"],
            tuple((h["key"].encode(), h["value"]) for h in row["headers"] or ()),
            row["timestamp"] // 1000,
            row["offset"],
            row["timestampType"],
        )
        for row in sorted(rows, key=lambda row: row["offset"])
    ]


def later(world: World, compactor: Any, ms: int = DELAY) -> None:
    world.clock.advance(ms)
    compactor.step()


def alter_configs(world: World, topic: Any, configs: Mapping[str, str]) -> None:
    """The topic's own settings are these from now on."""
    world.catalog.change(
        lambda c: catalog_topics.alter_configs(c, topic.number, configs)
    )


def start_at(world: World, topic: Any, offset: int) -> None:
    world.catalog.change(
        lambda c: catalog_topics.set_log_start(c, {(topic.number, 0): offset})
    )


def move_elsewhere(world: World, topic: Any, file: DataFile) -> Path:
    """As an owner may: a file of partition 0 lies outside of its table from now on."""
    path = world.path(topic)
    elsewhere = world.data_dir / "elsewhere.parquet"
    (path / file.path).rename(elsewhere)
    stats = {"numRecords": file.rows} | {
        f"{bound}Values": {"offset": offset}
        for bound, offset in (("min", file.first_offset), ("max", file.last_offset))
    }
    add = {"path": str(elsewhere), "partitionValues": {"partition": "0"},
           "size": file.size, "modificationTime": 1, "dataChange": True,
           "stats": json.dumps(stats)}  # fmt: skip
    remove = {"path": file.path, "deletionTimestamp": 1, "dataChange": True}
    entry = path / "_delta_log" / f"{load(str(path)).version + 1:020d}.json"
    entry.write_text(json.dumps({"remove": remove}) + "\n" + json.dumps({"add": add}))
    return elsewhere


def delete(world: World, topic: Any) -> None:
    world.catalog.change(
        lambda c: catalog_topics.delete(c, topic.number, world.clock.now_ms())
    )


def aside(world: World) -> list[Path]:
    return sorted((world.data_dir / "tables").glob(".deleted-*"))
