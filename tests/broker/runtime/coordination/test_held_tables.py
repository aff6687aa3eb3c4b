"""Which open transactions hold tables back, on a real log and coordinator."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from broker.runtime.coordination import held_tables
from broker.runtime.coordination.held_tables import Held, HeldTables
from broker.runtime.services import Broker
from broker.status.schema import OpenTransaction
from tests.support.clock import ManualClock
from tests.support.rig import create, rig, run
from tests.support.timers import ManualTimers
from tests.support.transacting import marker, record
from tests.support.transactional import Transactional


@asynccontextmanager
async def looking(
    path: Path, clock: ManualClock
) -> AsyncIterator[tuple[Broker, HeldTables]]:
    async with rig(path, clock=clock, timers=ManualTimers(clock)) as broker:
        if not len(broker.topics):
            await create(broker, "t", partitions=3)
        parts = broker.partitions, broker.transactions, broker.topics
        yield broker, HeldTables(*parts, clock)
        await broker.transactions.close()


async def look(tables: HeldTables) -> Held:
    """What is told when the turn is over in which something became durable."""
    await asyncio.sleep(0)
    return tables.look()


def test_nothing_is_held_where_nothing_is_open(tmp_path):
    async def scenario():
        async with looking(tmp_path, ManualClock()) as (broker, tables):
            assert await look(tables) == Held()
            partition = broker.partitions.named("t", 0)
            await record(partition, 70)
            await marker(partition, 70, commit=True)
            assert await look(tables) == Held()

    run(scenario)


def test_one_that_a_coordinator_will_end_is_told_with_its_id(tmp_path):
    async def scenario():
        clock = ManualClock()
        async with looking(tmp_path, clock) as (broker, tables):
            partition = broker.partitions.named("t", 1)
            producer = await Transactional.begun(broker, "orders")
            await producer.add(partition.key)
            began_ms = clock.now_ms()
            await record(partition, producer.producer_id)
            await record(partition, producer.producer_id, 1)
            clock.advance(5_000)
            held = await look(tables)
            told = OpenTransaction(
                "t", 1, 0, producer.producer_id, "orders", False, began_ms, 2
            )
            assert held == Held(1, 5_000, (told,), ())
            await producer.end(commit=True)
            assert await look(tables) == Held()

    run(scenario)


def test_one_that_nobody_will_end_hangs_since_it_was_seen(tmp_path):
    async def scenario():
        clock = ManualClock()
        async with looking(tmp_path, clock) as (broker, tables):
            partition = broker.partitions.named("t", 0)
            await record(partition, 71)
            seen_ms = clock.now_ms()
            (told,) = (await look(tables)).transactions
            assert told == OpenTransaction("t", 0, 0, 71, None, True, seen_ms, 1)
            clock.advance(1_000)
            held = await look(tables)
            assert (held.oldest_ms, held.transactions[0].since_ms) == (1_000, seen_ms)
            [warning] = held.warnings
            assert "producer 71 hangs in t-0" in warning
            words = "abort --topic t --partition 0 --start-offset 0"
            assert warning.endswith(words)
            await marker(partition, 71, commit=False)
            await record(partition, 71, 1)  # another one, at once
            (told,) = (await look(tables)).transactions
            assert (told.start_offset, told.since_ms) == (2, clock.now_ms())

    run(scenario)


def test_one_of_a_producer_whose_id_is_about_something_else_hangs(tmp_path):
    async def scenario():
        clock = ManualClock()
        async with looking(tmp_path, clock) as (broker, tables):
            producer = await Transactional.begun(broker, "orders")
            await record(broker.partitions.named("t", 0), producer.producer_id)
            (told,) = (await look(tables)).transactions
            assert (told.transactional_id, told.hangs) == ("orders", True)
            await producer.add(broker.partitions.named("t", 1).key)
            (told,) = (await look(tables)).transactions
            assert told.hangs

    run(scenario)


def test_what_a_start_finds_open_is_told(tmp_path):
    async def scenario():
        clock = ManualClock()
        async with looking(tmp_path, clock) as (broker, _):
            partition = broker.partitions.named("t", 2)
            producer = await Transactional.begun(broker, "orders")
            await producer.add(partition.key)
            began_ms = clock.now_ms()
            await record(partition, producer.producer_id)
        clock.advance(1_000)
        async with looking(tmp_path, clock) as (broker, tables):
            (told,) = (await look(tables)).transactions
            assert (told.partition, told.transactional_id) == (2, "orders")
            assert (told.hangs, told.since_ms) == (False, began_ms)

    run(scenario)


def test_the_oldest_are_told_and_the_others_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(held_tables, "SHOWN_MAX", 2)

    async def scenario():
        clock = ManualClock()
        async with looking(tmp_path, clock) as (broker, tables):
            for index in (2, 0, 1):
                await record(broker.partitions.named("t", index), 70)
                await look(tables)
                clock.advance(1_000)
            held = await look(tables)
            assert (held.partitions, held.oldest_ms) == (3, 3_000)
            assert [one.partition for one in held.transactions] == [2, 0]
            assert len(held.warnings) == 3
            assert held.warnings[-1] == "1 more transactions hang"
            monkeypatch.setattr(held_tables, "LOOKED_AT", 2)
            monkeypatch.setattr(held_tables, "SHOWN_MAX", 1)
            assert (await look(tables)).warnings[-1] == (
                "1 more transactions hang, and 1 partitions were not looked at"
            )

    run(scenario)


def test_of_a_topic_that_is_gone_nothing_is_held(tmp_path):
    async def scenario():
        async with looking(tmp_path, ManualClock()) as (broker, tables):
            await record(broker.partitions.named("t", 0), 70)
            await broker.topics.delete(broker.topics.named("t"))
            assert await look(tables) == Held()

    run(scenario)


def test_while_the_broker_stops_nothing_is_said_to_hang(tmp_path):
    async def scenario():
        async with looking(tmp_path, ManualClock()) as (broker, tables):
            await record(broker.partitions.named("t", 0), 70)
            await broker.transactions.close()
            assert await look(tables) == Held()

    run(scenario)
