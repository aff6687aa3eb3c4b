"""Segments go only when their records are in tables for sure."""

import asyncio
import os
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path

import deltalake
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from broker.ids import TopicNumber, TopicPartition
from broker.lake.lake import Lake
from broker.lake.segment_retention import (
    LOOK_AGAIN_MS,
    RANGES_A_TURN,
    Coverage,
    SegmentRetention,
)
from broker.lake.verify import Verifier
from broker.protocol.errors import ErrorCode, KafkaError
from broker.topics.topic import Topic
from lakehouse.log.delta_log import entry_path
from tests.support.clock import ManualClock
from tests.support.tables import TOPIC_ID, Writer
from tests.support.turns import turns_ms

TOPIC = Topic(7, bytes.fromhex(TOPIC_ID), "orders", 2)
KEEP_MS, IDLE_MS = 10_000, 1_000


@dataclass
class ASegment:
    sequence: int
    ranges: dict[tuple[int, int], tuple[int, int]]
    sealed: bool = True
    bytes: int = 100
    sealed_at_ms: int = 0
    intact: bool = True
    batches: int = 0


@dataclass
class SomeSegments:
    """The write-ahead log, as far as a release needs it: a list."""

    held: list[ASegment] = field(default_factory=list)
    failed: object = None
    released: list[int] = field(default_factory=list)
    rolls: int = 0
    slots_wanted: int = 0

    def segments(self) -> list[ASegment]:
        return [s for s in self.held if s.sequence not in self.released]

    def release(self, sequence: int) -> None:
        self.released.append(sequence)

    def roll(self) -> None:
        self.rolls += 1


class Scene:
    """A table with [0, 100) of partition 0, segments, a lake, what releases them."""

    def __init__(self, warehouse: Path) -> None:
        self.writer = Writer(str(warehouse))
        self.writer.add(0, 0, 100)
        self.wal = SomeSegments()
        self.clock = ManualClock()
        self.deleted: set[int] = set()
        self.told: list[int] = []
        self.noted: dict[TopicPartition, int] = {}
        self.released_when_noted: list[int] = []
        self.refuses = False
        self.sought_in: set[int] = set()
        self.looks: list[set[int]] = []
        self.lake = Lake(warehouse, call_soon=lambda _: None, follow_ms=60_000)
        self.lake.start([TOPIC])
        self.segment_retention = SegmentRetention(
            self.wal,
            table_end=self.lake.table_end,
            is_deleted=self.deleted.__contains__,
            verified_ends=self.lake.verified_ends,
            lacking=self.lake.lacking,
            unverified=self.lake.unverified,
            may_hold_missing=self._may_hold_missing,
            note_ends=self._note_ends,
            before_release=self._note,
            clock=self.clock,
            keep_ms=KEEP_MS,
            idle_seal_ms=IDLE_MS,
        )

    async def _note(self, sequence: int) -> None:
        self.told.append(sequence)

    async def _may_hold_missing(self, sequences: Set[int]) -> Set[int]:
        self.looks.append(set(sequences))
        return self.sought_in & sequences

    async def _note_ends(self, ends: Mapping[TopicPartition, int]) -> None:
        if self.refuses:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the catalog is locked")
        self.noted |= ends
        self.released_when_noted += self.told

    def tick(self) -> list[int]:
        return asyncio.run(self.segment_retention.tick())

    def close(self) -> None:
        self.segment_retention.close()
        self.lake.close()


@pytest.fixture
def scene(tmp_path: Path):
    made = Scene(tmp_path)
    yield made
    made.close()


def test_a_segment_goes_when_all_of_it_is_in_tables(scene: Scene) -> None:
    scene.wal.held = [
        ASegment(1, {(7, 0): (0, 60)}),
        ASegment(2, {(7, 0): (60, 100)}),
        ASegment(3, {(7, 0): (100, 101)}),
        ASegment(4, {(7, 0): (90, 95), (7, 1): (0, 1)}),
    ]
    assert scene.tick() == [1, 2]
    assert scene.told == scene.wal.released == [1, 2]


def test_a_segment_stays_for_a_while_after_it_was_sealed(scene: Scene) -> None:
    sealed_at = scene.clock.now_ms()
    scene.wal.held = [ASegment(1, {(7, 0): (0, 60)}, sealed_at_ms=sealed_at)]
    assert scene.tick() == []
    scene.clock.advance(KEEP_MS - 1)
    assert scene.tick() == []
    scene.clock.advance(1)
    assert scene.tick() == [1]


