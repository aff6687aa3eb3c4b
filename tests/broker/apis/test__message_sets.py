"""Old message sets in and out: what clients of Kafka 0.8 to 0.10 send and get."""

import asyncio
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.apis import _message_sets
from broker.apis.fetch import fetch
from broker.apis.produce import produce
from broker.lake.cold import ColdRead
from broker.protocol.errors import ErrorCode, ProtocolError
from broker.protocol.messages.fetch import FetchRequest, PartitionData
from broker.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from broker.records import message_set
from broker.runtime.partitions.fetches import CUT_BYTES_MIN, PART_OF_ROOM
from broker.runtime.partitions.reads import TURN_PLACES
from broker.runtime.services import CONVERSIONS_MAX, Broker
from tests.support.batches import Record, make_batch
from tests.support.message_sets import consumed, message, produced
from tests.support.patience import IDLE_S
from tests.support.rig import (
    Tables,
    batch_of,
    call,
    create,
    fetch_one,
    fetch_request,
    produce_one,
    produce_request,
    rig,
    run,
    start,
    values_in,
)
from tests.support.turns import callbacks_ms, check_turn, turn_ms

OLD_PRODUCE = [0, 1, 2]
OLD_FETCH = [0, 1, 2, 3]
VALUES = [b"a", b"b", b"c"]


def set_of(*values: bytes, magic: int = 0, codec: int = 0) -> memoryview:
    """A produced message set, in memory like that of a connection."""
    made = produced([Record(value=value) for value in values], magic, codec)
    return memoryview(made)


def messages_in(data: PartitionData) -> list[Record]:
    records = data.records
    whole = records if isinstance(records, bytes) else b"".join(records or ())
    return consumed(bytes(whole))


async def fetched(broker: Broker, offset: int, version: int, **more: Any) -> Any:
    return await fetch_one(broker, "t", offset, version, **more)


