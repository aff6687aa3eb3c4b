"""An offset that nobody has is an error that says why, never a gap and never a jump."""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.apis.list_offsets import list_offsets
from broker.assembly import Assembly, bring_maintenance, bring_segment_retention
from broker.ids import PartitionNumber, TopicNumber, TopicPartition
from broker.lake.lake import Lake
from broker.log.lost import Lost
from broker.log.partition import PartitionLog
from broker.log.restoring import restore_log
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from broker.records.batch import read_header
from broker.runtime.partitions.coverage import (
    PARTITIONS_A_TURN,
    Missing,
    hidden,
    may_hold_missing,
    missing,
    missing_of,
)
from broker.runtime.partitions.partition import Partition
from broker.runtime.services import Broker
from broker.storage.recovery import Recovery
from broker.storage.wal import SegmentInfo
from lakehouse.log.commit import create_table
from lakehouse.log.delta_log import entry_path
from tests.support.batches import Record, make_batch, read_batch
from tests.support.damage import tear_batch
from tests.support.patience import Patience
from tests.support.rig import (
    Tables,
    Unread,
    batch_of,
    batches_in,
    call,
    create,
    fetch_one,
    produce_one,
    rig,
    run,
)
from tests.support.tabled import compact, release, with_lake
from tests.support.turns import turns_ms

T = 1_700_000_000_000
HALF, TABLED, END = 50, 100, 110
Damage = Callable[[str], None]
Story = Callable[[Broker, list[int]], Coroutine[Any, Any, None]]


async def compacted(broker: Broker, lake: Lake, *, with_rest: bool = True) -> Partition:
    """Two commits with [0, 50) and [50, 100), then ten records in a segment."""
    partition = await create(broker, "t")
    for turn, first in enumerate((0, HALF), 1):
        await produce(broker, first, HALF)
        await compact(broker, lake, partition, turn)
    await release(broker, lake)
    if with_rest:
        await produce(broker, TABLED, END - TABLED)
    return partition


async def produce(broker: Broker, first: int, count: int) -> None:
    records = [
        Record(value=b"%d" % offset, timestamp=T + offset)
        for offset in range(first, first + count)
    ]
    answer = await produce_one(broker, "t", make_batch(records))
    assert (answer.error_code, answer.base_offset) == (0, first)


def garbage_entry(table: str) -> None:
    Path(entry_path(table, 1)).write_text('{"add": {')


def odd_entry(table: str) -> None:
    Path(entry_path(table, 1)).write_text('{"add": {"path": "x", "stats": "[]"}}\n')


def moved_directory(table: str) -> None:
    os.rename(table, table + ".moved")


def moved_log(table: str) -> None:
    os.rename(f"{table}/_delta_log", f"{table}/_moved")


def come_back(table: Path) -> None:
    """What was moved away, whichever it was."""
    if table.exists():
        os.rename(table / "_moved", table / "_delta_log")
    else:
        os.rename(f"{table}.moved", table)


def torn_entry(table: str) -> None:
    """As a power cut may leave the last one."""
    os.truncate(entry_path(table, 2), 100)


def unopenable_entry(table: str) -> None:
    os.unlink(entry_path(table, 1))
    os.symlink(entry_path(table, 1), entry_path(table, 1))


def replaced_table(table: str) -> None:
    """What CREATE OR REPLACE TABLE writes: new metadata, and no file of before."""
    entries = [
        json.loads(line)
        for version in range(3)
        for line in Path(entry_path(table, version)).read_text().splitlines()
    ]
    metadata = next(e["metaData"] for e in entries if "metaData" in e)
    metadata = {**metadata, "configuration": {}}
    removes = [
        {"remove": {"path": e["add"]["path"], "deletionTimestamp": 1}}
        for e in entries
        if "add" in e
    ]
    actions = [{"metaData": metadata}, *removes]
    text = "".join(json.dumps(action) + "\n" for action in actions)
    Path(entry_path(table, 3)).write_text(text)


