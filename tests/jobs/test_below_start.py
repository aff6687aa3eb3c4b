"""What lies below a log's start stops nothing, and decides nothing wrongly."""

import errno
import os
import shutil
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.catalog import requests
from broker.records.batch import assign
from broker.records.kinds import ABORT, COMMIT, PLAIN, TRANSACTIONAL
from broker.records.layout import TRANSACTIONAL_BIT
from broker.records.markers import Marker, marker_batch
from broker.status.schema import DAMAGED, way_out
from broker.storage.files import PosixFiles
from broker.storage.store import LocalSegmentStore
from jobs.backlog import LOOK_AGAIN_MS, Backlog
from jobs.batches import Batches
from jobs.below_start import above, gaps_below, is_in_doubt
from jobs.check import check_data_directory
from jobs.compactor import Compactor
from jobs.decided import decided
from jobs.log_starts import AGAIN_MS
from lakehouse.log.delta_log import load, table_ends
from tests.jobs.specials import Special, bases_of, chunk_of, end_by_hand
from tests.jobs.world import World, start_at
from tests.support.batches import Record, make_batch, read_batch
from tests.support.damage import segment_with, tear_batch

NOW_MS = 1_700_000_000_000
SPECIALS = st.sampled_from(
    [
        *((PLAIN, 0, 0, -1, n) for n in (1, 3)),
        *((TRANSACTIONAL, p, 0, -1, n) for p in (1, 2) for n in (1, 3)),
        *((kind, p) for kind in (ABORT, COMMIT) for p in (1, 2)),
    ]
)


def segments_of(specials: list[Special], cuts: set[int]) -> list[Batches]:
    bounds = sorted({0, *(min(cut, len(specials)) for cut in cuts), len(specials)})
    bases = bases_of(specials)
    return [
        chunk_of(specials[first:end], bases[first], sequence)
        for sequence, (first, end) in enumerate(pairwise(bounds))
    ]


def taken(chunks: list[Batches], log_start: int) -> list[Batches]:
    """What goes into the table, one look after the other."""
    found: list[Batches] = []
    while chunks:
        judged = decided(chunks, gaps_below(chunks, log_start))
        if is_in_doubt(chunks, judged, log_start):
            if int(chunks[0].last[0]) >= log_start:
                break
            chunks = above(chunks, log_start)
        elif judged:
            found += judged
            chunks = above(chunks, int(judged[-1].last[-1]) + 1)
        else:
            break
    return found


T1, ABORT1, COMMIT1 = (TRANSACTIONAL, 1), (ABORT, 1), (COMMIT, 1)


@given(
    st.lists(SPECIALS, min_size=1, max_size=24),
    st.sets(st.integers(1, 23)),
    st.integers(0, 40),
    st.sets(st.integers(0, 23)),
)
@example([T1, ABORT1, COMMIT1], {1, 2}, 3, {1})
def test_whatever_was_released_only_what_was_committed_counts(
    specials: list[Special], cuts: set[int], log_start: int, released: set[int]
) -> None:
    """And all that was, from the log's start up to the first transaction there that is
    open."""
    bases = bases_of(specials)
    log_start = min(log_start, bases[-1])
    chunks = [
        one
        for one in segments_of(specials, cuts)
        if one.sequence not in released or int(one.last[-1]) >= log_start
    ]
    judged = taken(chunks, log_start)
    counted = {offset for one in judged for offset in one.counted().base.tolist()}
    ends = {
        at: end_by_hand(at, specials) if one[0] else COMMIT
        for at, one in enumerate(specials)
        if one[0] in (PLAIN, TRANSACTIONAL)
    }
    committed = {bases[at] for at, end in ends.items() if end == COMMIT}
    needed = [at for at in ends if bases[at + 1] > log_start]
    stable = min((bases[at] for at in needed if ends[at] is None), default=bases[-1])
    wanted = {bases[at] for at in needed}
    assert counted <= committed
    assert {at for at in committed & wanted if at < stable} <= counted
    end = max((int(one.last[-1]) + 1 for one in judged), default=log_start)
    assert max(end, log_start) == max(stable, log_start)


