"""MaintenanceScheduler of a real broker: segments are let go, logs begin later."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import deltalake
import pytest
import uvloop
from structlog.testing import capture_logs

from broker.apis.delete_topics import delete_topics
from broker.assembly import Assembly, bring_maintenance
from broker.catalog import holds, renewals
from broker.configuration.loading import load
from broker.lake.lake import Lake
from broker.log.lost import Lost
from broker.log.undecided import Undecided
from broker.node import Node
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.delete_topics import DeleteTopicsRequest
from broker.runtime.partitions.partition import Partition
from broker.runtime.partitions.partitions import Partitions
from broker.runtime.process.maintenance import (
    MISSING_MS,
    MISSING_REPORTED_MAX,
    PRODUCERS_MS,
    RELEASE_MS,
    REST_MS,
    MaintenanceScheduler,
    stuck_after_ms,
)
from broker.status.schema import TAKEN, way_out
from broker.storage.recovery import Recovery
from tests.support.batches import read_batch
from tests.support.clock import ManualClock
from tests.support.coordinating import House, housed, story
from tests.support.damage import tear_batch
from tests.support.lake_following import version_of
from tests.support.patience import STUCK_S
from tests.support.rig import (
    Unread,
    batch_of,
    batches_in,
    call,
    create,
    fetch_one,
    produce_one,
    rig,
    run,
    values_in,
)
from tests.support.tables import FIRST_MS, Writer
from tests.support.tables import value as table_value

HOUR_MS, DAY_MS = 3_600_000, 86_400_000


def with_node(
    tmp_path: Path, story: Callable[[Node], Coroutine[Any, Any, None]], **more: str
) -> None:
    flags = {
        "data_dir": str(tmp_path),
        "listener": "127.0.0.1:0",
        "wal.segment_bytes": "1Mi",
        "wal.keep_ms": "0",
        "wal.idle_seal_ms": "0",
        "lake.follow_ms": "20",
    }

    async def main() -> None:
        node = await Node.start(load(flags | more, environment={}))
        try:
            await asyncio.wait_for(story(node), STUCK_S)
        finally:
            await node.stop()

    uvloop.run(main())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.02)


async def compacted(node: Node, count: int, **configs: str) -> Partition:
    """A topic whose records have just been written to its table."""
    partition = await create(node.broker, "orders", **configs)
    values = [table_value(offset) or b"" for offset in range(count)]
    answer = await produce_one(node.broker, "orders", batch_of(*values))
    assert answer.error_code == 0
    topic = node.broker.topics.get("orders")
    assert topic is not None
    Writer(str(node.directory.tables), "orders", topic.id.hex()).add(0, 0, count)
    lake = node.broker.lake
    await until(lambda: lake.table_end(*partition.key) == count)
    return partition


def test_a_quiet_segment_whose_records_stand_in_tables_is_let_go(
    tmp_path: Path,
) -> None:
    async def story(node: Node) -> None:
        partition = await compacted(node, 100)
        wal = node.broker.wal
        assert len(wal.segments()) == 1
        await until(lambda: not wal.segments())
        assert len(partition.log.index) == 0
        data = await fetch_one(node.broker, "orders", 0)
        assert data.error_code == 0
        assert data.records

    with_node(tmp_path, story)


def test_a_segment_that_is_not_in_tables_stays(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        await compacted(node, 100)
        await produce_one(node.broker, "orders", batch_of(b"later"))
        await asyncio.sleep(1.2)
        assert len(node.broker.wal.segments()) >= 1
        data = await fetch_one(node.broker, "orders", 100)
        assert b"later" in bytes(b"".join(data.records or []))

    with_node(tmp_path, story)


def test_a_segment_is_sealed_when_it_is_old(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        await create(node.broker, "orders")
        await produce_one(node.broker, "orders", batch_of(b"x"))
        wal = node.broker.wal
        await until(lambda: any(segment.sealed for segment in wal.segments()))

    with_node(tmp_path, story, **{"wal.roll_ms": "100"})


def test_records_past_their_retention_are_below_the_log_start(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        assert FIRST_MS < 1_750_000_000_000  # the table's records are old
        partition = await compacted(node, 100, retention_ms=str(DAY_MS))
        await until(lambda: partition.log_start == 100)

    with_node(tmp_path, story, **{"lake.retention_check_ms": "100"})


def test_without_a_limit_nothing_goes(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        partition = await compacted(node, 100, retention_ms="-1")
        await asyncio.sleep(0.5)
        assert partition.log_start == 0

    with_node(tmp_path, story, **{"lake.retention_check_ms": "100"})


@pytest.mark.parametrize("log_entry", ["", f"_delta_log/{0:020d}.json"])
def test_what_nobody_has_is_a_problem(tmp_path: Path, log_entry: str) -> None:
    lost, moved = tmp_path / "tables" / "orders" / log_entry, tmp_path / "moved"

    async def before(node: Node) -> None:
        await compacted(node, 100)
        await until(lambda: not node.broker.wal.segments())

    async def after(node: Node) -> None:
        await until(lambda: any("are in no" in each for each in node._problems()))
        [problem] = [each for each in node._problems() if "are in no" in each]
        assert "offsets 0 to 99 of orders-0 are in no segment: " in problem
        assert ("DeleteRecords before 100" in problem) is not bool(log_entry)
        data = await fetch_one(node.broker, "orders", 0)
        assert data.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        moved.rename(lost)
        await until(lambda: not node._facts().problems)

    with_node(tmp_path, before)
    lost.rename(moved)
    if log_entry:  # most of the table may be there
        lost.write_text("{")
    with_node(tmp_path, after)


def test_a_damaged_segment_that_may_have_held_what_is_missing_is_named(
    tmp_path: Path,
) -> None:
    paths: list[Path] = []

    async def before(node: Node) -> None:
        await create(node.broker, "orders")
        for value in (b"x", b"y"):
            await produce_one(node.broker, "orders", batch_of(value))
        paths.extend(segment.path for segment in node.broker.wal.segments())

    async def after(node: Node) -> None:
        await until(lambda: any("orders-0" in each for each in node._problems()))
        [problem] = [each for each in node._problems() if "orders-0" in each]
        [segment] = node.broker.wal.segments()
        assert "offsets 1 to 1 of orders-0 are in no segment" in problem
        assert f"Segment {segment.sequence} is damaged, may have held them" in problem
        assert "DeleteRecords" not in problem  # the table lacks what is whole before it

    with_node(tmp_path, before)
    tear_batch(*paths, base=1)
    with_node(tmp_path, after)


def test_without_a_compactor_retention_frees_segments(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        limits = {"retention_bytes": "100", "retention_ms": "-1"}
        partition = await create(node.broker, "orders", **limits)
        for _ in range(3):
            await produce_one(node.broker, "orders", batch_of(b"x" * 200))
            node.broker.wal.roll()
        await until(lambda: partition.log_start == 2)
        await until(lambda: len(node.broker.wal.segments()) == 1)
        data = await fetch_one(node.broker, "orders", 2)
        assert (data.error_code, data.log_start_offset) == (0, 2)
        data = await fetch_one(node.broker, "orders", 1)
        assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    more = {"lake.retention_check_ms": "100", "lake.flush_ms": "10"}
    more["lake.flush_max_ms"] = "10"
    with_node(tmp_path, story, **more)


def test_a_cache_is_served_until_an_owner_changes_rows(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        partition = await create(node.broker, "orders")
        topic, lake = node.broker.topics.get("orders"), cast("Lake", node.broker.lake)
        assert topic is not None
        table = lake._follower.get(partition.number)
        assert table is not None
        await until(lambda: table._was_absent)  # else the load may hide a change
        await produce_one(node.broker, "orders", batch_of(*[b"x"] * 150))
        writer = Writer(str(node.directory.tables), "orders", topic.id.hex())
        writer.add(0, 0, 150)
        await until(lambda: lake.table_end(*partition.key) == 150)
        index = partition.log.index
        await looked(node)
        assert index.end_offset == 150
        deltalake.DeltaTable(writer.path).optimize.compact()
        await looked(node)
        assert index.end_offset == 150
        deltalake.DeltaTable(writer.path).delete("offset < 120")
        await until(lambda: index.end_offset is None)
        data = await fetch_one(node.broker, "orders", 100)
        found = [r.offset for b in batches_in(data) for r in read_batch(b)]
        assert found == list(range(120, 150))

    async def looked(node: Node) -> None:
        """Until the follower has seen all, and maintenance has acted on it."""
        number = node.broker.partitions.named("orders", 0).number
        table = deltalake.DeltaTable(str(node.directory.tables / "orders"))
        lake = cast("Lake", node.broker.lake)
        await until(lambda: version_of(lake, number) == table.version())
        maintenance = node.maintenance
        await maintenance.release()

    never = {"wal.keep_ms": "600000", "wal.idle_seal_ms": "600000"}
    with_node(tmp_path, story, **never)


@asynccontextmanager
async def maintained(
    path: Path,
) -> AsyncIterator[tuple[House, MaintenanceScheduler]]:
    """A broker whose time stands still, and its maintenance, begun."""
    async with housed(path) as house, begun(house) as maintenance:
        yield house, maintenance


@asynccontextmanager
async def begun(house: House) -> AsyncIterator[MaintenanceScheduler]:
    """A broker's maintenance, begun."""
    async with AsyncExitStack() as ends:
        tables: Any = house.broker.lake
        nobody: Any = None
        assembly = Assembly(house.broker, tables, Recovery(), nobody)
        yield bring_maintenance(assembly, ends)


