"""What is read of a segment is what was planned, however it is read, or an error."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.protocol.errors import KafkaError
from broker.records.columns import decode
from broker.records.layout import TRANSACTIONAL_BIT
from broker.records.runs import Run
from broker.storage.entry import ENTRY_HEADER_BYTES, location_of
from broker.storage.files import PosixFiles
from broker.storage.readable import PAGE_BYTES
from broker.storage.segment import StaleSegment
from broker.storage.store import LocalSegmentStore
from jobs import slices
from jobs.slices import APART_BYTES, RUN_BYTES, Slice, read_batches
from tests.jobs.world import World, WornFiles
from tests.support.batches import Record, make_batch
from tests.support.damage import segment_with

SMALL = [Record(b"k", b"v")]
LARGE = [Record(b"k", os.urandom(2 * APART_BYTES))]
WINDOW = [Record(b"k", os.urandom(RUN_BYTES))]


class Log:
    """Batches of a topic, and the slices of its first partition."""

    def __init__(self, world: World) -> None:
        self.world, self.topic = world, world.topic("t", 8)
        self.made: dict[int, list[bytearray]] = {}
        self._ends: dict[int, int] = {}

    def produce(self, records: list[Record], partition: int = 0, **how: Any) -> None:
        end = self._ends.get(partition, 0)
        batch = make_batch(records, end, **how)
        self.made.setdefault(partition, []).append(batch)
        self._ends[partition] = end + len(records)
        self.world.append(self.topic, batch, partition)

    def slice(self) -> Slice:
        store = LocalSegmentStore(PosixFiles(), self.world.data_dir / "wal")
        [segment] = store.live()
        found = store.columns(segment.sequence)[self.topic.number, 0]
        positions = found.location - location_of(segment.sequence, 0)
        columns = (found.base, positions, found.length)
        return Slice(store.address, segment.sequence, *(c.tobytes() for c in columns))

    def file(self) -> Path:
        """That of the segment: others are made before they are needed."""
        first = self.made[0][0]
        return segment_with(self.world.data_dir / "wal", first)

    def change(self, batch: bytearray, at: int) -> None:
        """Change one byte of a batch, or of its entry's header (below 0)."""
        with self.file().open("r+b") as file:
            place = file.read().index(batch) + at
            file.seek(place)
            [byte] = file.read(1)
            file.seek(place)
            file.write(bytes([byte ^ 1]))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    (tmp_path / "data").mkdir()
    world = World(tmp_path / "data", segment_bytes=16 << 20)
    yield Log(world)
    world.close()


def flat(found: Any) -> list[bytes]:
    """The batches, in order, however they came."""
    each = (one.batches() if isinstance(one, Run) else [one] for one in found)
    return [bytes(batch) for some in each for batch in some]


def kinds(found: Any) -> list[int]:
    """How many each has: 0 is one by itself."""
    return [len(one) if isinstance(one, Run) else 0 for one in found]


def test_small_ones_come_in_runs_and_are_what_was_written(log: Log) -> None:
    for number in range(50):
        log.produce(SMALL, number % 3, codec=number % 5)
    found = list(read_batches([log.slice()]))
    assert kinds(found) == [17]
    assert flat(found) == log.made[0]


def test_those_that_lie_far_apart_come_by_themselves(log: Log) -> None:
    for _ in range(4):
        log.produce(SMALL)
        log.produce(LARGE, 1)
    found = list(read_batches([log.slice()]))
    assert kinds(found) == [0] * 4
    assert flat(found) == log.made[0]