class Partition:
    """A partition of one batch after the other, whose table keeps all."""

    def __init__(self, world: World) -> None:
        self.world, self.end = world, 0
        self.topic = world.topic("t", configs={"lake.retention.ms": "-1"})
        self.other = world.topic("other")

    def records(self, count: int, producer: int = 0, epoch: int = 0) -> None:
        more = {"producer": (producer, epoch, 0), "attributes": TRANSACTIONAL_BIT}
        records = [Record(b"k", b"%d" % (self.end + at)) for at in range(count)]
        batch = make_batch(records, self.end, **more if producer else {})
        self.world.append(self.topic, batch)
        self.note(read_batch(batch))

    def marker(self, producer: int, commit: bool, start: int | None = None) -> None:
        marker = Marker(commit)
        if start is not None:
            marker = marker.starting(start, self.end)
        batch = marker_batch(producer, 0, marker, NOW_MS)
        assign(batch, self.end)
        self.world.append(self.topic, batch)
        self.note([Record(offset=self.end)])

    def note(self, records: list[Record]) -> None:
        self.world.produced.setdefault((self.topic.number, 0), []).extend(records)
        self.end += len(records)

    def release(self, at: int) -> None:
        """Let a segment go, by its place among those that are there."""
        self.world.checkpoint()
        self.world.wal.release(self.world.wal.segments()[at].sequence)
        self.world.wait_for_recycler()

    @property
    def offsets(self) -> list[int]:
        return [record.offset for record in self.world.rows(self.topic)]

    @property
    def table_end(self) -> int:
        snapshot = load(str(self.world.path(self.topic)))
        return table_ends(snapshot, self.topic.id.hex())[0]


@pytest.fixture
def one(world: World) -> Partition:
    return Partition(world)


def outlives_its_marker(one: Partition, *, commit: bool, says_start: bool) -> None:
    """Offsets 0 to 4 are of a transaction whose marker goes; the log starts at 9, where
    its producer's next one begins."""
    start = 0 if says_start else None
    one.records(5, producer=1)
    one.world.produce(one.other, [Record()])  # keeps the segment
    one.world.roll()
    one.marker(1, commit, start)
    one.records(3)
    one.world.roll()
    one.records(2, producer=1)
    one.marker(1, commit=True, start=9 if says_start else None)
    one.records(2)
    one.world.roll()
    start_at(one.world, one.topic, 9)
    one.release(1)


@pytest.mark.parametrize("says_start", [True, False])
@pytest.mark.parametrize("commit", [True, False])
def test_records_that_outlast_their_marker_wait_for_none(
    one: Partition, *, commit: bool, says_start: bool
) -> None:
    """Nor count by that of their producer's next transaction."""
    outlives_its_marker(one, commit=commit, says_start=says_start)
    compactor = one.world.compactor()
    one.world.flush(compactor)
    assert (one.offsets, one.table_end) == ([9, 10, 12, 13], 14)
    compactor.step()
    status = compactor.status()
    assert (status.problems, status.tables) == ((), ())
    assert check_data_directory(one.world.data_dir).problems == []


def goes_before_a_marker_that_is_taken(one: Partition) -> None:
    """Offsets 0 to 2 are decided; of the transaction behind them the marker goes with
    all below 12, where its producer's next one begins."""
    one.records(3)
    one.records(5, producer=1)
    one.world.produce(one.other, [Record()])  # keeps the segment
    one.world.roll()
    one.marker(1, commit=True, start=3)
    one.records(3)
    one.world.roll()
    one.records(2, producer=1)
    one.marker(1, commit=True, start=12)


def test_a_marker_that_was_taken_is_not_called_lost(one: Partition) -> None:
    """Nor is whoever asks for the topic told so, while what is decided waits."""
    goes_before_a_marker_that_is_taken(one)
    one.records(2)
    start_at(one.world, one.topic, 12)
    one.release(1)
    compactor = one.world.compactor()
    one.world.catalog.change(lambda c: requests.ask(c, None, 1))
    for _ in range(3):
        compactor.step()
        status = compactor.status()
        assert (status.problems, [t for t in status.tables if t.stuck]) == ((), [])
    assert (one.offsets, one.table_end) == ([0, 1, 2, 12, 13, 15, 16], 17)
    assert one.world.catalog.read(requests.pending) == []