STEPS = {
    "release": (RELEASE_MS, RELEASE_MS),
    "carry": (2_500, 2_500),
    "apply_retention": (30_000, 30_000),
    "forget_producers": (PRODUCERS_MS, PRODUCERS_MS),
    "look_for_missing": (0, MISSING_MS),
}
"""When each is done for the first time, and how long after that again."""


@pytest.mark.parametrize("step", STEPS)
def test_each_step_has_its_own_pace_and_goes_on_after_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    done = list[int]()

    async def faulty(_: MaintenanceScheduler) -> None:
        done.append(1)
        raise ValueError("a fault")

    async def nothing(_: MaintenanceScheduler) -> None:
        pass

    for name in STEPS:
        found = faulty if name == step else nothing
        monkeypatch.setattr(MaintenanceScheduler, name, found)

    async def passing(house: House, ms: int) -> int:
        house.timers.advance(ms)
        for _ in range(5):  # of the loop: a step, its end, and what comes of that
            await asyncio.sleep(0)
        return len(done)

    async def play() -> None:
        async with maintained(tmp_path) as (house, maintenance):
            first, then = STEPS[step]
            for count, pause_ms in enumerate((first, then, then)):
                if pause_ms:
                    assert await passing(house, pause_ms - 1) == count
                assert await passing(house, min(pause_ms, 1)) == count + 1
            await maintenance.close()
            assert await passing(house, 10 * then) == 3

    story(play)


