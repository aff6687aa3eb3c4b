"""ListOffsets: both ends, special timestamps, and times over segments and tables."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.apis.list_offsets import list_offsets
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from broker.runtime.services import Broker
from tests.support.batches import Record, make_batch
from tests.support.clock import ManualClock
from tests.support.message_sets import produced
from tests.support.rig import Tables, batch_of, call, create, produce_one, rig, run

T = 1_700_000_000_000


async def ask(
    broker: Broker, timestamp: int, version: int = 11, name: str = "t", epoch: int = -1
) -> Any:
    asked = ListOffsetsPartition(0, epoch, timestamp)
    request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(name, [asked])])
    response = await call(list_offsets, request, broker, version)
    return response.topics[0].partitions[0]


def told(answer: Any) -> tuple[int, int, int]:
    assert answer.error_code == 0
    return answer.offset, answer.timestamp, answer.leader_epoch


def at(*times: int, codec: int = 0) -> bytearray:
    return make_batch([Record(timestamp=T + time) for time in times], codec=codec)


def test_both_ends(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"a", b"b", b"c"))
            await broker.partitions.raise_log_starts({partition: 1})
            assert told(await ask(broker, -1)) == (3, -1, 0)
            assert told(await ask(broker, -2)) == (1, -1, 0)
            assert told(await ask(broker, -4)) == (1, -1, 0)
            assert told(await ask(broker, -5)) == (-1, -1, -1)
            assert told(await ask(broker, -6)) == (-1, -1, -1)

    run(scenario)


@pytest.mark.parametrize(
    ("timestamp", "since"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 99)]
)
def test_special_timestamps_need_their_versions(
    tmp_path: Path, timestamp: int, since: int
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            for version in (since - 1, since):
                if 1 <= version <= 11:
                    code = (await ask(broker, timestamp, version)).error_code
                    unsupported = version < since
                    expected = ErrorCode.UNSUPPORTED_VERSION if unsupported else 0
                    assert code == expected
                    unknown = (await ask(broker, timestamp, version, "u")).error_code
                    assert unknown == (expected or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if since > 11:
                code = (await ask(broker, timestamp)).error_code
                assert code == ErrorCode.UNSUPPORTED_VERSION

    run(scenario)


@pytest.mark.parametrize("codec", [0, 3])
def test_a_time_finds_the_first_record_so_late_and_tells_its_time(
    tmp_path: Path, codec: int
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await produce_one(broker, "t", at(0, 10, 20, codec=codec))
            await produce_one(broker, "t", at(15, 40, 30, codec=codec))
            for asked, offset, time in (
                (0, 0, 0), (5, 1, 10), (11, 2, 20), (21, 4, 40), (35, 4, 40),
            ):  # fmt: skip
                assert told(await ask(broker, T + asked)) == (offset, T + time, 0)
            assert told(await ask(broker, T + 41)) == (-1, -1, -1)

    run(scenario)


def test_the_greatest_timestamp(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            assert told(await ask(broker, -3)) == (-1, -1, -1)
            await produce_one(broker, "t", at(0, 90, 20))
            await produce_one(broker, "t", at(30))
            assert told(await ask(broker, -3)) == (1, T + 90, 0)

    run(scenario)


@pytest.mark.parametrize("said", [-1, T - 9, T + 900])
def test_what_a_batch_says_of_its_times_is_not_believed(
    tmp_path: Path, said: int
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            records = [Record(timestamp=T + 10), Record(timestamp=T + 20)]
            await produce_one(broker, "t", make_batch(records, max_timestamp=said))
            await produce_one(broker, "t", at(15, 40))
            assert told(await ask(broker, T + 15)) == (1, T + 20, 0)
            assert told(await ask(broker, T + 21)) == (3, T + 40, 0)
            assert told(await ask(broker, -3)) == (3, T + 40, 0)

    run(scenario)


def test_times_are_found_in_tables_and_segments_alike(tmp_path: Path) -> None:
    async def scenario() -> None:
        tables = Tables()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            await produce_one(broker, "t", at(0, 10, 50))
            tables.compact(broker, partition)
            await produce_one(broker, "t", at(20, 60))
            for asked, offset, time in ((5, 1, 10), (45, 2, 50), (55, 4, 60)):
                assert told(await ask(broker, T + asked)) == (offset, T + time, 0)
            assert told(await ask(broker, -3)) == (4, T + 60, 0)
            await broker.partitions.raise_log_starts({partition: 2})
            assert told(await ask(broker, T)) == (2, T + 50, 0)

    run(scenario)


def test_records_below_the_log_start_are_not_found(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            await produce_one(broker, "t", at(50, 10, 20))
            await broker.partitions.raise_log_starts({partition: 1})
            assert told(await ask(broker, T + 5)) == (1, T + 10, 0)

    run(scenario)


def test_log_append_time_counts_where_the_broker_stamps(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", message_timestamp_type="LogAppendTime")
            await produce_one(broker, "t", at(-500, -400))
            now_ms = broker.clock.now_ms()
            assert told(await ask(broker, now_ms)) == (0, now_ms, 0)

    run(scenario)


def test_errors_are_of_the_partition(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert (await ask(broker, -1, name="nowhere")).error_code == unknown
            fenced = await ask(broker, -1, epoch=3)
            assert fenced.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH

    run(scenario)


def test_a_partition_that_is_named_twice_is_refused_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", 2)
            first, again = (
                ListOffsetsPartition(0, -1, -1),
                ListOffsetsPartition(0, -1, -2),
            )
            topics = [
                ListOffsetsTopic("t", [first, ListOffsetsPartition(1, -1, -1)]),
                ListOffsetsTopic("t", [again]),
            ]
            request = ListOffsetsRequest(-1, 0, topics)
            response = await call(list_offsets, request, broker)
            (topic,) = response.topics
            told = [(one.partition_index, one.error_code) for one in topic.partitions]
            assert told == [(0, ErrorCode.INVALID_REQUEST), (1, 0)]

    run(scenario)


def test_many_searches_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await produce_one(broker, "t", at(*range(20)))
            answers = await asyncio.gather(*(ask(broker, T + i) for i in range(20)))
            assert [answer.offset for answer in answers] == list(range(20))

    run(scenario)


async def old_offsets(broker: Broker, timestamp: int, count: int = 9) -> list[int]:
    asked = ListOffsetsPartition(0, -1, timestamp, count)
    request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [asked])])
    response = await call(list_offsets, request, broker, 0)
    answer = response.topics[0].partitions[0]
    assert answer.error_code == 0
    return list(answer.old_style_offsets)


def test_version_0_gives_offsets_newest_first(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            assert await old_offsets(broker, -1) == [0]
            await produce_one(broker, "t", at(10, 20, 30))
            assert await old_offsets(broker, -1) == [3, 0]
            assert await old_offsets(broker, -1, 1) == [3]
            assert await old_offsets(broker, -2) == [0]
            assert await old_offsets(broker, T + 15) == [1, 0]
            assert await old_offsets(broker, T + 99) == [3, 0]
            assert await old_offsets(broker, T + 15, 0) == []
            assert await old_offsets(broker, -1, -5) == []

    run(scenario)


@pytest.mark.parametrize("in_table", [False, True])
def test_version_0_passes_over_nothing_that_may_be_younger_than_the_time(
    tmp_path: Path, in_table: bool
) -> None:
    clock, tables = ManualClock(T + 1_000), Tables()

    async def scenario() -> None:
        async with rig(tmp_path, clock=clock, tables=tables) as broker:
            partition = await create(broker, "t")
            await produce_one(broker, "t", produced([Record()] * 2, 0, 0), 1)
            if in_table:
                tables.compact(broker, partition)
            assert await old_offsets(broker, T) == [0]
            assert await old_offsets(broker, T + 1_000) == [2, 0]  # it is not yet over
            await produce_one(broker, "t", at(10, 30, 20))
            await produce_one(broker, "t", produced([Record()], 0, 0), 1)
            if in_table:
                tables.compact(broker, partition)
            assert await old_offsets(broker, T + 25) == [3, 0]
            assert await old_offsets(broker, T + 99) == [4, 0]
            assert await old_offsets(broker, T + 1_000) == [6, 0]

    run(scenario)


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (2, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (3, ErrorCode.KAFKA_STORAGE_ERROR),
        (11, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_a_table_that_cannot_be_read_is_told_in_a_code_that_the_client_knows(
    tmp_path: Path, version: int, code: ErrorCode
) -> None:
    class Broken(Tables):
        async def find_timestamp(self, *_: Any) -> Any:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "planted")

    tables = Broken()

    async def scenario() -> None:
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            await produce_one(broker, "t", at(10))
            tables.compact(broker, partition)
            assert (await ask(broker, T, version)).error_code == code

    run(scenario)


def test_version_0_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            code = (await ask(broker, -3, 0)).error_code
            assert code == ErrorCode.UNSUPPORTED_VERSION
            code = (await ask(broker, -1, 0, name="nope")).error_code
            assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(scenario)