def test_what_is_whole_below_the_log_start_stands_in_the_table(one: Partition) -> None:
    """Which may keep it for longer than the log does."""
    one.records(2, producer=1)
    one.records(1)
    one.marker(1, commit=True)
    one.records(1)
    start_at(one.world, one.topic, 4)
    one.world.flush(one.world.compactor())
    assert one.offsets == [0, 1, 2, 4]


def test_a_transaction_on_both_sides_of_the_log_start_is_decided_by_what_is_left(
    one: Partition,
) -> None:
    one.records(2, producer=1)
    one.world.produce(one.other, [Record()])
    one.world.roll()
    one.records(2)
    one.world.roll()
    one.records(2, producer=1)
    start_at(one.world, one.topic, 4)
    one.release(1)
    compactor = one.world.compactor()
    one.world.flush(compactor)
    assert one.offsets == []
    one.marker(1, commit=True)
    one.world.flush(compactor)
    assert (one.offsets, one.table_end) == ([4, 5], 7)


def test_nothing_waits_where_all_that_is_left_lies_below_the_log_start(
    one: Partition,
) -> None:
    one.records(1)
    compactor = one.world.compactor()
    one.world.flush(compactor)
    one.records(2, producer=1)
    one.world.flush(compactor)
    start_at(one.world, one.topic, 3)
    one.world.clock.advance(AGAIN_MS)
    one.world.flush(compactor)  # its range, without a row
    for _ in range(2):
        one.world.flush(compactor)
        status = compactor.status()
        assert (status.tables, status.problems, status.oldest_pending_ms) == ((), (), 0)
    assert (one.offsets, one.table_end) == ([0], 3)
    one.records(1)
    one.world.flush(compactor)
    assert (one.offsets, one.table_end) == ([0, 3], 4)


def flip(one: Partition, batch: bytes, at: int, bit: int) -> None:
    """Damage a batch where it lies."""
    path = segment_with(one.world.data_dir / "wal", batch)
    data = bytearray(path.read_bytes())
    data[data.index(batch) + at] ^= bit
    path.write_bytes(data)


def checksum_fails(one: Partition, at: int = 5) -> None:
    one.records(5)
    one.records(5)
    one.world.roll()
    flip(one, bytes(make_batch(values(at, 5), at)), 80, 255)


def place_is_torn(one: Partition, at: int = 5) -> None:
    one.records(5)
    one.records(5)
    one.records(5)
    tear(one, at)


def tear(one: Partition, at: int) -> None:
    """Damage a batch of the active segment, which has no footer: that it stood there
    cannot be told."""
    one.world.checkpoint()
    path = one.world.wal.segments()[-1].path
    one.world.wal.close()
    tear_batch(path, at)
    one.world.wal = one.world._open(is_whole=False)


def batch_looks_transactional(one: Partition) -> None:
    one.records(5)
    flip(one, bytes(make_batch(values(0, 5), 0)), 22, 16)


def marker_is_lost(one: Partition) -> None:
    one.records(5, producer=1)
    one.records(3)
    one.records(2, producer=1)
    one.marker(1, commit=True, start=8)


def values(first: int, count: int) -> list[Record]:
    return [Record(b"k", b"%d" % (first + at)) for at in range(count)]


