"""Partitions: found, grown, dropped; segments let go; checkpoints written."""

import asyncio
from pathlib import Path

import pytest

from broker.apis.produce import produce
from broker.lake.segment_retention import SegmentRetention
from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.services import Broker
from tests.support.rig import (
    Tables,
    batch_of,
    batches_in,
    carry_sealed,
    create,
    fetch_one,
    produce_request,
    rig,
    run,
    start,
    values_in,
)


async def fill(broker: Broker, name: str, count: int) -> None:
    """``count`` batches of some 30 kB."""
    asked = [
        start(
            produce,
            produce_request(name, (0, batch_of(b"%04d" % i + b"." * 30_000))),
            broker,
            9,
        )
        for i in range(count)
    ]
    await asyncio.gather(*asked)


def test_partitions_are_found_by_name_and_by_id(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t", partitions=2)
            topic = broker.topics.get("t")
            assert topic is not None
            found = broker.partitions
            assert found.named("t", 0) is partition
            assert found.identified(topic.id, 0) is partition
            assert found.get(topic.number, 0) is partition
            assert found.count == 2
            assert list(found) == [partition]  # nobody asked for the other one
            for index in (2, -1):
                assert found.get(topic.number, index) is None
                with pytest.raises(KafkaError) as refused:
                    found.named("t", index)
                code = refused.value.code
                assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            with pytest.raises(KafkaError) as refused:
                found.identified(b"?" * 16, 0)
            assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_ID

    run(scenario)


def test_bytes_are_counted_by_topic(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            for name in ("orders", "clicks", "silent"):
                await create(broker, name, partitions=2)
            before = broker.partitions.traffic()
            await fill(broker, "orders", 3)
            await fill(broker, "clicks", 1)
            assert list(before) == list(broker.partitions.traffic())
            fetched = await fetch_one(broker, "orders", 0)
            assert len(values_in(fetched)) > 0
            named = {
                topic.name: found
                for found in broker.partitions.traffic()
                if (topic := broker.topics.by_number(found.number)) is not None
            }
            orders, clicks = named.pop("orders"), named.pop("clicks")
            assert named == {}
            assert 90_000 < orders.bytes_in == 3 * clicks.bytes_in
            assert (orders.records_in, clicks.records_in) == (3, 1)
            assert orders.bytes_out == sum(map(len, batches_in(fetched)))
            assert clicks.bytes_out == 0

    run(scenario)


def test_a_segment_that_goes_is_forgotten_by_those_who_are_in_it(
    tmp_path: Path,
) -> None:
    """Others may have batches in older segments that stand in no table yet."""

    async def scenario() -> None:
        tables = Tables()
        async with rig(tmp_path, tables=tables) as broker:
            early, late = await create(broker, "early"), await create(broker, "late")
            await fill(broker, "early", 20)
            broker.wal.roll()
            await fill(broker, "late", 5)
            broker.wal.roll()
            await fill(broker, "late", 1)
            first, second, _ = broker.wal.segments()
            assert set(first.ranges) == {early.key}
            assert set(second.ranges) == {late.key}
            batches = broker.wal.read(late.spans(0, 1 << 20, True) or [])
            tables.batches[late.key], tables.ends[late.key] = batches[:5], 5
            await broker.partitions.segment_released(second.sequence)
            broker.wal.release(second.sequence)
            assert len(early.log.index) == 20
            assert late.log.index.first_offset == 5
            fetched = values_in(await fetch_one(broker, "late", 0))
            assert [value[:4] for value in fetched if value] == [
                b"%04d" % i for i in range(5)
            ]

    run(scenario)


def test_what_a_table_lacks_is_read_where_it_lies_although_it_has_what_follows(
    tmp_path: Path,
) -> None:
    class Lacking(Tables):
        def lacking(self, number: int) -> dict[int, list[tuple[int, int]]]:
            return {0: [(0, 5)]}

    async def scenario() -> None:
        tables = Lacking()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            await fill(broker, "t", 5)
            broker.wal.roll()
            await fill(broker, "t", 5)
            broker.wal.roll()
            await fill(broker, "t", 1)
            assert [info.sealed for info in broker.wal.segments()] == [
                True,
                True,
                False,
            ]
            batches = broker.wal.read(partition.spans(0, 1 << 20, True))
            tables.batches[partition.key], tables.ends[partition.key] = batches[5:], 11
            retention = SegmentRetention(
                broker.wal,
                table_end=tables.table_end,
                is_deleted=lambda _: False,
                verified_ends=tables.verified_ends,
                lacking=tables.lacking,
                note_ends=broker.partitions.released_ends.note,
                before_release=broker.partitions.segment_released,
                clock=broker.clock,
                keep_ms=0,
                idle_seal_ms=1 << 40,
            )
            await retention.tick()
            retention.close()
            assert len(values_in(await fetch_one(broker, "t", 0))) == 11
            assert tables.reads == 0

    run(scenario)


def test_turning_compaction_off_takes_records_without_key_again(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", cleanup_policy="compact")
            topic = broker.topics.get("t")
            assert topic is not None
            refused = start(
                produce, produce_request("t", (0, batch_of(b"a"))), broker, 9
            )
            answer = (await refused).responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.INVALID_RECORD
            await broker.topics.alter_configs(topic, lambda _: {})
            taken = start(produce, produce_request("t", (0, batch_of(b"a"))), broker, 9)
            answer = (await taken).responses[0].partition_responses[0]
            assert answer.error_code == 0

    run(scenario)


def test_raising_log_starts_at_the_same_time_keeps_the_highest(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            await fill(broker, "t", 5)
            await asyncio.gather(
                *(
                    broker.partitions.raise_log_starts({partition: start})
                    for start in (1, 4, 2)
                )
            )
            assert partition.log_start == 4
        async with rig(tmp_path) as broker:
            assert broker.partitions.named("t", 0).log_start == 4

    run(scenario)


def test_silent_producers_are_forgotten(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            batch = batch_of(b"a", producer=(3, 0, 0))
            await start(produce, produce_request("t", (0, batch)), broker, 9)
            now_ms = broker.clock.now_ms()
            await broker.partitions.expire_producers(now_ms + 99, 100)
            assert 3 in partition.log.producers
            await broker.partitions.expire_producers(now_ms + 100, 100)
            assert 3 not in partition.log.producers

    run(scenario)


def test_carried_batches_are_read_where_they_lie_now(tmp_path: Path) -> None:
    async def scenario() -> None:
        tables = Tables()
        async with rig(tmp_path, tables=tables) as broker:
            stuck, busy = await create(broker, "stuck"), await create(broker, "busy")
            for _ in range(4):
                await fill(broker, "stuck", 2)
                await fill(broker, "busy", 20)
                broker.wal.roll()
            await fill(broker, "stuck", 2)
            before = values_in(await fetch_one(broker, "stuck", 0))
            batches = broker.wal.read(busy.spans(0, 1 << 30, True))
            tables.batches[busy.key], tables.ends[busy.key] = batches, 80
            first = broker.wal.segments()[0].sequence
            size = sum(length for _, length in stuck.spans(0, 1 << 30, True)) // 10
            for offset, count in ((0, 2), (1, 1), (2, 0)):
                part = broker.partitions.part_of(stuck.key, first, offset)
                assert part == (count * size, count)
            assert broker.partitions.part_of((99, 0), first, 0) == (0, 0)
            carried = await carry_sealed(broker, {busy.key: 80})
            await broker.partitions.segments_carried(carried)
            broker.wal.release_replaced(carried.sequences)
            broker.wal.release_replaced(carried.sequences)  # they are gone already
            assert len(stuck.log.index) == 10
            assert busy.log.index.first_offset is None
            assert values_in(await fetch_one(broker, "stuck", 0)) == before
            fetched = values_in(await fetch_one(broker, "busy", 79))
            assert len(fetched) == 1
        async with rig(tmp_path, tables=tables) as broker:
            assert values_in(await fetch_one(broker, "stuck", 0)) == before

    run(scenario)


def test_a_checkpoint_that_is_wanted_while_one_is_made_follows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows what was finished since the other began."""
    monkeypatch.setattr("broker.runtime.partitions.checkpoint.STEP_PARTITIONS", 1)

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", partitions=2)
            await fill(broker, "t", 1)
            written: list[object] = []
            monkeypatch.setattr(broker.wal, "checkpoint", lambda *_: written.append(_))
            for _ in range(3):  # both that come meanwhile are one
                broker.partitions.begin_checkpoint()
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(written) == 2
            broker.partitions.begin_checkpoint()
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(written) == 3

    run(scenario)
