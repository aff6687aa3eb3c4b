"""Tables hold what was committed, once, and never reach into an open transaction."""

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.records.batch import assign
from broker.records.layout import TRANSACTIONAL_BIT
from broker.records.markers import Marker, marker_batch
from broker.storage.entry import position_of
from broker.storage.files import PosixFiles
from broker.storage.readable import PAGE_BYTES
from broker.storage.store import LocalSegmentStore
from jobs.backlog import LOOK_AGAIN_MS, Backlog
from jobs.check import check_data_directory
from jobs.planner import plan
from jobs.round import file_task
from jobs.rows import write_file
from lakehouse.log.delta_log import load, table_ends
from tests.jobs.world import World, WornFiles, damage
from tests.support.batches import Record, make_batch, read_batch
from tests.support.damage import segment_with

PRODUCERS = (1, 2, 3)
NOW_MS = 1_700_000_000_000


@dataclass
class Story:
    """A topic with transactions, and what of it should stand in its table."""

    world: World
    offset: int = 0
    committed: list[Record] = field(default_factory=list)
    opened: dict[int, list[Record]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.topic = self.world.topic("t")
        self.compactor = self.world.compactor()

    def record(self, producer: int, count: int = 1) -> None:
        """A batch: of a transaction, or plain of producer 0."""
        attributes = TRANSACTIONAL_BIT if producer else 0
        records = [Record(b"k", b"%d" % (self.offset + at)) for at in range(count)]
        ids = (producer, 0, 0) if producer else (-1, -1, -1)
        batch = make_batch(records, self.offset, producer=ids, attributes=attributes)
        self.world.append(self.topic, batch)
        found = read_batch(batch)
        if producer:
            self.opened.setdefault(producer, []).extend(found)
        else:
            self.committed += found
        self.offset += count

    def marker(self, producer: int, commit: bool) -> None:
        batch = marker_batch(producer, 0, Marker(commit), NOW_MS)
        assign(batch, self.offset)
        self.world.append(self.topic, batch)
        ended = self.opened.pop(producer, [])
        if commit:
            self.committed += ended
        self.offset += 1

    @property
    def stable(self) -> int:
        firsts = [records[0].offset for records in self.opened.values()]
        return min(firsts, default=self.offset)

    def check(self) -> None:
        """The table holds all that is stable and counts, and nothing else."""
        by_offset = sorted(self.committed, key=lambda one: one.offset)
        wanted = [one for one in by_offset if one.offset < self.stable]
        assert self.world.rows(self.topic) == wanted


@pytest.fixture
def story(world: World) -> Story:
    return Story(world)


def test_only_what_was_committed_is_in_the_table(story: Story) -> None:
    story.record(1)
    story.record(2, 3)
    story.record(0)
    story.marker(1, commit=True)
    story.marker(2, commit=False)
    story.world.flush(story.compactor)
    story.check()
    assert [one.offset for one in story.world.rows(story.topic)] == [0, 4]


def test_a_table_ends_before_the_first_open_transaction(story: Story) -> None:
    story.record(0)
    story.record(1)
    story.record(0)
    story.world.flush(story.compactor)
    assert [one.offset for one in story.world.rows(story.topic)] == [0]
    story.world.roll()
    story.marker(1, commit=True)
    story.world.flush(story.compactor)
    story.check()
    assert len(story.world.rows(story.topic)) == 3


def test_what_has_no_rows_at_all_is_done_all_the_same(story: Story) -> None:
    """Else its segment were kept for ever."""
    story.record(0)
    story.world.flush(story.compactor)
    story.record(1)
    story.marker(1, commit=False)
    story.world.flush(story.compactor)
    story.check()
    snapshot = load(str(story.world.path(story.topic)))
    assert table_ends(snapshot, story.topic.id.hex()) == {0: 3}


def backlog_of(world: World) -> Backlog:
    return Backlog(LocalSegmentStore(PosixFiles(), world.data_dir / "wal"))


def test_what_is_decided_is_looked_at_again_only_where_something_has_changed(story):
    story.record(1)
    story.record(2)
    story.marker(1, commit=False)
    backlog, number = backlog_of(story.world), story.topic.number

    def pending() -> Any:
        backlog.refresh(NOW_MS)
        (found,) = backlog.pending({}, [number])
        return found.chunks

    first = pending()
    assert pending() is first
    assert [chunk.counted().base.tolist() for chunk in first] == [[]]
    story.marker(2, commit=True)
    assert [chunk.counted().base.tolist() for chunk in pending()] == [[1]]
    story.record(0)
    story.world.roll()
    assert [chunk.counted().base.tolist() for chunk in pending()] == [[1, 4]]


class ATable:
    """As much of `jobs.tables.Table` as naming a file needs."""

    def __init__(self, topic: Any, path: Path) -> None:
        self.topic, self.path = topic, str(path)


def test_wherever_a_table_ends_the_rest_is_judged_alike(story, tmp_path) -> None:
    """Rounds may end anywhere between a transaction's batches, once it is decided."""
    for producer in (1, 2, 0, 1, 2, 0, 1):
        story.record(producer)
    story.marker(2, commit=True)
    story.marker(1, commit=False)
    story.record(0)
    story.record(3)
    backlog, key = backlog_of(story.world), (story.topic.number, 0)
    backlog.refresh(0)
    table = ATable(story.topic, tmp_path / "files")
    for start in range(story.stable):
        (pending,) = backlog.pending({key: start}, [story.topic.number])
        items = plan([pending], 1, item_bytes=200).items
        items.sort(key=lambda item: item.start)
        tasks = [file_task(item, table, f"a-{start}") for item in items]
        rows = [write_file(task).rows for task in tasks]
        assert rows == [item.records for item in items]
        assert (items[0].start, items[-1].end) == (start, story.stable)
        offsets = [one.offset for one in story.committed]
        assert sum(rows) == sum(start <= at < story.stable for at in offsets)


def test_a_damaged_marker_decides_nothing(story: Story) -> None:
    story.record(1)
    batch = marker_batch(1, 0, Marker(False), NOW_MS)
    assign(batch, 1)
    story.world.append(story.topic, batch)
    story.record(0)
    path = segment_with(story.world.data_dir / "wal", bytes(batch))
    data = bytearray(path.read_bytes())
    at = data.index(bytes(batch))
    data[at + 69] ^= 1  # an abort becomes a commit
    path.write_bytes(data)
    backlog = backlog_of(story.world)
    backlog.refresh(0)
    (pending,) = backlog.pending({}, [story.topic.number])
    assert not pending.chunks, "its transaction is open, as far as one can know"
    story.world.flush(story.compactor)
    assert story.world.rows(story.topic) == []


def test_a_marker_that_can_be_read_again_decides_what_it_ended(story: Story) -> None:
    story.record(1, 1000)
    story.marker(1, commit=True)
    story.record(0, 1000)  # the footer stands in another page
    world, files = story.world, WornFiles()
    world.roll()
    store = LocalSegmentStore(PosixFiles(), world.data_dir / "wal")
    (info,) = store.live()
    places = store.columns(info.sequence)[story.topic.number, 0].location
    place = position_of(int(places[1]))
    files.bad = info.path.resolve(), place - place % PAGE_BYTES
    compactor = world.compactor(files=files)
    world.flush(compactor)
    assert world.rows(story.topic) == []
    files.bad = None
    world.clock.advance(LOOK_AGAIN_MS)
    world.flush(compactor)
    story.check()
    assert len(world.rows(story.topic)) == 2000


def test_what_a_start_found_less_of_is_looked_at_anew(story: Story) -> None:
    """A batch that the table has is damaged, and the broker killed: those behind it are
    still what they were."""
    world, batches = story.world, list[bytearray]()
    append = world.append
    world.append = lambda *args: (batches.append(args[1]), append(*args))[1]  # type: ignore[method-assign]
    for _ in range(3):
        story.record(1)
        story.marker(1, commit=True)
    world.flush(story.compactor)
    story.record(2, 5)
    story.marker(2, commit=True)
    story.record(0, 2)
    story.compactor.step()
    damage(world.wal.segments()[-1].path, batches[2])
    world.restart_log(is_whole=False)
    story.record(0)
    world.flush(story.compactor)
    story.check()


def test_what_could_not_be_looked_at_is_not_taken_for_what_was_aborted(story: Story):
    """The page can be read again when the table's file is written."""
    story.record(1, 1000)  # the marker stands in another page
    story.marker(1, commit=True)
    story.record(0, 1000)  # and so does the footer
    world, files = story.world, WornFiles()
    world.roll()
    store = LocalSegmentStore(PosixFiles(), world.data_dir / "wal")
    (info,) = store.live()
    files.bad = info.path.resolve(), PAGE_BYTES  # the first one that has batches
    compactor = world.compactor(files=files)
    world.flush(compactor)
    assert world.rows(story.topic) == []
    files.bad = None
    world.clock.advance(LOOK_AGAIN_MS)
    world.flush(compactor)
    story.check()


@pytest.mark.parametrize("ends_well", [True, False])
@pytest.mark.parametrize("damaged_at", [22, 50, 69, None])
def test_what_a_damaged_marker_ended_is_not_judged_by_the_next(
    story, damaged_at, ends_well
) -> None:
    """Whose transaction it ended, and how, is not known; what was open is held."""
    story.record(0)
    story.record(1, 50)
    batch = marker_batch(1, 0, Marker(not ends_well), NOW_MS)
    assign(batch, story.offset)
    story.world.append(story.topic, batch)
    story.offset += 1
    story.record(1)
    story.marker(1, commit=ends_well)
    story.world.roll()
    path = segment_with(story.world.data_dir / "wal", bytes(batch))
    data = bytearray(path.read_bytes())
    at = data.index(bytes(batch))
    if damaged_at is None:
        data[at : at + len(batch)] = bytes(len(batch))
    else:
        data[at + damaged_at] ^= 32  # 22: no control batch; 50: of another producer
    path.write_bytes(data)
    backlog = backlog_of(story.world)
    backlog.refresh(0)
    (pending,) = backlog.pending({}, [story.topic.number])
    assert [chunk.base.tolist() for chunk in pending.chunks] == [[0]]
    assert "offset 51 is damaged" in str(backlog.held[story.topic.number, 0])
    story.world.flush(story.compactor)
    assert [one.offset for one in story.world.rows(story.topic)] == [0]


@pytest.mark.parametrize(
    ("producer", "damaged_at", "bit"), [(1, 50, 32), (1, 48, 1), (0, 22, 16)]
)
def test_a_damaged_batch_that_waits_for_a_marker_is_told(
    story, producer, damaged_at, bit
) -> None:
    """50, 48: it is another producer's, who ends nothing; 22: it was a plain one."""
    story.record(0)
    story.record(producer, 50)
    if producer:
        story.marker(producer, commit=True)
    story.record(0)
    story.world.roll()
    store = LocalSegmentStore(PosixFiles(), story.world.data_dir / "wal")
    (segment,) = store.live()
    places = store.columns(segment.sequence)[story.topic.number, 0].location
    data = bytearray(segment.path.read_bytes())
    data[position_of(int(places[1])) + damaged_at] ^= bit
    segment.path.write_bytes(data)
    story.world.flush(story.compactor)
    assert [one.offset for one in story.world.rows(story.topic)] == [0]
    backlog = backlog_of(story.world)
    for _ in range(2):
        backlog.refresh(0)
        (pending,) = backlog.pending({}, [story.topic.number])
        assert [chunk.base.tolist() for chunk in pending.chunks] == [[0]]
        told = backlog.held[story.topic.number, 0]
        assert "the batch at offset 1 is damaged" in str(told)
    (table,) = story.compactor.status().tables
    assert table.stuck


def test_a_batch_whose_base_offset_is_damaged_is_told(story) -> None:
    """It does not look like another generation's for ever."""
    for _ in range(3):
        story.record(0)
    story.world.roll()
    store = LocalSegmentStore(PosixFiles(), story.world.data_dir / "wal")
    (segment,) = store.live()
    places = store.columns(segment.sequence)[story.topic.number, 0].location
    data = bytearray(segment.path.read_bytes())
    data[position_of(int(places[1])) + 5] ^= 32
    segment.path.write_bytes(data)
    for _ in range(3):  # what lies before it goes first
        story.world.flush(story.compactor)
    (table,) = story.compactor.status().tables
    assert table.stuck


def test_a_check_finds_nothing_wrong_with_what_is_left_out(story: Story) -> None:
    for producer in (1, 2, 0):
        story.record(producer)
    story.marker(2, commit=True)
    story.marker(1, commit=False)
    story.record(3)
    story.world.produced[story.topic.number, 0] = [Record(offset=story.offset - 1)]
    story.world.checkpoint()
    story.world.flush(story.compactor)
    story.check()
    assert check_data_directory(story.world.data_dir).problems == []
    story.world.roll()
    assert check_data_directory(story.world.data_dir).problems == []


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.integers(0, 2**32))
def test_whatever_order_they_come_in(tmp_path_factory, seed: int) -> None:
    chance = random.Random(seed)
    world = World(tmp_path_factory.mktemp("world"), segment_bytes=1 << 16)
    story = Story(world)
    try:
        for _ in range(60):
            match chance.randrange(12):
                case 0 | 1 | 2 | 3 | 4:
                    story.record(chance.choice((0, *PRODUCERS)), chance.randrange(1, 4))
                case 5 | 6 | 7:
                    story.marker(chance.choice(PRODUCERS), chance.random() < 0.5)
                case 8 if any(not one.sealed for one in world.wal.segments()):
                    world.roll()
                case 9:
                    world.flush(story.compactor)
                    story.check()
                case 10:
                    story.compactor = world.compactor()
                case 11:
                    world.restart_log()
        for producer in PRODUCERS:
            story.marker(producer, commit=chance.random() < 0.5)
        world.flush(story.compactor)
        story.check()
    finally:
        world.close()