@pytest.mark.parametrize(
    ("damage", "end", "left", "put_back"),
    [
        (checksum_fails, 10, [0, 1, 2, 3, 4], DAMAGED),
        (place_is_torn, 10, [0, 1, 2, 3, 4, 10, 11, 12, 13, 14], ""),
        (batch_looks_transactional, 5, [], ""),
        (marker_is_lost, 5, [5, 6, 7, 8, 9], ""),
    ],
)
def test_whoever_gives_damage_up_as_its_reason_says_goes_on(
    one: Partition,
    damage: Callable[[Partition], None],
    end: int,
    left: list[int],
    put_back: str,
) -> None:
    """What to put back is named where that is taken: not where a start has judged."""
    damage(one)
    first = one.end
    one.records(2)
    compactor = one.world.compactor()
    for _ in range(3):
        one.world.flush(compactor)
    [stuck, *_] = compactor.status().problems
    assert "t-0 cannot be compacted" in stuck
    assert stuck.endswith(f". {way_out(end, put_back)}")
    start_at(one.world, one.topic, end - 1)
    for _ in range(2):
        one.world.clock.advance(LOOK_AGAIN_MS)
        one.world.flush(compactor)
    assert one.offsets == [at for at in left if at < end]
    start_at(one.world, one.topic, end)
    for _ in range(2):
        one.world.clock.advance(LOOK_AGAIN_MS)
        one.world.flush(compactor)
    assert one.offsets == [*left, first, first + 1]
    assert_goes_on(compactor)


def assert_goes_on(compactor: Compactor) -> None:
    compactor.step()
    assert compactor.status().tables == ()
    assert not any("cannot be" in problem for problem in compactor.status().problems)


def told(compactor: Compactor) -> int:
    """Before which offset the records are to be given up."""
    [problem] = [one for one in compactor.status().problems if "cannot be" in one]
    return int(problem.rsplit("DeleteRecords before ", 1)[1])


def give_up(one: Partition, compactor: Compactor, end: int) -> None:
    start_at(one.world, one.topic, end)
    for _ in range(2):
        one.world.clock.advance(LOOK_AGAIN_MS)
        one.world.flush(compactor)
    compactor.step()


def looked(one: Partition) -> Compactor:
    """A compactor that has done all that it can."""
    compactor = one.world.compactor()
    for _ in range(3):
        one.world.flush(compactor)
    return compactor


def test_what_is_whole_before_a_damaged_batch_goes_first(one: Partition) -> None:
    """All of it at once, before anybody is told to give it up."""
    for _ in range(40):
        one.world.produce(one.topic, [Record(b"k", os.urandom(4_000))])
    one.end = 40
    checksum_fails(one, 45)
    compactor = one.world.compactor()
    for _ in range(3):
        compactor.step()
        advice = [p for p in compactor.status().problems if "DeleteRecords" in p]
        assert not advice or one.offsets == list(range(45))
        one.world.flush(compactor)
    assert told(compactor) == 50


def test_two_damaged_batches_are_given_up_one_after_the_other(one: Partition) -> None:
    checksum_fails(one)
    checksum_fails(one, 15)
    one.records(1)
    compactor = looked(one)
    assert told(compactor) == 10
    give_up(one, compactor, 10)
    compactor.step()
    assert (told(compactor), one.offsets) == (20, [*range(5), *range(10, 15)])
    give_up(one, compactor, 20)
    assert one.offsets == [*range(5), *range(10, 15), 20]
    assert_goes_on(compactor)


def test_a_damaged_batch_far_below_the_log_start_alone_is_left_out(
    one: Partition,
) -> None:
    checksum_fails(one)
    one.records(5)
    one.records(5)
    compactor = looked(one)
    give_up(one, compactor, 20)
    assert one.offsets == [*range(5), *range(10, 20)]
    assert_goes_on(compactor)


def test_what_was_given_up_is_not_told_by_the_next_compactor(one: Partition) -> None:
    checksum_fails(one)
    one.records(1)
    compactor = looked(one)
    assert told(compactor) == 10
    start_at(one.world, one.topic, 10)
    compactor = one.world.compactor()
    for _ in range(3):
        one.world.flush(compactor)
        compactor.step()
        assert not any("cannot be" in p for p in compactor.status().problems)
    assert one.offsets == [*range(5), 10]