def test_a_damaged_segment_stays_while_records_are_missing_that_it_may_have_held(
    scene: Scene,
) -> None:
    scene.wal.held = [
        ASegment(1, {(7, 0): (0, 60)}, intact=False),
        ASegment(2, {(7, 0): (60, 100)}, intact=False),
        ASegment(3, {(7, 0): (90, 100)}),
    ]
    scene.sought_in = {1, 3}  # what is whole has nothing but its ranges
    with capture_logs() as logs:
        assert scene.tick() == [2, 3]
        assert scene.tick() == []
        scene.clock.advance(LOOK_AGAIN_MS)
        assert scene.tick() == []
    assert len(scene.looks) == 2
    assert [one["sequence"] for one in logs if "damaged" in one["event"]] == [1]
    scene.sought_in = set()
    assert scene.tick() == []
    scene.clock.advance(LOOK_AGAIN_MS)
    assert scene.tick() == [1]


def test_one_look_is_for_all_damaged_segments_and_comes_each_five_seconds(
    scene: Scene,
) -> None:
    """Or at once where one is new; none is for one that stays for another reason."""
    scene.wal.held = [ASegment(n, {(7, 0): (0, 60)}, intact=False) for n in (1, 2)]
    scene.sought_in, scene.refuses = {1, 3}, True
    assert scene.tick() == scene.tick() == []
    assert scene.looks == [{1, 2}]
    scene.clock.advance(LOOK_AGAIN_MS - 1)
    scene.wal.held.append(ASegment(3, {(7, 0): (0, 60)}, intact=False))
    assert scene.tick() == scene.tick() == []
    assert scene.looks[1:] == [{1, 2, 3}]
    scene.refuses = False
    assert scene.tick() == [], "it was asked a while ago"
    scene.clock.advance(LOOK_AGAIN_MS)
    assert scene.tick() == [2]
    assert scene.looks[2:] == [{1, 2, 3}]


def test_a_log_that_is_short_of_files_gets_them_at_once(scene: Scene) -> None:
    sealed_at = scene.clock.now_ms()
    scene.wal.held = [ASegment(1, {(7, 0): (0, 60)}, sealed_at_ms=sealed_at)]
    scene.wal.slots_wanted = 1
    assert scene.tick() == [1]


def test_the_ends_of_what_goes_are_noted_before_the_first_goes(scene: Scene) -> None:
    scene.deleted.add(9)
    scene.wal.held = [
        ASegment(1, {(7, 0): (0, 60), (9, 0): (0, 5)}),
        ASegment(2, {(7, 0): (60, 90)}),
        ASegment(3, {(7, 0): (90, 101)}),
    ]
    assert scene.tick() == [1, 2]
    assert (scene.noted, scene.released_when_noted) == ({(7, 0): 90}, [])


def test_the_ends_of_many_partitions_are_gathered_in_turns(scene: Scene) -> None:
    ranges = {(7, p): (0, 10) for p in range(RANGES_A_TURN)}
    segments = [ASegment(1, ranges), ASegment(2, ranges)]

    async def note() -> None:
        assert await scene.segment_retention.note_released(segments, lambda _: 9)

    assert len(turns_ms(note())) == 1 + 2
    assert scene.noted == dict.fromkeys(ranges, 9)


def test_a_segment_whose_ends_cannot_be_noted_stays(scene: Scene) -> None:
    scene.wal.held = [ASegment(1, {(7, 0): (0, 60)})]
    scene.refuses = True
    assert scene.tick() == []
    assert scene.told == scene.wal.released == []
    scene.refuses = False
    assert scene.tick() == [1]


def test_the_active_segment_stays(scene: Scene) -> None:
    scene.wal.held = [ASegment(1, {(7, 0): (0, 60)}, sealed=False)]
    assert scene.tick() == []


def test_a_topic_without_table_holds_its_segments_until_deleted(scene: Scene) -> None:
    scene.wal.held = [ASegment(1, {(8, 0): (0, 60), (7, 0): (0, 1)})]
    assert scene.tick() == []
    scene.deleted.add(8)
    assert scene.tick() == [1]


def test_a_quiet_segment_is_sealed_once_its_records_are_in_tables(scene: Scene) -> None:
    active = ASegment(1, {(7, 0): (0, 60)}, sealed=False)
    scene.wal.held = [active]
    scene.tick()
    scene.clock.advance(IDLE_MS - 1)
    scene.tick()
    active.bytes += 1  # somebody writes
    scene.clock.advance(IDLE_MS - 1)
    scene.tick()
    assert scene.wal.rolls == 0
    scene.clock.advance(IDLE_MS)
    scene.tick()
    assert scene.wal.rolls == 1


