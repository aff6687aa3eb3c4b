"""Waiting fetches: completed once, by bytes, by an error, or by time."""

import asyncio
from pathlib import Path

import pytest

from broker.apis.fetch import fetch
from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.fetches import check_offset
from tests.support.rig import (
    Tables,
    batch_of,
    create,
    fetch_request,
    produce_one,
    rig,
    run,
    start,
    values_in,
)


def test_offsets_from_the_log_start_to_the_end_may_be_asked_for(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"a", b"b", b"c"))
            await broker.partitions.raise_log_starts({partition: 1})
            for offset in (1, 3):
                check_offset(partition, offset)
            for offset in (0, 4):
                with pytest.raises(KafkaError) as refused:
                    check_offset(partition, offset)
                assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE

    run(scenario)


def test_a_log_start_that_passes_the_offset_wakes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"a", b"b"))
            request = fetch_request("t", (0, 1), max_wait_ms=20_000, min_bytes=9999)
            waiting = start(fetch, request, broker, 12)
            await broker.partitions.raise_log_starts({partition: 2})
            response = await waiting
            code = response.responses[0].partitions[0].error_code
            assert code == ErrorCode.OFFSET_OUT_OF_RANGE

    run(scenario)


def test_what_became_cold_while_a_fetch_waited_is_still_given(tmp_path: Path) -> None:
    async def scenario() -> None:
        tables = Tables()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"a"))
            request = fetch_request("t", (0, 0), max_wait_ms=50, min_bytes=9999)
            waiting = start(fetch, request, broker, 12)
            tables.compact(broker, partition)
            response = await waiting
            assert values_in(response.responses[0].partitions[0]) == [b"a"]

    run(scenario)


def test_an_answer_nobody_wants_any_more_is_no_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            request = fetch_request("t", (0, 0), max_wait_ms=20_000)
            waiting = start(fetch, request, broker, 12)
            waiting.cancel()
            answer = await produce_one(broker, "t", batch_of(b"a"))
            await asyncio.sleep(0.01)
            assert answer.error_code == 0
            assert len(broker.waits) == 0

    run(scenario)


def test_many_waiting_fetches_are_all_answered_by_one_append(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", partitions=2)
            request = fetch_request("t", (0, 0), (1, 0), max_wait_ms=20_000)
            waiting = [start(fetch, request, broker, 12) for _ in range(100)]
            await produce_one(broker, "t", batch_of(b"a"), partition=1)
            for response in await asyncio.gather(*waiting):
                assert values_in(response.responses[0].partitions[1]) == [b"a"]

    run(scenario)