def test_a_write_that_failed_once_costs_no_row(
    one: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    one.records(5)
    one.records(5)
    compactor = one.world.compactor()

    def is_full(*_: object) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    with monkeypatch.context() as patch:
        patch.setattr("jobs.rows._write", is_full)
        one.world.flush(compactor)
        compactor.step()
    [problem] = compactor.status().problems
    assert problem.endswith("Disk quota exceeded")
    give_up(one, compactor, 10)
    assert one.offsets == list(range(10))
    assert_goes_on(compactor)


def test_of_a_damaged_marker_the_open_records_are_given_up_first(
    one: Partition,
) -> None:
    """What lies between them and the marker is whole, and stays."""
    one.records(2)
    one.records(3, producer=1)
    one.records(5)
    marker_is_damaged(one)
    compactor = looked(one)
    assert (told(compactor), one.offsets) == (5, [0, 1])
    give_up(one, compactor, 5)
    assert (told(compactor), one.offsets) == (11, [0, 1, *range(5, 10)])
    give_up(one, compactor, 11)
    assert one.offsets == [0, 1, *range(5, 10), 11, 12]
    assert_goes_on(compactor)


def marker_is_damaged(one: Partition) -> None:
    marker = marker_batch(1, 0, Marker(commit=True), NOW_MS)
    assign(marker, one.end)
    one.marker(1, commit=True)
    flip(one, bytes(marker), 69, 1)
    one.records(2)


def next_one_begins(one: Partition) -> None:
    start = one.end
    one.records(1, producer=1)
    one.marker(1, commit=True, start=start)


@pytest.mark.parametrize(
    ("end", "ends", "left"),
    [(marker_is_damaged, [3, 8, 9], [3, 4, 5, 9, 10]), (next_one_begins, [3, 8], [8])],
)
def test_what_is_committed_between_open_records_is_not_given_up(
    one: Partition, end: Callable[[Partition], None], ends: list[int], left: list[int]
) -> None:
    one.records(3, producer=1)
    one.records(2)
    one.records(1, producer=2)
    one.marker(2, commit=True)
    one.records(1, producer=1)
    end(one)
    compactor = looked(one)
    for at in ends:
        assert told(compactor) == at
        give_up(one, compactor, at)
    assert one.offsets == sorted({3, 4, 5, *left})
    assert_goes_on(compactor)


def test_of_a_hole_behind_open_records_these_are_given_up_first(
    one: Partition,
) -> None:
    one.records(2)
    one.records(3, producer=1)
    place_is_torn(one, 10)
    compactor = looked(one)
    assert (told(compactor), one.offsets) == (5, [0, 1])
    give_up(one, compactor, 5)
    assert (told(compactor), one.offsets) == (15, [0, 1, *range(5, 10)])
    give_up(one, compactor, 15)
    assert one.offsets == [0, 1, *range(5, 10), *range(15, 20)]
    assert_goes_on(compactor)


@pytest.mark.parametrize("start", [0, 1])
def test_a_marker_behind_a_hole_that_says_its_start_decides_before_it(
    one: Partition, start: int
) -> None:
    """The broker serves these records as committed; the hole alone is given up."""
    if start:
        one.records(start)
    one.records(4, producer=1)
    place_is_torn(one, one.end + 5)
    gone = range(start + 9, start + 14)
    one.marker(1, commit=True, start=start)
    marker = one.end - 1
    one.records(2)
    compactor = looked(one)
    assert (told(compactor), one.offsets) == (gone.stop, [*range(gone.start)])
    give_up(one, compactor, gone.stop)
    left = [at for at in range(one.end) if at not in {*gone, marker}]
    assert one.offsets == left
    assert_goes_on(compactor)


def test_a_marker_that_says_its_start_decides_behind_a_damaged_one(
    one: Partition,
) -> None:
    one.records(1)
    one.records(4, producer=1)
    one.records(1, producer=2)
    marker = marker_batch(2, 0, Marker(commit=True).starting(5, 6), NOW_MS)
    assign(marker, 6)
    one.marker(2, commit=True, start=5)
    one.marker(1, commit=True, start=1)
    one.records(2)
    one.world.roll()
    flip(one, bytes(marker), 69, 1)
    compactor = looked(one)
    assert (told(compactor), one.offsets) == (6, [0, 1, 2, 3, 4])
    for end in (6, 7):
        give_up(one, compactor, end)
    assert one.offsets == [0, 1, 2, 3, 4, 8, 9]
    assert_goes_on(compactor)


def test_a_marker_behind_a_torn_one_decides_nothing_before_that(one: Partition) -> None:
    one.records(3, producer=1)
    one.marker(1, commit=False)
    one.records(2)
    one.records(2, producer=1)
    one.marker(1, commit=True)
    one.records(1)
    tear(one, 3)
    compactor = looked(one)
    assert (told(compactor), one.offsets) == (3, [])
    give_up(one, compactor, 3)
    assert (told(compactor), one.offsets) == (4, [])
    give_up(one, compactor, 4)
    assert one.offsets == [4, 5, 6, 7, 9]
    assert_goes_on(compactor)


class Looks:
    """A backlog, and what of its batches counts at a look, all in one minute."""

    def __init__(self, one: Partition) -> None:
        self.key = one.topic.number, 0
        wal = one.world.data_dir / "wal"
        self.backlog = Backlog(LocalSegmentStore(PosixFiles(), wal))

    def counted(self, log_start: int = 0, table_end: int = 0) -> list[int]:
        self.backlog.refresh(0)
        found = self.backlog.pending(
            {self.key: table_end}, [self.key[0]], lambda key: log_start
        )
        chunks = [chunk for pending in found for chunk in pending.chunks]
        return [base for chunk in chunks for base in chunk.counted().base.tolist()]

    def why(self, log_start: int) -> str:
        """What stops it before anything stands in the table."""
        self.counted(log_start)
        return self.backlog.held.get(self.key, "")


def test_a_marker_that_is_lost_is_told_until_its_records_are_given_up(
    one: Partition,
) -> None:
    """All of them: what the log still has waits for it."""
    for count, producer in ((3, 0), (3, 1), (2, 1)):
        one.records(count, producer)
    next_one_begins(one)
    looks = Looks(one)
    for log_start, first in ((0, 3), (5, 3), (6, 6), (7, 6)):
        assert f"begins at offset {first} is lost" in looks.why(log_start)
    assert looks.why(8) == ""


def next_marker_is_lost(one: Partition) -> None:
    one.records(2, producer=1)
    next_one_begins(one)


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (next_marker_is_lost, "begins at offset 15 is lost"),
        (marker_is_damaged, "offset 15 is damaged and may be a marker"),
        (lambda one: place_is_torn(one, 20), "may have held its next records"),
    ],
)
def test_what_stops_it_behind_a_marker_that_was_taken_is_told_at_once(
    one: Partition, damage: Callable[[Partition], None], what: str
) -> None:
    """Though what is decided before both is still to be written."""
    goes_before_a_marker_that_is_taken(one)
    damage(one)
    one.world.roll()
    start_at(one.world, one.topic, 12)
    one.release(1)
    assert what in Looks(one).why(12)