def dropped_and_made_anew(table: str) -> None:
    """A table of somebody else in the place of ours."""
    os.rename(table, table + ".old")
    create_table(os.path.dirname(table), "t", "f" * 32, 1)


def last_entry_removed(table: str) -> None:
    os.unlink(entry_path(table, 2))


DAMAGES = {
    garbage_entry: 0,
    odd_entry: 0,
    moved_directory: 0,
    unopenable_entry: 0,
    replaced_table: 0,
    dropped_and_made_anew: 0,
    last_entry_removed: HALF,
}
"""And the first offset that cannot be served then."""


async def readable_from(broker: Broker, start: int, end: int = END) -> int:
    """Where reading from ``start`` on ends with KAFKA_STORAGE_ERROR, or the end."""
    offset = start
    while offset < end:
        data = await fetch_one(broker, "t", offset)
        assert broker.partitions.named("t", 0).high_watermark >= end
        if data.error_code:
            assert data.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            return offset
        assert data.high_watermark >= end
        batches = batches_in(data)
        offsets = [r.offset for b in batches for r in read_batch(b)]
        wanted = [o for o in offsets if o >= offset]
        assert wanted == list(range(offset, offset + len(wanted))), "a gap or a jump"
        assert wanted
        offset = read_header(batches[-1]).last_offset + 1
    return offset


async def offset_at(broker: Broker, timestamp: int) -> ListOffsetsPartitionResponse:
    asked = ListOffsetsPartition(0, -1, timestamp)
    request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [asked])])
    response = await call(list_offsets, request, broker)
    answer: ListOffsetsPartitionResponse = response.topics[0].partitions[0]
    return answer


async def check_refused(broker: Broker, lost: int) -> None:
    assert await readable_from(broker, 0) == lost
    assert await readable_from(broker, lost) == lost
    assert await readable_from(broker, TABLED) == END
    assert (await offset_at(broker, -2)).offset == 0
    assert (await offset_at(broker, -1)).offset == END
    for timestamp in (T + lost, T + TABLED - 1, T + TABLED, -3):
        answer = await offset_at(broker, timestamp)
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR, timestamp
    if lost:
        assert (await offset_at(broker, T + lost - 1)).offset == lost - 1


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_table_that_is_damaged_before_a_start_is_not_taken_for_an_empty_one(
    tmp_path: Path, damage: Damage
) -> None:
    async def before() -> None:
        async with with_lake(tmp_path) as (broker, lake):
            await compacted(broker, lake)
            assert await readable_from(broker, 0) == END

    async def after() -> None:
        async with with_lake(tmp_path) as (broker, lake):
            await check_refused(broker, DAMAGES[damage])
            assert lake.problems() or missing(broker.partitions, lake)

    run(before)
    damage(str(tmp_path / "tables" / "t"))
    run(after)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_table_that_is_damaged_later_is_not_taken_for_an_empty_one(
    tmp_path: Path, damage: Damage
) -> None:
    async def scenario() -> None:
        async with with_lake(tmp_path) as (broker, lake):
            partition = await compacted(broker, lake)
            damage(str(tmp_path / "tables" / "t"))
            table = lake._follower.get(partition.number)
            assert table is not None
            table.reload()
            await check_refused(broker, DAMAGES[damage])
            assert lake.problems() or missing(broker.partitions, lake)

    run(scenario)


@pytest.mark.parametrize("damage", [replaced_table, last_entry_removed])
def test_damage_is_noticed_without_being_asked_for(
    tmp_path: Path, damage: Damage
) -> None:
    async def scenario() -> None:
        async with with_lake(tmp_path) as (broker, lake):
            await compacted(broker, lake)
            damage(str(tmp_path / "tables" / "t"))
            while not lake.problems() and not missing(broker.partitions, lake):
                await asyncio.sleep(0.01)

    run(scenario)