def test_a_quiet_segment_with_records_not_in_tables_is_left(scene: Scene) -> None:
    scene.wal.held = [ASegment(1, {(7, 0): (0, 101)}, sealed=False)]
    for _ in range(3):
        scene.tick()
        scene.clock.advance(IDLE_MS)
    assert scene.wal.rolls == 0


def test_a_commit_that_another_writer_overwrote_releases_nothing(scene: Scene) -> None:
    """Spark on a local disk renames over an entry: our rows are gone from the table."""
    scene.wal.held = [ASegment(1, {(7, 0): (0, 100)})]
    entry = Path(entry_path(scene.writer.path, 1))
    entry.write_text('{"commitInfo":{"operation":"OPTIMIZE"}}\n')
    assert scene.tick() == []
    assert scene.lake.table_end(7, 0) == 0  # and the broker believes it no more
    scene.writer.round = 0
    scene.writer.add(0, 0, 100)
    scene.lake.verified_ends(7)
    scene.lake._follower.get(7).poll()
    assert scene.tick() == [1]


def test_a_torn_commit_releases_nothing(scene: Scene) -> None:
    scene.wal.held = [ASegment(1, {(7, 0): (0, 100)})]
    Path(entry_path(scene.writer.path, 1)).write_bytes(b"")
    assert scene.tick() == []


def test_a_short_data_file_releases_nothing(scene: Scene) -> None:
    scene.wal.held = [ASegment(1, {(7, 0): (0, 100)})]
    (uri,) = deltalake.DeltaTable(scene.writer.path).file_uris()
    os.truncate(uri, 10)
    assert scene.tick() == []


def test_a_missing_data_file_releases_nothing(scene: Scene) -> None:
    scene.wal.held = [ASegment(1, {(7, 0): (0, 100)})]
    (uri,) = deltalake.DeltaTable(scene.writer.path).file_uris()
    os.unlink(uri)
    assert scene.tick() == []


def test_a_missing_data_file_holds_its_records_and_what_follows_in_the_partition(
    scene: Scene,
) -> None:
    scene.writer.add(0, 100, 200)
    scene.writer.add(1, 0, 50)
    scene.lake._follower.get(7).poll()
    first = scene.lake.files(7, 0)[0]
    os.unlink(os.path.join(scene.writer.path, first.path))
    scene.wal.held = [
        ASegment(1, {(7, 0): (60, 100), (7, 1): (0, 20)}),
        ASegment(2, {(7, 0): (100, 200)}),
        ASegment(3, {(7, 1): (20, 50)}),
    ]
    assert scene.tick() == [3]
    assert "lacks 1 of its data files" in scene.lake.problems()[0]
    for key, end in {(7, 0): 60, (7, 1): 50}.items():
        assert asyncio.run(scene.segment_retention.verified_end({7}))(key) == end
    deltalake.DeltaTable(scene.writer.path).repair()  # its owner gives them up
    assert scene.tick() == [1, 2]
    assert scene.lake.problems() == []


def test_a_data_file_that_was_missing_long_ago_cuts_nothing_off(scene: Scene) -> None:
    scene.writer.add(0, 100, 200)
    scene.lake._follower.get(7).poll()
    os.unlink(os.path.join(scene.writer.path, scene.lake.files(7, 0)[0].path))
    scene.wal.held = [ASegment(2, {(7, 0): (100, 200)})]
    assert asyncio.run(scene.segment_retention.verified_end({7}))((7, 0)) == 200


def test_what_many_partitions_lack_is_looked_for_in_many_segments_in_turns(
    scene: Scene,
) -> None:
    partitions, segments = 500, 40
    scene.wal.held = [
        ASegment(n, {(7, p): (10 * n, 10 * n + 10) for p in range(partitions)})
        for n in range(1, segments + 1)
    ]
    scene.segment_retention._lacking = lambda _: dict.fromkeys(
        range(partitions), ((0, 5), (20, 30))
    )
    found: dict[tuple[int, int], int] = {}

    async def look() -> None:
        found.update(await scene.segment_retention._cuts([7]))

    assert len(turns_ms(look())) == 1 + partitions * segments // RANGES_A_TURN
    assert found == {(7, p): 20 for p in range(partitions)}


def test_a_file_that_came_back_is_no_problem_although_no_segment_is_to_go(
    scene: Scene,
) -> None:
    scene.writer.add(0, 100, 200)
    scene.lake._follower.get(7).poll()
    file = Path(scene.writer.path, scene.lake.files(7, 0)[0].path)
    aside = file.rename(file.with_suffix(".aside"))
    scene.wal.held = [ASegment(2, {(7, 0): (100, 200)})]
    assert scene.tick() == [2]
    assert "lacks 1 of its data files" in scene.lake.problems()[0]

    aside.rename(file)
    scene.clock.advance(LOOK_AGAIN_MS)
    assert scene.tick() == []
    assert scene.lake.problems() == []