def test_memory_is_given_back_once_when_reading_and_writing_have_stopped(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        async with maintained(tmp_path) as (house, maintenance):
            counters, rests = house.broker.counters, list[str]()
            house.broker.wal.rest = lambda: rests.append("log")  # type: ignore[method-assign]
            maintenance.on_rest = lambda: rests.append("others")

            async def after(ms: int) -> list[str]:
                house.clock.advance(ms)
                await maintenance.release()
                return rests

            assert await after(10 * REST_MS) == []  # there was no work yet
            counters.bytes_in += 1
            assert await after(1) == []
            assert await after(REST_MS - 1) == []
            counters.bytes_out += 1
            assert await after(1) == []
            assert await after(REST_MS - 1) == []
            both = ["log", "others"]
            assert await after(1) == both
            assert await after(10 * REST_MS) == both
            counters.bytes_in += 1
            await after(1)
            assert await after(REST_MS) == both * 2

    story(play)


def test_a_segment_is_sealed_at_its_age_by_no_wall_clock(tmp_path: Path) -> None:
    async def play() -> None:
        async with maintained(tmp_path) as (house, maintenance):
            wal, rolls = house.broker.wal, list[int]()
            roll, old_ms = wal.roll, house.broker.settings.wal.roll_ms

            def noted() -> None:
                rolls.append(1)
                roll()

            wal.roll = noted  # type: ignore[method-assign]

            async def after(ms: int) -> int:
                house.clock.mono_ms += ms
                await maintenance.release()
                return len(rolls)

            for count in range(2):
                await produce_one(house.broker, "flights", batch_of(b"x"))
                assert await after(0) == count
                house.clock.wall_ms += 10 * old_ms
                assert await after(old_ms - 1) == count
                assert await after(1) == count + 1
                while not all(info.sealed for info in wal.segments()):
                    await asyncio.sleep(0.001)
                assert await after(10 * old_ms) == count + 1  # there is none
            await produce_one(house.broker, "flights", batch_of(b"x"))
            await after(0)
            wal._writer.fail("the disk is dying")
            assert await after(10 * old_ms) == 2

    story(play)


def test_producers_are_forgotten_after_the_time_that_is_set(tmp_path: Path) -> None:
    async def play() -> None:
        async with maintained(tmp_path) as (house, maintenance):
            batch = batch_of(b"x", producer=(3, 0, 0))
            await produce_one(house.broker, "flights", batch)
            producers = house.broker.partitions.named("flights", 0).log.producers
            ttl_ms = house.broker.settings.broker.producer_id_expiration_ms
            for pause_ms, known in ((ttl_ms - 1, True), (1, False)):
                house.clock.advance(pause_ms)
                await maintenance.forget_producers()
                assert (3 in producers) == known

    story(play)


def test_what_no_marker_decides_is_told_with_the_way_out(tmp_path: Path) -> None:
    async def play() -> None:
        async with maintained(tmp_path) as (house, maintenance):
            broker = house.broker
            for _ in range(3):
                await produce_one(broker, "flights", batch_of(b"x"))
            partition = broker.partitions.named("flights", 0)
            partition.log.transactions.undecided.append(Undecided(0, 2))
            await maintenance.look_for_missing()
            (told,) = maintenance.missing
            assert "transactions at offsets 0 to 1 of flights-0" in told
            assert "with DeleteRecords before 2" in told
            await broker.partitions.raise_log_starts({partition: 2})
            await maintenance.look_for_missing()
            assert maintenance.missing == []

    story(play)


def test_what_is_lost_is_told_without_the_way_out_while_anything_before_it_waits(
    tmp_path: Path,
) -> None:
    """DeleteRecords would take that as well, before its table has it."""

    async def play() -> None:
        async with maintained(tmp_path) as (house, maintenance):
            broker = house.broker
            for _ in range(5):
                await produce_one(broker, "flights", batch_of(b"x"))
            partition = broker.partitions.named("flights", 0)
            partition.log.lost.append(Lost(2, 3))
            partition.log.transactions.undecided.append(Undecided(3, 4))
            for start in (0, 1):
                await broker.partitions.raise_log_starts({partition: start})
                await maintenance.look_for_missing()
                lost, unsaid = maintenance.missing
                assert lost.startswith("offsets 2 to 2 of flights-0 are in no segment")
                assert "offsets 3 to 3 of flights-0" in unsaid
                assert "DeleteRecords" not in lost + unsaid
            await broker.partitions.raise_log_starts({partition: 2})
            await maintenance.look_for_missing()
            lost, unsaid = maintenance.missing
            assert lost.endswith(f". {way_out(3, TAKEN)}")
            await broker.partitions.raise_log_starts({partition: 3})
            await maintenance.look_for_missing()
            assert maintenance.missing[0].endswith(f". {way_out(4)}")

    story(play)


def test_segments_are_listed_once_for_all_partitions_that_lack_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of thousands of segments that takes milliseconds, in one turn of the loop."""

    async def play() -> None:
        async with maintained(tmp_path) as (house, maintenance):
            broker, looks = house.broker, list[int]()
            await create(broker, "t", 3)
            for index in range(3):
                await produce_one(broker, "t", batch_of(b"x"), partition=index)
                broker.partitions.named("t", index).log.index.trim_below(1)
            segments = broker.wal.segments
            monkeypatch.setattr(
                broker.wal, "segments", lambda: looks.append(1) or segments()
            )
            await maintenance.look_for_missing()
            assert (len(maintenance.missing), len(looks)) == (3, 1)

    story(play)


def test_a_table_that_comes_back_behind_which_the_log_ends_is_told(
    tmp_path: Path,
) -> None:
    """Nobody is served what was written at its offsets while it was not there."""

    async def play(node: Node) -> None:
        partition = await create(node.broker, "orders")
        await produce_one(node.broker, "orders", batch_of(b"x"))
        topic = node.broker.topics.get("orders")
        assert topic is not None
        Writer(str(node.directory.tables), "orders", topic.id.hex()).add(0, 0, 3)
        await until(lambda: node.broker.lake.table_end(*partition.key) == 3)
        await until(lambda: bool(node._problems()))
        (told,) = node._problems()
        assert "orders-0 goes on to offset 3, and the log went on from 1" in told
        await produce_one(node.broker, "orders", batch_of(b"y", b"z"))
        await asyncio.sleep(MISSING_MS / 1000 + 0.5)
        assert node._problems() == [told]
        await call(
            delete_topics, DeleteTopicsRequest(topic_names=["orders"]), node.broker, 5
        )
        await until(lambda: not node._problems())

    with_node(tmp_path, play)


def test_of_many_partitions_that_lack_something_some_are_named(tmp_path: Path) -> None:
    async def play() -> None:
        async with maintained(tmp_path) as (house, maintenance):
            broker, count = house.broker, MISSING_REPORTED_MAX + 2
            await create(broker, "many", partitions=count)
            for index in range(count):
                await produce_one(broker, "many", batch_of(b"x"), partition=index)
            partitions = [broker.partitions.named("many", n) for n in range(count)]
            with capture_logs() as logs:
                for partition in partitions[:MISSING_REPORTED_MAX]:
                    partition.log.index.trim_below(1)
                await maintenance.look_for_missing()
                assert len(maintenance.missing) == MISSING_REPORTED_MAX
                first = maintenance.missing[0]
                assert "offsets 0 to 0 of many-0 are in no segment" in first
                assert "with DeleteRecords before 1" in first
                for partition in partitions[MISSING_REPORTED_MAX:]:
                    partition.log.index.trim_below(1)
                await maintenance.look_for_missing()
                *named, rest = maintenance.missing
                assert len(named) == MISSING_REPORTED_MAX
                assert rest == "and records of 2 more partitions"
                await maintenance.look_for_missing()
            said = [one["what"] for one in logs if "missing" in one["event"]]
            assert said == sorted(set(said), key=said.index)  # each of them once
            assert set(said) == {*named, rest}
            await broker.partitions.raise_log_starts(dict.fromkeys(partitions, 1))
            await maintenance.look_for_missing()
            assert maintenance.missing == []

    story(play)


def test_retention_takes_from_segments_only_what_nobody_compacts_for_long(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        async with maintained(tmp_path) as (house, maintenance):
            broker = house.broker
            limits = {"retention_bytes": "100", "retention_ms": "-1"}
            partition = await create(broker, "t", **limits)
            stuck_ms = stuck_after_ms(broker.settings.lake)

            async def a_segment() -> None:
                await produce_one(broker, "t", batch_of(b"x" * 200))
                broker.wal.roll()
                while not all(info.sealed for info in broker.wal.segments()):
                    await asyncio.sleep(0.001)
                await maintenance.release()

            async def start_after(ms: int) -> int:
                house.clock.advance(ms)
                await maintenance.release()
                await maintenance.apply_retention()
                return partition.log_start

            for _ in range(3):
                await a_segment()
            assert await start_after(1) == 0
            await a_segment()
            assert await start_after(stuck_ms - 2) == 0
            assert await start_after(1) == 3  # the last is not so old yet
            assert await start_after(stuck_ms) == 3  # and is what is to be kept

    story(play)


def test_what_the_table_is_to_keep_for_longer_waits_for_it_in_segments(
    tmp_path: Path,
) -> None:
    """Whether nobody compacts, or DeleteRecords gave it up for consumers."""

    async def play() -> None:
        async with maintained(tmp_path) as (house, maintenance):
            broker = house.broker
            tables: Any = broker.lake
            limits = {"retention_ms": "1", "lake_retention_ms": "-1"}
            partition = await create(broker, "t", **limits)
            await produce_one(broker, "t", batch_of(b"a"))
            broker.wal.roll()
            while not all(info.sealed for info in broker.wal.segments()):
                await asyncio.sleep(0.001)

            async def released_after(ms: int) -> bool:
                for _ in range(3):  # ages, and that nothing happens, are seen first
                    await maintenance.release()
                    await maintenance.apply_retention()
                    house.clock.advance(ms)
                await maintenance.release()
                return not broker.wal.segments()

            stuck_ms = stuck_after_ms(broker.settings.lake)
            assert not await released_after(9 * stuck_ms)
            assert partition.log_start == 0
            await broker.partitions.raise_log_starts({partition: 1})
            assert not await released_after(9 * stuck_ms)
            tables.compact(broker, partition)
            assert await released_after(9 * stuck_ms)

    story(play)


def test_who_lets_records_wait_for_the_table_for_long_loses_none_before(
    tmp_path: Path,
) -> None:
    """Its own ``lake.flush.max.ms``, above the broker's: nobody is stuck before it."""

    async def play() -> None:
        async with maintained(tmp_path) as (house, maintenance):
            broker = house.broker
            day_ms = 86_400_000
            partition = await create(
                broker, "t", retention_ms="3600000", lake_flush_max_ms=str(day_ms)
            )
            await produce_one(broker, "t", batch_of(b"x"))
            broker.wal.roll()
            while not all(info.sealed for info in broker.wal.segments()):
                await asyncio.sleep(0.001)
            await maintenance.release()
            for waited_ms, start in ((day_ms, 0), (day_ms, 1)):
                house.clock.advance(waited_ms)
                await maintenance.release()
                await maintenance.apply_retention()
                assert partition.log_start == start

    story(play)


async def one_sealed(house: House, maintenance: MaintenanceScheduler) -> Partition:
    """A partition whose record is in a sealed segment, and kept for a second."""
    broker = house.broker
    partition = await create(broker, "t", retention_ms="1000")
    await produce_one(broker, "t", batch_of(b"x"))
    broker.wal.roll()
    while not all(info.sealed for info in broker.wal.segments()):
        await asyncio.sleep(0.001)
    await maintenance.release()
    return partition


async def retained(house: House, maintenance: MaintenanceScheduler, ms: int) -> None:
    """So much time goes by, and retention looks."""
    house.clock.advance(ms)
    await maintenance.release()
    await maintenance.apply_retention()


def test_nothing_goes_while_its_table_is_held_nor_at_once_afterwards(
    tmp_path: Path,
) -> None:
    """Whose table keeps rows for longer than the log would else never have them."""

    async def play() -> None:
        async with maintained(tmp_path) as (house, maintenance):
            broker = house.broker
            stuck_ms = stuck_after_ms(broker.settings.lake)
            partition = await one_sealed(house, maintenance)
            topic = broker.topics.get("t")
            assert topic is not None
            key, now_ms = topic.id.hex(), house.clock.now_ms()
            broker.catalog.change(
                lambda c: holds.hold(c, key, holds.OWNER, now_ms, HOUR_MS)
            )
            await retained(house, maintenance, HOUR_MS - 1)
            assert partition.log_start == 0
            await retained(house, maintenance, stuck_ms - 1)  # it is over
            assert partition.log_start == 0
            await retained(house, maintenance, 1)
            assert partition.log_start == 1

    story(play)


def test_nothing_goes_as_long_as_records_come_to_the_table(tmp_path: Path) -> None:
    """After a long hold there are many of them, and the compactor takes its time."""

    async def play() -> None:
        async with maintained(tmp_path) as (house, maintenance):
            broker = house.broker
            stuck_ms = stuck_after_ms(broker.settings.lake)
            partition = await one_sealed(house, maintenance)
            for _ in range(2):
                await produce_one(broker, "t", batch_of(b"x"))
            broker.wal.roll()
            while not all(info.sealed for info in broker.wal.segments()):
                await asyncio.sleep(0.001)
            await retained(house, maintenance, stuck_ms - 1)
            tables: Any = broker.lake
            tables.ends[partition.key] = 1
            await retained(house, maintenance, 1)
            tables.ends[partition.key] = 2
            await retained(house, maintenance, stuck_ms - 1)
            assert partition.log_start == 0
            await retained(house, maintenance, stuck_ms - 1)
            assert partition.log_start == 0
            await retained(house, maintenance, 1)  # nobody compacts any more
            assert partition.log_start == 3

    story(play)


def test_nothing_goes_at_once_after_a_time_in_which_nobody_ran(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        async with maintained(tmp_path) as (house, before):
            partition = await one_sealed(house, before)
            house.clock.advance(HOUR_MS)
            async with begun(house) as maintenance:  # as by a start
                stuck_ms = stuck_after_ms(house.broker.settings.lake)
                await retained(house, maintenance, stuck_ms - 1)
                assert partition.log_start == 0
                await retained(house, maintenance, 1)
                assert partition.log_start == 1

    story(play)


def test_new_segment_files_are_begun_on_request_and_the_old_ones_go(
    tmp_path: Path,
) -> None:
    async def story(node: Node) -> None:
        catalog, wal = node.broker.catalog, node.broker.wal
        await compacted(node, 100)
        await produce_one(node.broker, "orders", batch_of(b"later"))
        before = {path.name for path in (tmp_path / "wal").glob("segment-*")}
        number = await asyncio.to_thread(catalog.change, lambda c: renewals.ask(c, 1))
        await until(lambda: all(s.sealed for s in wal.segments()))
        await asyncio.sleep(1.5)
        assert not catalog.read(lambda c: renewals.is_done(c, number))
        topic = node.broker.topics.get("orders")
        assert topic is not None
        writer = Writer(str(node.directory.tables), "orders", topic.id.hex())
        writer.round = 1
        writer.add(0, 100, 101)
        await until(lambda: catalog.read(lambda c: renewals.is_done(c, number)))
        after = {path.name for path in (tmp_path / "wal").glob("segment-*")}
        assert not before & after
        answer = await produce_one(node.broker, "orders", batch_of(b"new"))
        assert answer.error_code == 0
        data = await fetch_one(node.broker, "orders", 101)
        assert b"new" in bytes(b"".join(data.records or []))

    with_node(tmp_path, story, **{"wal.keep_ms": "600000", "wal.idle_seal_ms": "60000"})


def test_nothing_is_carried_while_a_partition_waits_that_has_a_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the checkpoint a segment is lost, and the table cannot be read: partition
    0 waits for it, and what it has before the checkpoint is held; 1 is known."""

    async def scenario() -> None:
        tables, clock, write = Unread(), ManualClock(), Partitions.checkpoint
        for asked in ("checkpoint", "begin_checkpoint"):
            monkeypatch.setattr(Partitions, asked, lambda _: None)
        async with rig(tmp_path, tables=tables, clock=clock) as broker:
            await create(broker, "t", 2)
            for value in range(5):
                for index in (0, 1):
                    batch = batch_of(b"%d" % value)
                    await produce_one(broker, "t", batch, partition=index)
                broker.wal.roll()
            await produce_one(broker, "t", batch_of(b"active"), partition=1)
            write(broker.partitions)
            broker.wal.roll()
            await produce_one(broker, "t", batch_of(b"lost"))
            lost = broker.wal.segments()[-1].path
            broker.wal.roll()
            await produce_one(broker, "t", batch_of(b"behind"), partition=1)
        monkeypatch.undo()
        lost.unlink()
        tables.why = "the table cannot be read"
        async with (
            rig(tmp_path, tables=tables, clock=clock) as broker,
            AsyncExitStack() as ends,
        ):
            nobody: Any = None
            assembly = Assembly(broker, tables, Recovery(), nobody)
            maintenance = bring_maintenance(assembly, ends)
            await maintenance.release()
            clock.advance(stuck_after_ms(broker.settings.lake) + 1)
            await maintenance.release()
            await maintenance.carry()
            tables.why = None
            found = [await fetch_one(broker, "t", offset) for offset in range(5)]
            values = [values_in(one)[0] for one in found]
            assert values == [b"%d" % value for value in range(5)]
            while not broker.counters.carried_bytes:  # now they are
                await maintenance.carry()
                await asyncio.sleep(0.01)
            found = [await fetch_one(broker, "t", offset) for offset in range(5)]
            assert [values_in(one)[0] for one in found] == values

    run(scenario)