@pytest.mark.parametrize("codec", [0, 1, 2, 3])
@pytest.mark.parametrize("version", OLD_PRODUCE)
def test_a_message_set_becomes_records_for_everybody(tmp_path, version, codec) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            made = set_of(*VALUES, magic=version // 2, codec=codec)
            first = await produce_one(broker, "t", made, version)
            second = await produce_one(broker, "t", set_of(b"d"), version)
            assert (first.error_code, first.base_offset) == (0, 0)
            assert (second.error_code, second.base_offset) == (0, 3)
            assert values_in(await fetched(broker, 0, 12)) == [*VALUES, b"d"]
            for old in OLD_FETCH:
                found = messages_in(await fetched(broker, 0, old))
                assert [one.value for one in found] == [*VALUES, b"d"]
                assert [one.offset for one in found] == [0, 1, 2, 3]

    run(scenario)


def test_a_batch_may_come_in_an_old_request(tmp_path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            answer = await produce_one(broker, "t", batch_of(*VALUES), 2)
            assert answer.error_code == 0
            zstd = await produce_one(broker, "t", batch_of(b"z", codec=4), 2)
            assert zstd.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
            assert values_in(await fetched(broker, 0, 12)) == VALUES

    run(scenario)


def test_one_bad_set_does_not_spoil_its_neighbours(tmp_path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", 4)
            bad = memoryview(bytearray(message(b"x")[:-1] + b"y"))
            nested = memoryview(bytearray(message(b"", 0, 1)))
            request = produce_request(
                "t", (0, set_of(b"a")), (1, bad), (2, nested), (3, None), (9, set_of())
            )
            response = await call(produce, request, broker, 1)
            answers = response.responses[0].partition_responses
            assert [
                (one.index, one.error_code, one.base_offset) for one in answers
            ] == [
                (0, 0, 0),
                (1, ErrorCode.CORRUPT_MESSAGE, -1),
                (2, ErrorCode.UNKNOWN_SERVER_ERROR, -1),  # it knows no INVALID_RECORD
                (3, ErrorCode.UNKNOWN_SERVER_ERROR, -1),
                (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
            ]

    run(scenario)


def test_what_needs_no_answer_gets_none_and_a_refusal_ends_the_connection(tmp_path):
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            good = produce_request("t", (0, set_of(b"a")), acks=0)
            assert await call(produce, good, broker, 0) is None
            bad = produce_request("t", (0, memoryview(bytearray(b"x" * 30))), acks=0)
            with pytest.raises(ProtocolError, match="acks=0"):
                await call(produce, bad, broker, 0)
            assert values_in(await fetched(broker, 0, 12)) == [b"a"]

    run(scenario)


def test_a_batch_larger_than_the_topic_allows_is_refused(tmp_path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", max_message_bytes="1000")
            answer = await produce_one(broker, "t", set_of(b"x" * 2000), 0)
            assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE

    run(scenario)


@pytest.mark.parametrize("version", OLD_PRODUCE)
def test_a_set_is_not_refused_for_what_a_hurry_adds_to_it(tmp_path, version) -> None:
    values = [b"%d: %d of it" % (i, i * i) for i in range(5000)]
    made = set_of(*values, magic=version // 2, codec=1)

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            # no less than the batch takes, and less than it takes in a hurry
            limit = len(message_set.to_batch(made, 0))
            assert limit < len(message_set.to_batch(made))
            await create(broker, "t", max_message_bytes=str(limit))
            answer = await produce_one(broker, "t", made, version)
            assert answer.error_code == 0
            assert values_in(await fetched(broker, 0, 12)) == values

    run(scenario)


def test_the_brokers_time_is_given_and_told_from_version_2_on(tmp_path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", message_timestamp_type="LogAppendTime")
            answer = await produce_one(broker, "t", set_of(b"a", magic=1), 2)
            (found,) = messages_in(await fetched(broker, 0, 2))
            assert found.timestamp == answer.log_append_time_ms > 0
            assert found.timestamp_type == 1
            (older,) = messages_in(await fetched(broker, 0, 1))
            assert older.timestamp == -1

    run(scenario)


@pytest.mark.parametrize("version", OLD_FETCH)
def test_an_answer_keeps_its_limits(tmp_path, version) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", 2)
            for partition in (0, 1):
                for _ in range(3):
                    made = set_of(b"x" * 500, b"y" * 500)
                    await produce_one(broker, "t", made, 1, partition)
            whole = 1000 if version == 3 else 2**31 - 1
            request = fetch_request(
                "t", (0, 0), (1, 0), bytes_max=whole, partition_bytes_max=700
            )
            response = await call(fetch, request, broker, version)
            first, second = response.responses[0].partitions
            assert first.high_watermark == 6
            sizes = [sum(map(len, one.records)) for one in (first, second)]
            # before version 3 an answer as a whole has no limit
            assert sizes == [700, 0 if version == 3 else 700]
            assert [one.value for one in messages_in(first)] == [b"x" * 500]

    run(scenario)


def test_a_message_above_the_limit_is_whole_from_version_3_on(tmp_path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await produce_one(broker, "t", set_of(b"x" * 5000, b"y"), 1)
            cut = await fetched(broker, 0, 2, partition_bytes_max=100)
            assert sum(map(len, cut.records)) == 100
            assert messages_in(cut) == []
            whole = await fetched(broker, 0, 3, partition_bytes_max=100)
            assert [one.value for one in messages_in(whole)] == [b"x" * 5000]

    run(scenario)


@pytest.mark.parametrize("version", OLD_FETCH)
def test_a_compressed_message_is_whole_if_its_batch_is_within_the_limit(
    tmp_path, version
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            batch = batch_of(*[b"%04d" % i for i in range(1000)], codec=2)
            await produce_one(broker, "t", batch)
            asked = len(batch) + 1
            data = await fetched(broker, 0, version, partition_bytes_max=asked)
            assert sum(map(len, data.records)) > asked  # it grew
            assert len(messages_in(data)) == 1000
            asked = len(batch) - 1
            data = await fetched(broker, 0, version, partition_bytes_max=asked)
            # before version 3, a piece says that the client must ask for more
            assert len(messages_in(data)) == (1000 if version == 3 else 0)
            if version < 3:
                assert sum(map(len, data.records)) == asked

    run(scenario)


@pytest.mark.parametrize("version", OLD_FETCH)
def test_no_piece_of_a_message_is_sent_for_want_of_room(tmp_path, version) -> None:
    randbytes = random.Random(version).randbytes
    batch = batch_of(*[randbytes(100) for _ in range(1000)], codec=2)

    async def scenario() -> None:
        whole = 2 * len(batch) + 10  # both batches, but not what they become
        async with rig(tmp_path, fetch_max_bytes=whole) as broker:
            await create(broker, "t", 2)
            for partition in (0, 1):
                await produce_one(broker, "t", batch, partition=partition)
            request = fetch_request("t", (0, 0), (1, 0), bytes_max=whole)
            response = await call(fetch, request, broker, version)
            first, second = response.responses[0].partitions
            assert len(messages_in(first)) == 1000
            assert sum(map(len, second.records)) == 0

    run(scenario)


def test_small_messages_of_a_large_batch_are_read_with_a_small_limit(tmp_path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await produce_one(broker, "t", batch_of(*[b"%03d" % i for i in range(300)]))
            seen: list[int] = []
            while len(seen) < 300:
                data = await fetched(broker, len(seen), 1, partition_bytes_max=500)
                found = messages_in(data)
                assert found
                seen += [one.offset for one in found]
            assert seen == list(range(300))

    run(scenario)


@pytest.mark.parametrize("version", [1, 3])
def test_who_stands_in_a_gap_gets_what_follows_it(tmp_path, version) -> None:
    tables = Tables()

    async def scenario() -> None:
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            for value in (b"a", b"b"):
                await produce_one(broker, "t", batch_of(value, b"gone"))
            tables.compact(broker, partition)
            batches = tables.batches[partition.key]
            # an owner deleted offset 1, and all between 0 and 2 is a gap
            batches[0] = bytes(make_batch([Record(value=b"a")]))
            for offset, values in ((0, [b"a", b"b", b"gone"]), (1, [b"b", b"gone"])):
                found = messages_in(await fetched(broker, offset, version))
                assert [one.value for one in found] == values[: len(found)]
                assert found
            assert messages_in(await fetched(broker, 4, version)) == []

    run(scenario)


@pytest.mark.parametrize("places", [1, TURN_PLACES + 1])
@pytest.mark.parametrize("version", [1, 3])
def test_who_stands_at_an_end_without_messages_waits_for_the_next(
    tmp_path, version, places
) -> None:
    tables = Tables()

    async def scenario() -> None:
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t", places)
            for value in (b"a", b"gone"):
                await produce_one(broker, "t", batch_of(value))
            tables.compact(broker, partition)
            del tables.batches[partition.key][1:]  # its owner deleted the row
            everywhere = [(index, 0) for index in range(1, places)]
            request = fetch_request("t", (0, 1), *everywhere, max_wait_ms=60_000)
            waiting = start(fetch, request, broker, version)
            while not (len(broker.purgatory) or waiting.done()):
                await asyncio.sleep(0)
            assert not waiting.done()
            assert broker.fetched.taken == 0
            await produce_one(broker, "t", batch_of(b"next"))
            response = await waiting
            (found,) = messages_in(response.responses[0].partitions[0])
            assert (found.offset, found.value) == (2, b"next")

    run(scenario)


def test_who_wants_no_bytes_is_answered_at_an_end_without_messages(tmp_path) -> None:
    tables = Tables()

    async def scenario() -> None:
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"gone"))
            tables.compact(broker, partition)
            tables.batches[partition.key].clear()
            for more in ({"min_bytes": 0, "max_wait_ms": 60_000}, {"max_wait_ms": 0}):
                data = await fetched(broker, 0, 3, **more)
                assert messages_in(data) == []
                assert data.high_watermark == 1

    run(scenario)


@pytest.mark.parametrize("version", OLD_FETCH)
def test_zstd_is_an_error_that_the_client_knows(tmp_path, version) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"z", codec=4))
            data = await fetched(broker, 0, version)
            assert data.error_code == ErrorCode.UNKNOWN_SERVER_ERROR

    run(scenario)


@pytest.mark.parametrize("version", OLD_FETCH)
def test_what_stands_before_zstd_is_given(tmp_path, version) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"a", b"b"))
            await produce_one(broker, "t", batch_of(b"z", codec=4))
            await produce_one(broker, "t", batch_of(b"c"))
            data = await fetched(broker, 0, version)
            assert data.error_code == 0
            assert [one.value for one in messages_in(data)] == [b"a", b"b"]
            behind = await fetched(broker, 2, version)
            assert behind.error_code == ErrorCode.UNKNOWN_SERVER_ERROR

    run(scenario)


@pytest.mark.parametrize("bytes_max", [1, 999, 1000, 4500, 1 << 20])
@pytest.mark.parametrize("version", OLD_FETCH)
def test_pieces_of_an_answer_are_its_whole(
    tmp_path, version, bytes_max, monkeypatch
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            sizes = [10, 2000, 10, 10, 960, 950, 1, 3000]
            for size in sizes:
                await produce_one(broker, "t", batch_of(b"x" * size))
            answers = []
            for piece in (1 << 20, 1000):
                monkeypatch.setattr(_message_sets, "PIECE_BYTES", piece)
                data = await fetched(broker, 0, version, partition_bytes_max=bytes_max)
                answers.append(b"".join(data.records))
            assert answers[0] == answers[1]
            assert len(data.records) > (bytes_max > 1000)
            if bytes_max > 10_000:
                found = consumed(answers[0])
                assert [len(one.value or b"") for one in found] == sizes

    run(scenario)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_large_answer_is_cut_in_a_short_turn(magic) -> None:
    asked = 40 << 20
    batch = batch_of(*[b"x" * 10] * 30_000)  # twice as large as messages
    found = _message_sets._messages([batch] * 45, magic, 0, asked)
    assert max(map(len, found.pieces)) < 2 << 20  # none was copied in one go
    assert sum(map(len, found.pieces)) > asked
    kept = _message_sets._cut(found.pieces, asked)
    assert b"".join(kept) == b"".join(found.pieces)[:asked]
    check_turn(
        "a large old answer",
        lambda: turn_ms(lambda: _message_sets._cut(found.pieces, asked)),
    )


def test_a_fetch_waits_for_a_message_as_all_do(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            request = fetch_request("t", (0, 0), max_wait_ms=60_000)
            waiting = start(fetch, request, broker, 0)
            assert not waiting.done()
            await produce_one(broker, "t", set_of(b"a"), 0)
            response = await waiting
            (found,) = messages_in(response.responses[0].partitions[0])
            assert found.value == b"a"
            assert waiting.reservation.bytes == len(b"a") + 26
            waiting.reservation.release()
            assert broker.fetched.taken == 0

    run(scenario)


@pytest.mark.parametrize("codec", [0, 1, 3])
@pytest.mark.parametrize("version", OLD_FETCH)
def test_a_batch_that_becomes_too_much_is_read_in_parts(
    tmp_path, monkeypatch, version, codec
) -> None:
    monkeypatch.setattr(message_set, "MESSAGE_SET_BYTES_MAX", 1_000)

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            for first in (0, 300):
                values = [b"%03d" % (first + i) for i in range(300)]
                await produce_one(broker, "t", batch_of(*values, codec=codec))
            seen: list[int] = []
            while len(seen) < 600:
                found = messages_in(await fetched(broker, len(seen), version))
                assert found
                assert [one.value for one in found] == [
                    b"%03d" % one.offset for one in found
                ]
                seen += [one.offset for one in found]
            assert seen == list(range(600))

    run(scenario)


def test_few_are_converted_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            for _ in range(2):
                await broker.conversions.acquire()
            held = asyncio.ensure_future(
                call(produce, produce_request("t", (0, set_of(b"a"))), broker, 0)
            )
            reading = asyncio.ensure_future(fetched(broker, 0, 0, max_wait_ms=60_000))
            await asyncio.sleep(0)
            assert not held.done()
            broker.conversions.release()
            assert (await held).responses[0].partition_responses[0].error_code == 0
            assert len(messages_in(await reading)) == 1

    run(scenario)


def test_conversions_run_beside_the_loop_and_two_at_a_time(
    tmp_path, monkeypatch
) -> None:
    """They end only after the loop has answered something else meanwhile."""
    went_on, lock = threading.Event(), threading.Lock()
    running, most = 0, 0

    def held(convert: Callable[..., Any]) -> Callable[..., Any]:
        def converting(*given: Any) -> Any:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            heard = went_on.wait(IDLE_S)
            with lock:
                running -= 1
            assert heard, "the loop stands still"
            return convert(*given)

        return converting

    for name in ("to_batch", "to_message_set"):
        convert = held(getattr(_message_sets, name))
        monkeypatch.setattr(_message_sets, name, convert)

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", 6)
            await produce_one(broker, "t", batch_of(b"a"))
            produced = [
                produce_one(broker, "t", set_of(b"b"), 1, partition)
                for partition in range(1, 6)
            ]
            read = [fetched(broker, 0, version) for version in OLD_FETCH]
            for asked in (produced, read):
                went_on.clear()
                under_way = [asyncio.ensure_future(one) for one in asked]
                while running < CONVERSIONS_MAX:
                    await asyncio.sleep(0.001)
                for _ in range(10):
                    assert values_in(await fetched(broker, 0, 12)) == [b"a"]
                assert not any(one.done() for one in under_way)
                went_on.set()
                answers = await asyncio.gather(*under_way)
                assert [one.error_code for one in answers] == [0] * len(answers)
            assert most == CONVERSIONS_MAX

    run(scenario)


def test_what_nobody_takes_is_refused_before_it_is_converted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            for _ in range(2):
                await broker.conversions.acquire()
            unknown = await produce_one(broker, "nowhere", set_of(b"a"), 1)
            assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            shown = await produce_one(broker, "__consumer_offsets", set_of(b"a"), 1)
            assert shown.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
            many = [(9, memoryview(bytearray(b"x")))] * 1000
            request = produce_request("nowhere", *many)
            sent = asyncio.ensure_future(call(produce, request, broker, 1))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not sent.done()  # in turns
            await sent

    run(scenario)


def test_a_set_is_appended_before_the_next_is_converted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", 2)
            for _ in range(2):
                await broker.conversions.acquire()
            request = produce_request("t", (0, set_of(b"a")), (1, set_of(b"b")))
            sent = asyncio.ensure_future(call(produce, request, broker, 0))
            await asyncio.sleep(0)
            next_in_line = asyncio.ensure_future(broker.conversions.acquire())
            await asyncio.sleep(0)
            broker.conversions.release()
            # what the first became is not kept for as long as others take
            first = await fetched(broker, 0, 12, max_wait_ms=60_000)
            assert values_in(first) == [b"a"]
            assert await next_in_line
            assert not sent.done()
            broker.conversions.release()
            answers = (await sent).responses[0].partition_responses
            assert [one.error_code for one in answers] == [0, 0]

    run(scenario)


@pytest.mark.parametrize("version", OLD_FETCH)
def test_what_is_converted_stays_within_the_memory_of_fetches(
    tmp_path, version
) -> None:
    def ask() -> FetchRequest:
        return fetch_request("t", (0, 0))

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await produce_one(broker, "t", batch_of(*[b"x" * 100] * 1000))
            broker.fetched.bytes_max = 300_000  # two become 134,000 bytes each
            first, second = (start(fetch, ask(), broker, version) for _ in range(2))
            await asyncio.wait((first, second))
            third = start(fetch, ask(), broker, version)
            while not (broker.fetched.is_awaited or third.done()):
                await asyncio.sleep(0)
            assert not third.done()
            assert broker.fetched.taken <= broker.fetched.bytes_max
            first.reservation.release()
            (data,) = (await third).responses[0].partitions
            assert len(messages_in(data)) == 1000
            assert broker.fetched.taken <= broker.fetched.bytes_max
            second.reservation.release()
            third.reservation.release()
            assert broker.fetched.taken == 0
            broker.fetched.bytes_max = 10  # who is alone gets what it asks for
            assert len(messages_in(await fetched(broker, 0, version))) == 1000

    run(scenario)


def test_an_old_answer_ends_where_the_memory_does(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", 3)
            for partition in range(3):
                batch = batch_of(*[b"x" * 100] * 1000)
                await produce_one(broker, "t", batch, partition=partition)
            broker.fetched.take(100_000)  # by others
            broker.fetched.bytes_max = 300_000
            request = fetch_request("t", (0, 0), (1, 0), (2, 0))
            response = await call(fetch, request, broker, 3)
            answers = response.responses[0].partitions
            assert [len(messages_in(one)) for one in answers] == [1000, 0, 0]
            assert [one.error_code for one in answers] == [0, 0, 0]

    run(scenario)


@pytest.mark.parametrize("version", OLD_FETCH)
def test_no_old_answer_takes_all_the_memory_that_is_left(tmp_path, version) -> None:
    """Out of memory or from disk: else one of 50 MB would be all that there is."""

    async def scenario() -> None:
        async with rig(tmp_path, fetch_max_bytes=50 << 20) as broker:
            await create(broker, "t", 4)
            for partition in range(4):
                batch = batch_of(b"x" * 500_000)
                await produce_one(broker, "t", batch, partition=partition)
            broker.fetched.bytes_max = PART_OF_ROOM * 5 * CUT_BYTES_MIN // 4
            places = [(partition, 0) for partition in range(4)]
            request = fetch_request(
                "t", *places, bytes_max=50 << 20, partition_bytes_max=50 << 20
            )
            answers = (await call(fetch, request, broker, version)).responses[0]
            found = [len(messages_in(one)) for one in answers.partitions]
            assert found == [1, 1, 0, 0]

    run(scenario)


def test_who_goes_while_its_messages_are_converted_waits_for_no_memory(
    tmp_path, monkeypatch
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"x" * 1_000))
            broker.fetched.take(broker.fetched.bytes_max - 100)  # by others
            waiting = start(fetch, fetch_request("t", (0, 0)), broker, 2)
            ended, find = asyncio.Event(), _message_sets._next_messages

            async def leave(*what):
                found = await find(*what)
                waiting.abandon()
                ended.set()
                return found

            monkeypatch.setattr(_message_sets, "_next_messages", leave)
            await ended.wait()
            for _ in range(5):
                await asyncio.sleep(0)
            assert not broker.fetched.is_awaited

    run(scenario)


def test_nothing_more_is_converted_when_nobody_hears_the_answer(tmp_path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", 2)
            for partition in (0, 1):
                await produce_one(broker, "t", batch_of(b"x"), partition=partition)
            for _ in range(2):
                await broker.conversions.acquire()
            request = fetch_request("t", (0, 0), (1, 0))
            waiting = start(fetch, request, broker, 3)
            await asyncio.sleep(0)
            next_in_line = asyncio.ensure_future(broker.conversions.acquire())
            await asyncio.sleep(0)
            waiting.abandon()
            broker.conversions.release()  # the first place was in line before
            await next_in_line
            for _ in range(10):
                await asyncio.sleep(0)
            broker.conversions.release()
            # the second would stand in line now, and have it
            assert not broker.conversions.locked()
            assert broker.fetched.taken == 0

    run(scenario)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("t", ErrorCode.CORRUPT_MESSAGE),
        ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_thousands_of_bad_sets_do_not_hold_the_loop(
    tmp_path: Path, name: str, code: ErrorCode
) -> None:
    bad = memoryview(bytearray(b"x"))
    topics = [
        TopicProduceData(name, partition_data=[PartitionProduceData(0, bad)])
        for _ in range(4000)
    ]

    async def longest() -> float:
        async with rig(tmp_path) as broker:
            if broker.topics.get("t") is None:
                await create(broker, "t")
            request = ProduceRequest(None, 1, 1000, topics)
            with callbacks_ms() as taken:
                response = await call(produce, request, broker, 2)
                await asyncio.sleep(0)  # the last one is told when it has ended
            answers = [one.partition_responses[0] for one in response.responses]
            assert {one.error_code for one in answers} == {code}
            return max(taken)

    check_turn("bad message sets", lambda: asyncio.run(longest()))


@pytest.mark.parametrize("version", OLD_FETCH)
def test_what_follows_a_gap_is_read_within_the_limit_of_the_answer(
    tmp_path: Path, version: int
) -> None:
    limits: list[int] = []

    class Measured(Tables):
        async def read(
            self, number: int, partition: int, offset: int, bytes_max: int
        ) -> ColdRead:
            limits.append(bytes_max)
            if offset == 0:  # an owner deleted the rows of a whole file
                return ColdRead([], 2)
            return await super().read(number, partition, offset, bytes_max)

    tables = Measured()

    async def scenario() -> None:
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            for value in (b"gone", b"b"):
                await produce_one(broker, "t", batch_of(value, b"c"))
            tables.compact(broker, partition)
            asked = {"partition_bytes_max": 2**31 - 1, "bytes_max": 2**31 - 1}
            found = messages_in(await fetched(broker, 0, version, **asked))
            assert [one.value for one in found] == [b"b", b"c"]
            assert len(limits) == 2
            assert max(limits) <= broker.settings.broker.fetch_max_bytes

    run(scenario)