def test_a_table_that_cannot_be_read_keeps_its_segments(scene: Scene) -> None:
    scene.wal.held = [ASegment(1, {(7, 0): (0, 50)})]
    assert scene.tick() == [1]
    raised = '{"protocol":{"minReaderVersion":4,"minWriterVersion":7}}'
    Path(entry_path(scene.writer.path, 2)).write_text(raised)
    scene.lake._follower.get(7).poll()
    scene.wal.held = [ASegment(2, {(7, 0): (50, 100)})]
    assert scene.tick() == []


def test_a_failed_sync_is_never_tried_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.wal.held = [ASegment(1, {(7, 0): (0, 100)})]
    sync = os.fsync

    def failing(_descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", failing)
    assert scene.tick() == []
    monkeypatch.setattr(os, "fsync", sync)
    assert scene.tick() == []


def test_files_entries_and_directories_are_synced_before_a_release(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = scene.writer.path
    seen: list[str] = []
    sync = os.fsync

    def watching(descriptor: int) -> None:
        target = os.readlink(f"/proc/self/fd/{descriptor}")
        seen.append(os.path.relpath(target, root))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", watching)
    scene.wal.held = [ASegment(1, {(7, 0): (0, 100)})]
    assert scene.tick() == [1]
    (file,) = scene.lake.files(7, 0)
    log_entry = os.path.relpath(entry_path(root, 1), root)
    assert {file.path, "partition=0", ".", "..", "_delta_log", log_entry} <= set(seen)
    seen.clear()
    scene.writer.add(0, 100, 120)
    scene.lake._follower.get(7).poll()
    seen.clear()  # what the commit synced itself
    scene.wal.held = [ASegment(2, {(7, 0): (100, 120)})]
    assert scene.tick() == [2]
    (_, added) = scene.lake.files(7, 0)
    assert {added.path, os.path.relpath(entry_path(root, 2), root)} <= set(seen)
    assert file.path not in seen


def test_files_that_left_again_need_not_be_there(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    verifier = Verifier(TOPIC_ID, writer.path)
    assert verifier.ends() == {}
    for n in range(3):
        writer.add(0, n * 10, n * 10 + 10)
    table = deltalake.DeltaTable(writer.path)
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert verifier.ends() == {0: 30}


def test_entries_that_were_cleaned_away_are_verified_from_a_checkpoint(
    tmp_path: Path,
) -> None:
    writer = Writer(str(tmp_path))
    verifier = Verifier(TOPIC_ID, writer.path)
    verifier.ends()
    for n in range(3):
        writer.add(0, n * 10, n * 10 + 10)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    for version in range(3):
        os.unlink(entry_path(writer.path, version))
    writer.add(0, 30, 40)
    assert verifier.ends(4) == {0: 40}


@given(
    st.dictionaries(
        st.tuples(st.integers(1, 3), st.integers(0, 2)), st.integers(0, 9), max_size=5
    ),
    st.dictionaries(
        st.tuples(st.integers(1, 3), st.integers(0, 2)), st.integers(0, 9), max_size=9
    ),
)
def test_covered_is_every_record_covered(
    held: dict[tuple[int, int], int], ends: dict[tuple[int, int], int]
) -> None:
    segment = ASegment(1, {key: (0, count) for key, count in held.items()})
    missing = [
        (key, offset)
        for key, count in held.items()
        for offset in range(count)
        if offset >= ends.get(key, 0)
    ]
    coverage = Coverage(lambda key: ends.get(key, 0))
    covered = asyncio.run(coverage.covered([segment]))
    assert covered == ([] if missing else [segment])


KEYS = st.tuples(st.integers(1, 2), st.integers(0, 2))


@given(
    st.lists(
        st.dictionaries(KEYS, st.integers(1, 9), min_size=1), min_size=1, max_size=4
    ),
    st.lists(st.tuples(KEYS, st.integers(1, 9)), max_size=12),
)
def test_what_is_remembered_is_what_would_be_found_anew(
    held: list[dict[tuple[int, int], int]], commits: list[tuple[tuple[int, int], int]]
) -> None:
    segments = [
        ASegment(sequence, {key: (0, count) for key, count in ranges.items()})
        for sequence, ranges in enumerate(held, 1)
    ]
    ends: dict[tuple[int, int], int] = {}
    kept = Coverage(lambda key: ends.get(key, 0))
    for key, end in commits:
        ends[key] = max(end, ends.get(key, 0))
        anew = Coverage(lambda key: ends.get(key, 0))
        found = asyncio.run(kept.covered(segments))
        assert found == asyncio.run(anew.covered(segments))


def test_a_wall_clock_that_is_set_back_holds_nothing_up(scene: Scene) -> None:
    sealed_at = scene.clock.now_ms()
    scene.wal.held = [ASegment(1, {(7, 0): (0, 60)}, sealed_at_ms=sealed_at)]
    assert scene.tick() == []
    scene.clock.wall_ms -= 3_600_000
    scene.clock.advance(KEEP_MS)
    assert scene.tick() == [1]
    later = scene.clock.now_ms() + 3_600_000
    scene.wal.held.append(ASegment(2, {(7, 0): (60, 70)}, sealed_at_ms=later))
    assert scene.tick() == []
    scene.clock.advance(KEEP_MS)
    assert scene.tick() == [2]


def test_what_lies_below_the_log_start_holds_no_segment(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.segment_retention._log_start = lambda number, partition: 500 * (number == 9)
    scene.wal.held = [
        ASegment(1, {(7, 0): (0, 60), (9, 0): (400, 500)}),
        ASegment(2, {(7, 0): (60, 70), (9, 0): (500, 501)}),
    ]
    assert scene.tick() == [1]
    scene.close()


def test_what_was_below_the_log_start_and_is_needed_again_is_not_covered(
    scene: Scene,
) -> None:
    """A topic's table is to keep more than the log, after its segments were looked at:
    they are not for each tick to verify, and may be carried."""
    asked: list[int] = []
    verified_ends, starts = scene.lake.verified_ends, {(9, 0): 500}

    def counted(number: TopicNumber) -> Mapping[int, int]:
        asked.append(number)
        return verified_ends(number)

    retention = scene.segment_retention
    retention._verified_ends = counted
    retention._log_start = lambda *key: starts.get(key, 0)
    scene.wal.held = [ASegment(n, {(9, 0): (400, 500)}) for n in (1, 2)]
    scene.refuses = True
    assert scene.tick() == []
    starts.clear()
    assert scene.tick() == []
    assert asked == [9, 9]
    assert scene.tick() == []
    assert asked == [9, 9]
    assert not any(map(retention.is_covered, scene.wal.held))


def test_an_error_that_passes_is_tried_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.wal.held = [ASegment(1, {(7, 0): (0, 100)})]
    real = os.open

    def failing(*_arguments: object, **_more: object) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "open", failing)
    assert scene.tick() == []
    monkeypatch.setattr(os, "open", real)
    assert scene.tick() == [1]


def test_small_batches_fill_the_cache_by_their_number(scene: Scene) -> None:
    scene.segment_retention._cache_bytes = 1_000_000
    scene.wal.held = []
    assert scene.tick() == []  # from now on all segments are this process's own
    for n in range(3):
        segment = ASegment(n + 1, {(7, 0): (n * 20, n * 20 + 20)}, batches=100)
        scene.wal.held.append(segment)
    scene.clock.advance(KEEP_MS)
    assert scene.tick() == [1]
    assert scene.tick() == []


def test_what_could_go_stays_as_a_cache_while_there_is_room(scene: Scene) -> None:
    scene.segment_retention._cache_bytes = 250
    scene.wal.held = [ASegment(1, {(7, 0): (0, 10)})]
    assert scene.tick() == [1]  # an earlier process left it
    scene.wal.held += [
        ASegment(n, {(7, 0): (n * 10, n * 10 + 10)}) for n in range(2, 6)
    ]
    assert scene.tick() == [2, 3]  # 200 of 250 bytes are left
    assert scene.tick() == []
    scene.wal.slots_wanted = 1
    assert scene.tick() == [4]


def test_what_is_to_be_evicted_goes_whatever_its_age_and_the_cache(
    scene: Scene,
) -> None:
    scene.segment_retention._cache_bytes = 1 << 20
    assert scene.tick() == []  # what is found at a start is no cache
    sealed_at = scene.clock.now_ms()
    scene.wal.held = [
        ASegment(n, {(7, 0): (0, 60)}, sealed_at_ms=sealed_at) for n in (2, 4)
    ]
    scene.wal.held.append(ASegment(6, {(7, 0): (60, 101)}, sealed_at_ms=sealed_at))
    assert scene.tick() == []
    scene.segment_retention.to_evict = frozenset({2, 6})
    assert scene.tick() == [2]