def test_a_run_begins_within_a_mebibyte_and_no_batch_is_left_out(log: Log) -> None:
    some = [SMALL] * (2 * RUN_BYTES // APART_BYTES)
    for records in (*some, WINDOW, *some, WINDOW, *some):
        log.produce(records)
    found = list(read_batches([log.slice()]))
    assert kinds(found) == [len(some) + 1, len(some) + 1, len(some)]
    assert flat(found) == log.made[0]


def test_one_alone_needs_no_run(log: Log) -> None:
    log.produce(SMALL)
    assert kinds(read_batches([log.slice()])) == [0]


@pytest.mark.parametrize("records", [SMALL, LARGE])
@pytest.mark.parametrize(
    "at", [-ENTRY_HEADER_BYTES, 4 - ENTRY_HEADER_BYTES, 7, 10, 20, 63],
    ids=["magic", "generation", "offset", "length", "checksum", "record"],
)  # fmt: skip
def test_one_that_is_damaged_is_named_and_those_before_it_are_read(
    log: Log, records: list[Record], at: int
) -> None:
    for _ in range(3):
        log.produce(records)
    one = log.slice()
    log.change(log.made[0][1], at)
    groups = decode(read_batches([one]), rows_max=1)
    assert next(groups)["offset"].to_pylist() == [0]
    with pytest.raises(KafkaError, match="the batch at offset"):
        next(groups)


def test_a_page_that_cannot_be_read_harms_only_what_lies_in_it(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    for records in ([Record(b"k", bytes(PAGE_BYTES))], SMALL, SMALL, SMALL):
        log.produce(records, 1)
        log.produce(SMALL)
    one = log.slice()
    files = WornFiles()
    store = LocalSegmentStore(files, log.world.data_dir / "wal")
    monkeypatch.setattr(slices, "_store", lambda address: store)
    large = log.file().read_bytes().index(log.made[1][0])
    page = large - large % PAGE_BYTES + PAGE_BYTES
    files.bad = (log.file(), page if page < large + PAGE_BYTES - 100 else large)
    assert flat(read_batches([one])) == log.made[0]
    files.bad = (log.file(), log.file().read_bytes().rindex(log.made[0][-1]))
    with pytest.raises(KafkaError, match="the batch at offset"):
        list(decode(read_batches([one])))


@pytest.mark.parametrize("records", [SMALL, WINDOW])
def test_a_segment_that_is_used_again_while_it_is_read_is_not_called_damaged(
    log: Log, tmp_path: Path, records: list[Record]
) -> None:
    log.produce(WINDOW)
    for _ in range(3):
        log.produce(records)
    one, copy = log.slice(), tmp_path / "copy"
    coming = shutil.ignore_patterns("*.new")  # it may be renamed meanwhile
    shutil.copytree(log.world.data_dir / "wal", copy, ignore=coming)
    batches = read_batches([one._replace(store=str(copy))])
    next(batches)
    for file in copy.glob("*.log"):
        with file.open("r+b") as segment:
            segment.write(bytes(file.stat().st_size))
    with pytest.raises(StaleSegment):
        list(batches)


def test_a_segment_that_is_not_there_any_more_is_stale(log: Log) -> None:
    log.produce(SMALL)
    one = log.slice()
    with pytest.raises(StaleSegment):
        list(read_batches([one._replace(sequence=one.sequence + 1)]))


@pytest.mark.parametrize("records", [SMALL, LARGE])
def test_what_does_not_count_is_left_out_and_verified_all_the_same(
    log: Log, records: list[Record]
) -> None:
    """A plan that leaves out a batch that is of no transaction is damage or a fault."""
    for attributes in (0, TRANSACTIONAL_BIT, 0, TRANSACTIONAL_BIT):
        log.produce(records, attributes=attributes)
    one = log.slice()
    made = log.made[0]
    assert flat(read_batches([one._replace(counts=b"\1\0\1\1")])) == [
        made[0], made[2], made[3],
    ]  # fmt: skip
    with pytest.raises(KafkaError, match="offset 2 is not what it was taken for"):
        list(read_batches([one._replace(counts=b"\1\0\0\1")]))
    log.change(made[1], 63)
    with pytest.raises(KafkaError, match="offset 1 is not what it was taken for"):
        list(read_batches([one._replace(counts=b"\1\0\1\1")]))


def test_where_none_counts_nothing_comes(log: Log) -> None:
    for _ in range(3):
        log.produce(SMALL, attributes=TRANSACTIONAL_BIT)
    assert list(read_batches([log.slice()._replace(counts=bytes(3))])) == []