def test_a_table_that_comes_back_is_served_again(tmp_path: Path) -> None:
    table = tmp_path / "tables" / "t"

    async def before() -> None:
        async with with_lake(tmp_path) as (broker, lake):
            await compacted(broker, lake)

    async def after() -> None:
        async with with_lake(tmp_path) as (broker, lake):
            assert await readable_from(broker, 0) == 0
            os.rename(f"{table}.moved", table)
            while missing(broker.partitions, lake):
                await asyncio.sleep(0.01)
            assert await readable_from(broker, 0) == END

    run(before)
    moved_directory(str(table))
    run(after)


def the_checkpoint(data_dir: Path) -> None:
    """It is lost, too."""
    (data_dir / "wal" / "checkpoint").write_bytes(b"damaged" * 100)


LOST_BEFORE = {**DAMAGES, moved_log: 0, torn_entry: HALF}
"""What may have become of a table before a start, and what is left of it."""


@pytest.mark.parametrize("damage", LOST_BEFORE, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("with_rest", [True, False], ids=["a part", "nothing"])
def test_no_offset_is_given_again_where_table_and_checkpoint_are_lost(
    tmp_path: Path, damage: Damage, with_rest: bool
) -> None:
    """``with_rest``: a part of the partition is in a segment."""
    end = END if with_rest else TABLED

    async def before() -> None:
        async with with_lake(tmp_path) as (broker, lake):
            await compacted(broker, lake, with_rest=with_rest)

    async def after() -> None:
        async with with_lake(tmp_path) as (broker, lake):
            await produce(broker, end, 200 - end)
            assert await readable_from(broker, 0, 200) == LOST_BEFORE[damage]
            assert await readable_from(broker, end, 200) == 200
            assert lake.problems() or missing(broker.partitions, lake)

    run(before)
    damage(str(tmp_path / "tables" / "t"))
    the_checkpoint(tmp_path)
    run(after)


@pytest.mark.parametrize("damage", [moved_directory, moved_log])
def test_a_table_that_comes_back_after_two_losses_has_its_records(
    tmp_path: Path, damage: Damage
) -> None:
    table = tmp_path / "tables" / "t"

    async def before() -> None:
        async with with_lake(tmp_path) as (broker, lake):
            await compacted(broker, lake, with_rest=False)

    async def after() -> None:
        async with with_lake(tmp_path) as (broker, lake):
            await produce(broker, TABLED, END - TABLED)
            assert await readable_from(broker, 0) == 0
            come_back(table)
            while missing(broker.partitions, lake):
                await asyncio.sleep(0.01)
            assert await readable_from(broker, 0) == END
            assert hidden(broker.partitions, lake) == []

    run(before)
    damage(str(table))
    the_checkpoint(tmp_path)
    run(after)


def a_log(*batches: tuple[int, int]) -> PartitionLog:
    log = PartitionLog()
    for number, (base, last) in enumerate(batches, 1):
        log.offsets.move(next_offset=last + 1)
        log.commit(base, last, T, number << 32, 100)
    return log


class APartition:
    key = 1, 0

    def __init__(self, log: PartitionLog) -> None:
        self.log = log


def lost(log: PartitionLog, table_end: int) -> tuple[int, int] | None:
    partition: Partition = APartition(log)  # type: ignore[assignment]
    found = missing_of(partition, table_end)
    assert found is None or isinstance(found, Missing)
    return None if found is None else (found.first, found.end)


def test_only_what_neither_place_has_is_missing() -> None:
    log = a_log((0, 9), (10, 19), (30, 39))
    assert lost(log, 0) is None
    log.release(2)
    assert lost(log, 20) is None  # [20, 30) was refused
    assert lost(log, 10) == (10, 30)
    log.release(3)
    assert lost(log, 40) is None
    assert lost(log, 20) == (30, 40)
    log.move_start(40)
    assert lost(log, 0) is None


def test_a_segment_may_have_held_each_offset_that_is_missing_where_it_lies() -> None:
    log = a_log((0, 9), (10, 19), (30, 39), (40, 49))
    log.lost = [Lost(20, 30)]
    assert sequences_of_missing(20, log) == set()  # [20, 30) was refused
    log.holes.clear()
    assert sequences_of_missing(20, log) == {2, 3}
    log.release(2)
    assert sequences_of_missing(20, log) == {0, 1, 2, 3}
    assert sequences_of_missing(30, log) == set()
    log.move_start(30)
    assert sequences_of_missing(20, log) == set()


def test_a_segment_may_have_held_what_is_missing_behind_other_that_is() -> None:
    log = a_log((0, 9), (20, 29), (30, 39), (40, 49), (60, 69))
    log.lost = [Lost(10, 20), Lost(50, 60)]
    log.holes.clear()
    assert sequences_of_missing(0, log) == {1, 2, 4, 5}
    assert sequences_of_missing(60, log, log) == set()


def sequences_of_missing(table_end: int, *logs: PartitionLog) -> set[int]:
    """Of six segments those that may have held what logs with this table's end lack."""
    partitions: Any = map(APartition, logs)
    return asyncio.run(may_hold_missing(range(6), partitions, tables_to(table_end)))


def tables_to(end: int) -> Any:
    return SimpleNamespace(table_end=lambda *_: end)


def test_the_loop_has_its_turn_while_thousands_of_partitions_are_looked_at() -> None:
    partitions: Any = [APartition(a_log((0, 9)))] * (3 * PARTITIONS_A_TURN)
    turns = turns_ms(may_hold_missing([1], partitions, tables_to(10)))
    assert len(turns) == 4


def test_a_damaged_segment_stays_until_what_it_held_is_given_up(tmp_path: Path) -> None:
    """The hole lies behind the last whole batch that the segment has."""
    tables, paths = Tables(), list[Path]()

    async def before() -> None:
        async with rig(tmp_path, tables=tables) as broker:
            await create(broker, "t")
            for first in (0, 5):
                await produce(broker, first, 5)
            paths.extend(segment.path for segment in broker.wal.segments())

    async def after() -> None:
        async with rig(tmp_path, tables=tables) as broker:
            [damaged] = broker.wal.segments()
            await produce(broker, 10, 5)
            partition = broker.partitions.named("t", 0)
            tables.ends[partition.key] = 5
            assert await released(broker, damaged.sequence) == []
            assert missing([partition], tables) == [(partition, 5, 10)]
            await broker.partitions.raise_log_starts({partition: 10})
            assert await released(broker, damaged.sequence) == [damaged.sequence]

    run(before)
    tear_batch(*paths, base=5)
    run(after)


async def released(broker: Broker, *sequences: int) -> list[int]:
    """What goes, where these segments are to go as soon as they may."""
    retention = bring_segment_retention(broker, broker.lake)
    retention.to_evict = set(sequences)
    try:
        return await retention.tick()
    finally:
        retention.close()


class AskedTables(Tables):
    """They count how often the end of each is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = Counter[TopicPartition]()

    def table_end(self, number: int, partition: int) -> int:
        self.asked[TopicNumber(number), PartitionNumber(partition)] += 1
        return super().table_end(number, partition)


THREE = ("a", "b", "c")


def with_three_damaged(path: Path, tables: Tables, story: Story) -> None:
    """A broker for ``story``: what each topic lacks was in another damaged segment."""
    paths: list[Path] = []

    async def before() -> None:
        async with rig(path, tables=tables) as broker:
            for topic in THREE:
                await create(broker, topic)
                for values in ((b"whole", b"torn"), (b"behind",)):
                    for value in values:
                        await produce_one(broker, topic, batch_of(value))
                    paths.append(broker.wal.segments()[-1].path)
                    broker.wal.roll()

    async def after() -> None:
        async with rig(path, tables=tables) as broker:
            keys = [broker.partitions.named(topic, 0).key for topic in THREE]
            tables.ends = dict.fromkeys(keys, 1)
            damaged = [one.sequence for one in broker.wal.segments() if not one.intact]
            assert len(damaged) == len(THREE)
            await story(broker, damaged)

    run(before)
    for torn in paths[::2]:
        tear_batch(torn, base=1)
    the_checkpoint(path)  # else that would be found by who reads there
    run(after)


def test_one_look_at_the_partitions_is_for_all_damaged_segments(
    tmp_path: Path,
) -> None:
    tables = AskedTables()

    async def story(broker: Broker, damaged: list[int]) -> None:
        tables.asked.clear()
        assert await released(broker, *damaged) == []
        # Once whether the segment is covered, and once in this look.
        assert tables.asked == dict.fromkeys(tables.ends, 2)

    with_three_damaged(tmp_path, tables, story)


def test_of_damaged_segments_that_is_named_that_may_have_held_what_is_missing(
    tmp_path: Path,
) -> None:
    tables = Tables()

    async def story(broker: Broker, damaged: list[int]) -> None:
        async with AsyncExitStack() as ends:
            nobody: Any = None
            assembly = Assembly(broker, tables, Recovery(), nobody)
            maintenance = bring_maintenance(assembly, ends)
            await maintenance.look_for_missing()
            for sentence, topic, sequence in zip(
                maintenance.missing, THREE, damaged, strict=True
            ):
                assert f"1 to 1 of {topic}-0 are in no segment" in sentence
                assert f"Segment {sequence} is damaged, may have held them" in sentence

    with_three_damaged(tmp_path, tables, story)


class OthersRead(Unread):
    """Only the first topic's table cannot be read."""

    def table_end(self, number: int, partition: int) -> int:
        return Tables.table_end(self, number, partition)


def test_a_damaged_segment_stays_while_a_partition_waits_that_it_may_have_held(
    tmp_path: Path,
) -> None:
    """Nobody knows yet what that one lacks, and nothing else is missing."""
    tables, paths = OthersRead(), list[Path]()

    async def before() -> None:
        async with rig(tmp_path, tables=tables) as broker:
            await create(broker, "t")
            await create(broker, "other")
            for topics in (["t"], ["other", "t"], ["t"], ["other"]):
                for topic in topics:
                    await produce_one(broker, topic, batch_of(b"x"))
                paths.append(broker.wal.segments()[-1].path)
                broker.wal.roll()

    async def after() -> None:
        async with rig(tmp_path, tables=tables) as broker:
            [damaged] = [one for one in broker.wal.segments() if not one.intact]
            tables.ends[broker.partitions.named("other", 0).key] = 1
            assert missing(broker.partitions, tables) == []
            assert await released(broker, damaged.sequence) == []
            tables.why = None
            partition = broker.partitions.named("t", 0)
            assert await released(broker, damaged.sequence) == []
            await broker.partitions.raise_log_starts({partition: 2})
            assert damaged.sequence in await released(broker, damaged.sequence)

    run(before)
    tear_batch(paths[1], base=1)
    the_checkpoint(tmp_path)
    tables.why = "the table cannot be read"
    run(after)


def test_a_segment_of_which_nothing_is_whole_stays_until_it_is_given_up(
    tmp_path: Path,
) -> None:
    """Over starts, and also when all others have gone; then it is put aside, and who
    waits for new files waits no longer."""
    tables, found = Tables(), list[SegmentInfo]()

    async def before() -> None:
        async with rig(tmp_path, tables=tables) as broker:
            await create(broker, "t")
            for first in (0, 5):
                await produce(broker, first, 5)
                broker.wal.roll()
            await create(broker, "other")
            await produce_one(broker, "other", make_batch([Record(value=b"x")]))
            found.append(broker.wal.segments()[1])

    async def after(*, is_given_up: bool) -> None:
        async with rig(tmp_path, tables=tables) as broker:
            partition, wal = broker.partitions.named("t", 0), broker.wal
            number = found[0].sequence
            tables.ends[partition.key] = 5
            tables.ends[broker.partitions.named("other", 0).key] = 1
            assert missing([partition], tables) == [(partition, 5, 10)]
            assert number not in await released(broker, number)
            if is_given_up:
                await broker.partitions.raise_log_starts({partition: 10})
                wal.renew()
                assert number in wal.to_renew
                assert number in await released(broker, number)
                broker.partitions.checkpoint()
                await until(lambda: number not in wal.to_renew)
            else:
                for segment in wal.segments():
                    if segment.intact:
                        wal.release(segment.sequence)
                broker.partitions.checkpoint()
                await until(lambda: len(wal._segments.all()) == 1)

    run(before)
    data = bytearray(found[0].path.read_bytes())
    data[512:4200] = bytes(4200 - 512)  # its seal, and the header of its only entry
    found[0].path.write_bytes(data)
    run(lambda: after(is_given_up=False))
    run(lambda: after(is_given_up=False))
    run(lambda: after(is_given_up=True))
    assert not found[0].path.exists()
    aside = tmp_path / "wal" / f"damaged-{found[0].sequence}.log"
    assert aside.read_bytes() == data


async def until(condition: Callable[[], bool]) -> None:
    patience = Patience()
    while not condition():
        assert patience.lasts(), "it never came true"
        await asyncio.sleep(0.001)


def test_a_sealed_segment_is_put_back_when_the_table_has_all_before_its_damage(
    tmp_path: Path,
) -> None:
    tables, paths = Tables(), list[Path]()

    async def before() -> None:
        async with rig(tmp_path, tables=tables) as broker:
            await create(broker, "t")
            for first in (0, 5):
                await produce(broker, first, 5)
            broker.wal.roll()
            await produce(broker, 10, 5)
            paths.append(broker.wal.segments()[0].path)

    async def damaged(broker: Broker, partition: Partition) -> None:
        tables.ends[partition.key] = 5
        first = broker.wal.segments()[0]
        assert (first.intact, first.ranges[partition.key]) == (False, (0, 5))
        assert await released(broker, first.sequence) == []

    async def put_back(broker: Broker, partition: Partition) -> None:
        assert missing([partition], tables) == []
        assert await readable_from(broker, 5, 15) == 15

    async def started(
        story: Callable[[Broker, Partition], Coroutine[Any, Any, None]],
    ) -> None:
        async with rig(tmp_path, tables=tables) as broker:
            await story(broker, broker.partitions.named("t", 0))

    run(before)
    whole = paths[0].read_bytes()
    tear_batch(*paths, base=5)
    the_checkpoint(tmp_path)  # else that would be found by who reads there
    run(lambda: started(damaged))
    paths[0].write_bytes(whole)
    run(lambda: started(put_back))


def without_the_last(log: PartitionLog, table_end: int) -> PartitionLog:
    """After a start that no longer finds the newest segment."""
    fields = ("base", "last", "max_ts", "location", "length")
    rows = [
        (one.base, one.last, one.max_timestamp, one.location, one.length)
        for one in (log.index[at] for at in range(len(log.index)))
    ]
    columns = zip(*rows[:-1], strict=True)
    found = SimpleNamespace(**dict(zip(fields, columns, strict=True)))
    return restore_log(log.snapshot(), table_end=table_end, columns=found)


def test_what_is_behind_the_last_segment_and_not_in_the_table_is_missing() -> None:
    log = without_the_last(a_log((0, 9), (10, 19), (20, 29)), 15)
    assert log.durable == 30
    assert [log.is_in_segments(offset) for offset in (0, 19, 20, 29)] == [
        True, True, False, False,
    ]  # fmt: skip
    assert lost(log, 15) == (20, 30)
    assert lost(log, 25) == (25, 30)
    assert lost(log, 30) is None


def test_a_consumer_behind_the_last_segment_is_told_and_does_not_wait_for_ever(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            for first in range(0, END, 10):
                await produce(broker, first, 10)
            partition.log = without_the_last(partition.log, 0)
            assert await readable_from(broker, 0) == END - 10
            for timestamp in (T + END - 10, T + END, -3):
                answer = await offset_at(broker, timestamp)
                assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert (await offset_at(broker, T + 5)).offset == 5
            await produce(broker, END, 10)  # what comes does not hide it
            assert await readable_from(broker, 0) == END - 10
            assert missing([partition], broker.lake)

    run(scenario)