def test_what_is_decided_is_looked_at_anew_once_the_log_begins_behind_a_gap(
    one: Partition,
) -> None:
    one.records(3, producer=1)
    one.end += 2
    one.marker(1, commit=True)
    one.records(1)
    looks = Looks(one)
    assert looks.counted(log_start=3) == [0, 6]
    assert looks.counted(log_start=5) == [6]


def test_and_when_a_marker_comes_behind_a_hole(one: Partition) -> None:
    one.records(4, producer=1)
    place_is_torn(one, 9)
    looks = Looks(one)
    assert looks.counted() == []
    one.marker(1, commit=True, start=0)
    assert looks.counted() == [0, 4]


def test_and_once_a_hole_in_which_the_log_began_is_given_up(one: Partition) -> None:
    one.records(1, producer=1)
    one.marker(1, commit=True)
    place_is_torn(one, 7)
    looks = Looks(one)
    assert looks.counted(log_start=8) == [0, 2]
    assert looks.counted(log_start=12) == [0, 2, 12]


def test_a_table_that_went_back_while_nobody_looked_gets_what_was_left_out(
    one: Partition,
) -> None:
    """As when it cannot be read for a while."""
    one.records(2, producer=1)
    one.records(1)
    looks = Looks(one)
    assert looks.counted(log_start=2) == [2]
    one.marker(1, commit=True)
    assert looks.counted(log_start=2, table_end=3) == []
    assert looks.backlog.pending({}, []) == []
    assert looks.counted(log_start=2) == [0, 2]


