"""Waiting fetches: completed once, by bytes, by an error, or by time."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.apis.fetch import fetch
from broker.lake.cold import ColdRead
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.fetch import FetchResponse
from broker.runtime.budget import PASSED_OVER_MAX, Budget
from broker.runtime.partitions.fetches import (
    CUT_BYTES_MIN,
    PART_OF_ROOM,
    Fetch,
    FetchFuture,
    check_offset,
)
from broker.runtime.partitions.reads import TURN_PLACES, Place
from broker.runtime.services import Broker
from tests.support.rig import (
    ENDLESS_MS,
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

BATCH_BYTES = 500_000
ANSWER_BYTES = 50 << 20


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
            request = fetch_request("t", (0, 1), max_wait_ms=ENDLESS_MS, min_bytes=9999)
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
            request = fetch_request("t", (0, 0), max_wait_ms=ENDLESS_MS)
            waiting = start(fetch, request, broker, 12)
            waiting.cancel()
            answer = await produce_one(broker, "t", batch_of(b"a"))
            await asyncio.sleep(0.01)
            assert answer.error_code == 0
            assert len(broker.purgatory) == 0

    run(scenario)


def test_many_waiting_fetches_are_all_answered_by_one_append(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", partitions=2)
            request = fetch_request("t", (0, 0), (1, 0), max_wait_ms=ENDLESS_MS)
            waiting = [start(fetch, request, broker, 12) for _ in range(100)]
            await produce_one(broker, "t", batch_of(b"a"), partition=1)
            for response in await asyncio.gather(*waiting):
                assert values_in(response.responses[0].partitions[1]) == [b"a"]

    run(scenario)


def test_a_wake_up_looks_at_what_changed_and_at_nothing_else(tmp_path: Path) -> None:
    """However many partitions a fetch waits for, an append costs it one look."""

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            count = 3_000
            await create(broker, "t", partitions=count)
            places = [(index, 0) for index in range(count)]
            request = fetch_request("t", *places, max_wait_ms=ENDLESS_MS, min_bytes=300)
            waiting = start(fetch, request, broker, 12)
            while not len(broker.purgatory):  # it begins in turns
                await asyncio.sleep(0)
            (operation,) = broker.purgatory.operations()
            looked: list[object] = []
            look = type(operation).satisfied_by
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(
                    type(operation),
                    "satisfied_by",
                    lambda self, key: looked.append(key) or look(self, key),
                )
                for index in (7, 7, 2_999, 7, 7):
                    await produce_one(broker, "t", batch_of(b"x"), partition=index)
                    await asyncio.sleep(0)
            response = await waiting
            answers = response.responses[0].partitions
            assert [one.partition_index for one in answers if one.records] == [7, 2_999]
            number = broker.partitions.named("t", 0).number
            assert set(looked) == {(number, 7), (number, 2_999)}
            assert len(looked) <= 5

    run(scenario)


async def many_places(broker: Broker) -> list[tuple[int, int]]:
    """The beginnings of more partitions than are looked at in a turn."""
    count = 5 * TURN_PLACES
    await create(broker, "t", partitions=count)
    return [(index, 0) for index in range(count)]


def test_a_large_fetch_sees_what_comes_while_it_begins(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            places = await many_places(broker)
            for turns in range(14):
                offset = broker.partitions.named("t", 0).high_watermark
                places[0] = (0, offset)
                request = fetch_request("t", *places, max_wait_ms=ENDLESS_MS)
                waiting = start(fetch, request, broker, 12)
                for _ in range(turns):
                    await asyncio.sleep(0)
                await produce_one(broker, "t", batch_of(b"x"), partition=0)
                response = await waiting
                assert response.responses[0].partitions[0].records

    run(scenario)


def test_a_large_fetch_finds_its_places_and_looks_at_them_in_many_turns(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            places = await many_places(broker)
            request = fetch_request("t", *places, max_wait_ms=ENDLESS_MS)
            waiting, turns = start(fetch, request, broker, 12), 0
            while not len(broker.purgatory):
                await asyncio.sleep(0)
                turns += 1
            assert turns >= 4 + 5
            waiting.abandon()

    run(scenario)


def test_a_large_fetch_that_begins_can_be_cut_short_or_abandoned(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            places = await many_places(broker)
            request = fetch_request("t", *places, max_wait_ms=ENDLESS_MS)
            waiting = start(fetch, request, broker, 12)
            waiting.cut_short()
            response = await waiting
            assert len(response.responses[0].partitions) == len(places)
            gone = start(fetch, request, broker, 12)
            gone.abandon()
            for _ in range(20):
                await asyncio.sleep(0)
            assert not len(broker.purgatory)

    run(scenario)


def test_a_large_answer_is_made_in_several_turns(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            places = await many_places(broker)
            for max_wait_ms in (0, 20_000):
                request = fetch_request("t", *places, max_wait_ms=max_wait_ms)
                waiting = start(fetch, request, broker, 12)
                if max_wait_ms:
                    await produce_one(broker, "t", batch_of(b"x"), partition=9)
                turns = 0
                while not waiting.done():
                    await asyncio.sleep(0)
                    turns += 1
                assert turns >= 5
                assert len(waiting.result().responses[0].partitions) == len(places)

    run(scenario)


def test_a_large_answer_that_nobody_wants_any_more_is_not_made(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            places = await many_places(broker)
            waiting = start(fetch, fetch_request("t", *places), broker, 12)
            await asyncio.sleep(0)
            waiting.abandon()
            while not waiting.done():
                await asyncio.sleep(0)
            assert waiting.cancelled()

    run(scenario)


@pytest.mark.parametrize("faulty", ["fill", "answer"])
def test_a_fault_in_a_turn_is_told_to_who_awaits_the_answer(
    tmp_path: Path, faulty: str
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            count = TURN_PLACES + 1
            places: list[Place] = []

            def fill() -> Generator[None, None, None]:
                yield
                if faulty == "fill":
                    raise ValueError("a fault")
                places.extend(Place(None, 0, 1) for _ in range(count))

            def answer() -> Generator[None, None, FetchResponse]:
                yield
                raise ValueError("a fault")

            waiting = Fetch(
                places,
                broker.partitions.reader,
                broker.fetched,
                min_bytes=1,
                bytes_max=1,
                answer=answer,
                count=count,
                fill=fill,
            ).run(broker.purgatory, 0)
            assert isinstance(waiting, asyncio.Future)
            for _ in range(20):
                await asyncio.sleep(0)
            assert waiting.done()
            with pytest.raises(ValueError, match="a fault"):
                waiting.result()

    run(scenario)


@asynccontextmanager
async def on_disk(path: Path) -> AsyncIterator[Broker]:
    """A topic with six batches of half a megabyte, none of which is in memory."""
    async with rig(path, hot_bytes=0, fetch_max_bytes=ANSWER_BYTES) as broker:
        await create(broker, "t")
        for _ in range(6):
            await produce_one(broker, "t", batch_of(bytes(BATCH_BYTES)))
        broker.wal.roll()
        await produce_one(broker, "t", batch_of(b"in the segment that is written"))
        yield broker


def all_of_it(broker: Broker) -> FetchFuture:
    request = fetch_request(
        "t", (0, 0), bytes_max=ANSWER_BYTES, partition_bytes_max=ANSWER_BYTES
    )
    return start(fetch, request, broker, 12)


def lengths(response: FetchResponse) -> list[int]:
    return [len(value) for value in values_in(response.responses[0].partitions[0])]


def test_an_answer_is_cut_to_the_memory_that_is_left(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with on_disk(tmp_path) as broker:
            whole = await all_of_it(broker)
            assert lengths(whole)[:6] == [BATCH_BYTES] * 6
            broker.fetched = Budget(5 * BATCH_BYTES)
            broker.fetched.take(2 * BATCH_BYTES)
            waiting = all_of_it(broker)
            response = await waiting
            assert lengths(response) == [BATCH_BYTES] * 2  # the third is a little more
            assert waiting.reservation is not None
            taken = broker.fetched.taken - 2 * BATCH_BYTES
            assert waiting.reservation.bytes == taken > 2 * BATCH_BYTES
            waiting.reservation.release()
            assert broker.fetched.taken == 2 * BATCH_BYTES

    run(scenario)


def test_no_answer_takes_all_the_memory_that_is_left(tmp_path: Path) -> None:
    """Whose link is slow would keep it from others for as long as it takes that."""

    async def scenario() -> None:
        async with on_disk(tmp_path) as broker:
            broker.fetched = Budget(PART_OF_ROOM * 7 * BATCH_BYTES // 2)
            assert lengths(await all_of_it(broker)) == [BATCH_BYTES] * 3

    run(scenario)


def test_a_read_that_the_end_of_the_log_broke_off_is_no_fault_of_the_disk(
    tmp_path: Path,
) -> None:
    def refuse(_spans: object) -> list[bytes]:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    async def scenario() -> None:
        async with on_disk(tmp_path) as broker:
            broker.wal.read = refuse
            logged = []
            for broker.wal.is_closed in (True, False):
                with capture_logs() as logs:
                    response = await all_of_it(broker)
                part = response.responses[0].partitions[0]
                assert part.error_code == ErrorCode.KAFKA_STORAGE_ERROR
                logged.append([one["event"] for one in logs])
            assert logged == [[], ["cannot serve"]]

    run(scenario)


def test_when_not_even_a_small_answer_fits_it_waits_and_holds_nothing(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with on_disk(tmp_path) as broker:
            memory = broker.fetched = Budget(CUT_BYTES_MIN + BATCH_BYTES)
            memory.take(CUT_BYTES_MIN)
            waiting = all_of_it(broker)
            for _ in range(5):
                await asyncio.sleep(0)
            assert memory.is_awaited
            assert (waiting.done(), memory.taken) == (False, CUT_BYTES_MIN)
            memory.give(CUT_BYTES_MIN)
            assert lengths(await waiting) == [BATCH_BYTES] * 2

    run(scenario)


def test_who_waits_for_memory_and_goes_is_waited_for_by_nobody(tmp_path: Path) -> None:
    """Else slow peers would be cut off for the sake of nobody."""

    async def scenario() -> None:
        async with on_disk(tmp_path) as broker:
            memory = broker.fetched = Budget(CUT_BYTES_MIN + BATCH_BYTES)
            memory.take(CUT_BYTES_MIN)
            waiting = all_of_it(broker)
            for _ in range(5):
                await asyncio.sleep(0)
            assert memory.is_awaited
            waiting.abandon()
            assert not memory.is_awaited

    run(scenario)


@pytest.mark.parametrize("parts", [TURN_PLACES, TURN_PLACES + 1])
def test_who_looks_in_turns_for_memory_that_others_took_has_its_own_in_the_end(
    tmp_path: Path, parts: int
) -> None:
    """Twenty others line up again after each answer of theirs."""

    async def scenario() -> None:
        async with rig(tmp_path, hot_bytes=0, fetch_max_bytes=ANSWER_BYTES) as broker:
            await create(broker, "t", partitions=parts)
            await produce_one(broker, "t", batch_of(bytes(BATCH_BYTES)))
            broker.wal.roll()
            await produce_one(broker, "t", batch_of(b"x"))
            memory = broker.fetched = Budget(4 * CUT_BYTES_MIN)
            served = list[object]()

            def ask(other: object) -> None:
                if memory.try_take(CUT_BYTES_MIN, other):
                    served.append(other)
                else:
                    memory.wait(partial(ask, other), CUT_BYTES_MIN, other)

            for _ in range(20):
                ask(object())
            places = ("t", *[(number, 0) for number in range(parts)])
            waiting = start(
                fetch, fetch_request(*places, bytes_max=ANSWER_BYTES), broker, 12
            )
            for _ in range(500):
                for _ in range(5):
                    await asyncio.sleep(0)
                if waiting.done() or memory.taken > len(served) * CUT_BYTES_MIN:
                    break  # it has its own, and reads
                memory.give(CUT_BYTES_MIN)
                ask(served.pop(0))
            else:
                pytest.fail("others have all of it")
            assert lengths(await waiting) == [BATCH_BYTES, 1]

    run(scenario)


@pytest.mark.parametrize("how", ["abandoned", "cancelled", "broken", "answered"])
def test_who_is_first_for_memory_and_ends_lets_the_others_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """However it ends: else no fetch would read from disk any more."""

    async def scenario() -> None:
        async with on_disk(tmp_path) as broker:
            memory = broker.fetched = Budget(CUT_BYTES_MIN + BATCH_BYTES)
            memory.take(CUT_BYTES_MIN)
            waiting = all_of_it(broker)
            for _ in range(PASSED_OVER_MAX + 3):
                memory.forget(memory.wait(lambda: None))
            memory.give(1)  # not enough; but it is first from now on
            assert not memory.try_take(1)
            if how == "abandoned":
                waiting.abandon()
            elif how == "cancelled":
                waiting.cancel()
            elif how == "broken":
                monkeypatch.delattr(Fetch, "_plan")
            memory.give(CUT_BYTES_MIN - 1)
            if how == "answered":
                assert lengths(await waiting) == [BATCH_BYTES] * 2
            elif how == "broken":
                with pytest.raises(AttributeError):
                    await waiting
            assert memory.try_take(1)

    run(scenario)


@pytest.mark.parametrize("is_short", [False, True])
def test_what_rebuilt_batches_keep_in_memory_is_counted(
    tmp_path: Path, is_short: bool
) -> None:
    """All that they share theirs with; when much is taken, they are copied."""

    class Sharing(Tables):
        async def read(
            self, number: int, partition: int, offset: int, bytes_max: int
        ) -> ColdRead:
            cold = await super().read(number, partition, offset, bytes_max)
            (batch,) = cold.batches
            whole = memoryview(bytes(batch) + bytes(BATCH_BYTES))
            return cold._replace(batches=[whole[: len(batch)]])

    async def scenario() -> None:
        tables = Sharing()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"a"))
            tables.compact(broker, partition)
            memory, taken = broker.fetched, 0
            if is_short:
                taken = memory.bytes_max // 2
                memory.take(taken)
            waiting = all_of_it(broker)
            assert lengths(await waiting) == [1]
            if is_short:
                assert 0 < memory.taken - taken < BATCH_BYTES
            else:
                assert memory.taken > BATCH_BYTES
            assert waiting.reservation is not None
            waiting.reservation.release()
            assert memory.taken == taken

    run(scenario)


def test_what_was_read_for_nobody_is_given_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with on_disk(tmp_path) as broker:
            waiting = all_of_it(broker)
            assert broker.fetched.taken > 6 * BATCH_BYTES
            waiting.abandon()
            while broker.fetched.taken:
                await asyncio.sleep(0.001)
            assert waiting.cancelled()

    run(scenario)


def test_a_fault_in_reading_is_told_and_takes_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(_spans: object) -> list[bytes]:
        raise ValueError("a fault")

    async def scenario() -> None:
        async with on_disk(tmp_path) as broker:
            monkeypatch.setattr(broker.wal, "read", faulty)
            with pytest.raises(ValueError, match="a fault"):
                await all_of_it(broker)
            assert broker.fetched.taken == 0

    run(scenario)
