"""Restoring: everything acknowledged is there again, and retries are still known."""

import asyncio
from pathlib import Path

from broker.apis.delete_topics import delete_topics
from broker.apis.produce import produce
from broker.protocol.messages.delete_topics import DeleteTopicsRequest
from broker.runtime.services import Broker
from tests.support.files import ForgetfulFiles
from tests.support.rig import (
    Tables,
    batch_of,
    call,
    create,
    fetch_one,
    produce_one,
    produce_request,
    rig,
    run,
    start,
    values_in,
)


async def fill(broker: Broker, first: int, count: int) -> None:
    asked = [
        start(
            produce,
            produce_request("t", (0, batch_of(b"%06d" % i, producer=(9, 0, i)))),
            broker,
            9,
        )
        for i in range(first, first + count)
    ]
    await asyncio.gather(*asked)


def test_the_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    async def scenario() -> None:
        for round_number in range(3):
            async with rig(tmp_path) as broker:
                if round_number == 0:
                    await create(broker, "t")
                assert broker.partitions.named("t", 0).high_watermark == (
                    round_number * 40
                )
                await fill(broker, round_number * 40, 40)
                found = values_in(await fetch_one(broker, "t", 0))
                assert found == [b"%06d" % i for i in range((round_number + 1) * 40)]

    run(scenario)


def test_retries_are_known_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await fill(broker, 0, 10)
        async with rig(tmp_path) as broker:
            again = batch_of(b"000007", producer=(9, 0, 7))
            answer = await produce_one(broker, "t", again)
            assert (answer.error_code, answer.base_offset) == (0, 7)
            assert broker.partitions.named("t", 0).high_watermark == 10

    run(scenario)


def test_retries_are_known_when_the_segments_are_gone(tmp_path: Path) -> None:
    async def scenario() -> None:
        tables = Tables()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            await fill(broker, 0, 10)
            tables.compact(broker, partition)
            broker.wal.roll()
            await create(broker, "later")
            broker.partitions.checkpoint()
            await produce_one(broker, "later", batch_of(b"x"))
            broker.wal.release(broker.wal.segments()[0].sequence)
        async with rig(tmp_path, tables=tables) as broker:
            partition = broker.partitions.named("t", 0)
            assert len(partition.log.index) == 0
            assert partition.high_watermark == 10
            answer = await produce_one(
                broker, "t", batch_of(b"000009", producer=(9, 0, 9))
            )
            assert (answer.error_code, answer.base_offset) == (0, 9)
            assert len(values_in(await fetch_one(broker, "t", 0))) == 10

    run(scenario)


def test_what_a_power_cut_left_is_whole(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = ForgetfulFiles()
        async with rig(tmp_path, files=files) as broker:
            await create(broker, "t")
            await fill(broker, 0, 30)
            broker.partitions.checkpoint()
            await fill(broker, 30, 30)
            cut = files.after_power_cut(lambda _: [])
        async with rig(tmp_path, files=cut) as broker:
            found = values_in(await fetch_one(broker, "t", 0))
            assert found == [b"%06d" % i for i in range(60)]
            retry = batch_of(b"000059", producer=(9, 0, 59))
            assert (await produce_one(broker, "t", retry)).base_offset == 59

    run(scenario)


def test_entries_of_deleted_topics_are_passed_over(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await fill(broker, 0, 10)
            await call(delete_topics, DeleteTopicsRequest(topic_names=["t"]), broker, 5)
            await create(broker, "t")
            await fill(broker, 0, 3)
        async with rig(tmp_path) as broker:
            assert broker.partitions.named("t", 0).high_watermark == 3
            assert len(list(broker.partitions)) == 1

    run(scenario)


def test_a_table_ahead_of_the_segments_is_believed(tmp_path: Path) -> None:
    async def scenario() -> None:
        tables = Tables()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            tables.ends[partition.key] = 50
        async with rig(tmp_path, tables=tables) as broker:
            partition = broker.partitions.named("t", 0)
            assert (partition.high_watermark, partition.log.next) == (50, 50)

    run(scenario)