def test_advice_that_is_followed_early_costs_nothing_that_is_decided(
    one: Partition,
) -> None:
    one.records(2)
    one.records(3, producer=1)
    start_at(one.world, one.topic, 5)
    looked(one)
    assert one.offsets == [0, 1]


def refused_before_open_records(one: Partition) -> None:
    """The log begins to be open at offset 10."""
    one.records(5)
    one.world.holes[one.topic.number, 0] = [(5, 7)]
    one.end += 2
    one.records(3)
    one.records(3, producer=1)
    marker_is_damaged(one)


def test_no_way_out_is_told_while_anything_that_is_decided_waits(
    one: Partition,
) -> None:
    """It would take that as well: for consumers, and with its segment for the table."""
    refused_before_open_records(one)
    compactor = one.world.compactor()
    for _ in range(2):
        compactor.step()
        [problem] = [p for p in compactor.status().problems if "cannot be" in p]
        assert "may have held its next records" in problem
        assert "DeleteRecords" not in problem
    compactor = looked(one)
    assert (told(compactor), one.offsets) == (13, [*range(5), *range(7, 10)])


def test_nor_is_one_told_that_was_taken(one: Partition) -> None:
    refused_before_open_records(one)
    start_at(one.world, one.topic, 13)
    compactor = one.world.compactor()
    compactor.step()
    [problem] = [p for p in compactor.status().problems if "cannot be" in p]
    assert "DeleteRecords" not in problem


@pytest.mark.parametrize("end", [13, 14])
def test_what_is_decided_before_a_gap_below_the_log_start_is_not_left_out(
    one: Partition, end: int
) -> None:
    refused_before_open_records(one)
    start_at(one.world, one.topic, end)
    compactor = looked(one)
    if end == 13:
        assert told(compactor) == 14
        give_up(one, compactor, 14)
    assert one.offsets == [*range(5), *range(7, 10), 14, 15]
    assert_goes_on(compactor)


def test_a_hole_is_given_up_once_what_is_before_it_stands_in_the_table(
    one: Partition,
) -> None:
    one.records(1, producer=1)
    one.marker(1, commit=True)
    place_is_torn(one, 7)
    compactor = one.world.compactor()
    compactor.step()
    assert not any("DeleteRecords" in p for p in compactor.status().problems)
    start_at(one.world, one.topic, 12)
    compactor = looked(one)
    assert one.offsets == [0, *range(2, 7), *range(12, 17)]
    assert_goes_on(compactor)


def test_damage_of_which_nothing_else_waits_is_not_tried_again(one: Partition) -> None:
    checksum_fails(one)
    compactor = one.world.compactor()
    one.world.flush(compactor)
    start_at(one.world, one.topic, 10)
    one.world.clock.advance(LOOK_AGAIN_MS)
    one.world.flush(compactor)  # the range of what is left out, without a row
    assert one.table_end == 10
    for _ in range(3):
        one.world.flush(compactor)
        assert compactor.status().tables == ()
        assert compactor.status().problems == ()


def test_a_table_that_is_made_anew_gets_what_was_left_out_since(one: Partition) -> None:
    """Only what cannot be written stays out of it."""
    checksum_fails(one)
    compactor = one.world.compactor()
    one.world.flush(compactor)
    start_at(one.world, one.topic, 10)
    one.records(1)
    for _ in range(2):
        one.world.clock.advance(LOOK_AGAIN_MS)
        one.world.flush(compactor)
    assert one.offsets == [*range(5), 10]
    shutil.rmtree(one.world.path(one.topic))
    for _ in range(4):
        one.world.clock.advance(LOOK_AGAIN_MS)
        one.world.flush(compactor)
    assert one.offsets == [*range(5), 10]
