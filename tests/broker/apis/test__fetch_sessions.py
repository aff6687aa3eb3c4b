"""Fetch sessions: changes, errors, waiting, and what becomes of hostile ones."""

import asyncio
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from broker.apis.create_partitions import create_partitions
from broker.apis.delete_topics import delete_topics
from broker.fetching.session import FetchSession, SessionPartition
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from broker.protocol.messages.delete_topics import DeleteTopicsRequest
from broker.protocol.messages.fetch import PartitionData
from broker.records.batch import read_header
from broker.runtime.partitions.reads import TURN_PLACES
from broker.runtime.services import Broker
from tests.support.fetching import BY_ID, BY_NAME, SessionClient, answered
from tests.support.rig import (
    ENDLESS_MS,
    Tables,
    batch_of,
    batches_in,
    call,
    create,
    produce_one,
    rig,
    run,
    values_in,
)
from tests.support.transacting import marker, record

BOTH = pytest.mark.parametrize("version", [BY_NAME, BY_ID])


def resting(broker: Broker) -> int:
    """So many partitions of sessions rest on logs."""
    return sum(len(one.watchers) for one in broker.partitions)


async def delete(broker: Broker, name: str) -> None:
    await call(delete_topics, DeleteTopicsRequest(topic_names=[name]), broker, 5)


@BOTH
def test_an_answer_has_only_what_has_changed(tmp_path: Path, version: int) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t", partitions=3)
            client = SessionClient(broker, "t", version)
            assert list(await client.fetch((0, 0), (1, 0), (2, 0))) == [0, 1, 2]
            assert client.session_id > 0
            assert await client.fetch() == {}
            assert resting(broker) == 3
            await produce_one(broker, "t", batch_of(b"a"), partition=1)
            for _ in range(2):  # it has not gone on
                found = await client.fetch()
                assert list(found) == [1]
                assert values_in(found[1]) == [b"a"]
            assert await client.fetch((1, 1)) == {}
            await produce_one(broker, "t", batch_of(b"b"))
            found = await client.fetch((0, 1))  # its end is new
            assert (list(found), found[0].high_watermark) == ([0], 1)
            assert found[0].records == b""
            await broker.partitions.raise_log_starts({partition: 1})
            found = await client.fetch()
            assert (list(found), found[0].log_start_offset) == ([0], 1)
            assert await client.fetch() == {}

    run(scenario)


@BOTH
def test_partitions_that_are_added_come_and_forgotten_ones_go(
    tmp_path: Path, version: int
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", partitions=3)
            client = SessionClient(broker, "t", version)
            await client.fetch((0, 0))
            await client.fetch((1, 0))
            for index in range(3):
                await produce_one(broker, "t", batch_of(b"x"), partition=index)
            assert list(await client.fetch((2, 0), forgotten=(0, 2))) == [1]
            session_id = client.session_id
            assert await client.fetch(forgotten=(0, 1)) == {}  # nothing is left
            assert client.session_id == 0
            assert len(broker.fetch_sessions.sessions) == resting(broker) == 0
            client.session_id, client.epoch = session_id, 4
            response = await client.ask()
            assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    run(scenario)


def test_partitions_take_turns_when_an_answer_is_small(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", partitions=3)
            for index in range(3):
                await produce_one(broker, "t", batch_of(b"x"), partition=index)
            client = SessionClient(broker, "t")
            await client.fetch((0, 1), (1, 1), (2, 1))
            await client.fetch((0, 0), (1, 0), (2, 0), bytes_max=1)
            served = [list(await client.fetch(bytes_max=1)) for _ in range(4)]
            assert served == [[1], [2], [0], [1]]

    run(scenario)


@BOTH
def test_a_session_is_refused_by_id_epoch_and_kind(
    tmp_path: Path, version: int
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            client = SessionClient(broker, "t", version)
            await client.fetch((0, 0))
            session_id = client.session_id
            other = BY_ID if version == BY_NAME else BY_NAME
            for at, epoch, spoken, code in (
                (session_id + 1, 1, version, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
                (-session_id, 1, version, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
                (0, -2, version, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
                (session_id, -2, version, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
                (session_id, 2, version, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
                (session_id, 1, other, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
            ):
                client.version = spoken
                more = {"session_id": at, "session_epoch": epoch}
                response = await client.ask((0, 0), **more)
                assert response.error_code == code
                assert (response.session_id, response.responses) == (0, [])
            client.version, client.epoch = version, 1
            assert await client.fetch() == {}  # and none of them has hurt it

    run(scenario)


def test_a_full_fetch_closes_the_session_that_it_names(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            client = SessionClient(broker, "t")
            await client.fetch((0, 0))
            await client.fetch()
            first = client.session_id
            await client.fetch((0, 0), session_epoch=0)
            assert client.session_id not in (0, first)
            assert len(broker.fetch_sessions.sessions) == 1
            assert resting(broker) == 0
            response = await client.ask((0, 0), session_epoch=-1)
            assert (response.session_id, len(response.responses)) == (0, 1)
            assert len(broker.fetch_sessions.sessions) == 0

    run(scenario)


def test_who_gets_no_slot_goes_on_without(tmp_path: Path) -> None:
    async def scenario() -> None:
        slots = {"max_incremental_fetch_session_cache_slots": 1}
        async with rig(tmp_path, **slots) as broker:
            await create(broker, "t")
            first, second = SessionClient(broker, "t"), SessionClient(broker, "t")
            await first.fetch((0, 0))
            for _ in range(3):
                assert list(await second.fetch((0, 0))) == [0]
                assert second.session_id == 0
            assert await first.fetch() == {}

    run(scenario)


def test_a_session_that_grows_beyond_the_memory_is_found_no_more(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path, fetch_sessions_bytes_max=4_000) as broker:
            await create(broker, "t", partitions=3)
            client = SessionClient(broker, "t")
            await client.fetch((0, 0), (1, 0))
            await client.fetch()
            response = await client.ask((2, 0))
            assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            assert response.responses == []
            assert broker.fetch_sessions.sessions.bytes == resting(broker) == 0
            client.session_id = client.epoch = 0
            await client.fetch((0, 0), (1, 0), (2, 0))
            assert client.session_id == 0

    run(scenario)


def test_of_a_request_that_is_too_much_for_a_session_little_is_kept(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path, fetch_sessions_bytes_max=40_000) as broker:
            await create(broker, "t", partitions=3)
            client = SessionClient(broker, "t")
            await client.fetch((0, 0))
            kept: list[int] = []
            with pytest.MonkeyPatch.context() as patch:
                update = FetchSession.update

                def counted(session: FetchSession, *more: Any) -> SessionPartition:
                    kept.append(session.weight_bytes)
                    return update(session, *more)

                patch.setattr(FetchSession, "update", counted)
                places = [(index, 0) for index in range(5 * TURN_PLACES)]
                response = await client.ask(*places)
            assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            assert max(kept) <= 40_000
            assert resting(broker) == len(broker.fetch_sessions.sessions) == 0

    run(scenario)


@BOTH
def test_errors_are_answered_each_time_until_they_end(
    tmp_path: Path, version: int
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", partitions=2)
            client = SessionClient(broker, "t", version)
            await client.fetch((0, 9), (1, 0), (3, 0))
            for _ in range(2):
                found = await client.fetch(max_wait_ms=ENDLESS_MS)
                codes = {index: one.error_code for index, one in found.items()}
                assert codes == {
                    0: ErrorCode.OFFSET_OUT_OF_RANGE,
                    3: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                }
            assert broker.counters.fetch_errors == 6
            more = CreatePartitionsRequest([CreatePartitionsTopic("t", 4, None)])
            await call(create_partitions, more, broker)
            found = await client.fetch((0, 0))
            assert {i: one.high_watermark for i, one in found.items()} == {0: 0, 3: 0}
            assert await client.fetch() == {}

    run(scenario)


def test_a_topic_that_is_made_again_is_another_one_by_id(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            named, known = SessionClient(broker, "t"), SessionClient(broker, "t", BY_ID)
            for client in (named, known):
                await client.fetch((0, 0))
                await client.fetch()
            await delete(broker, "t")
            for client in (named, known):
                found = await client.fetch(max_wait_ms=ENDLESS_MS)
                assert found[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"new"))
            assert values_in((await named.fetch())[0]) == [b"new"]
            for _ in range(2):
                found = await known.fetch()
                assert found[0].error_code == ErrorCode.INCONSISTENT_TOPIC_ID
            assert resting(broker) == 0
            response = await known.ask((0, 0), topic_id=b"never was here..")
            codes = [one.partitions[0].error_code for one in response.responses]
            unknown = ErrorCode.UNKNOWN_TOPIC_ID
            assert codes == [ErrorCode.INCONSISTENT_TOPIC_ID, unknown]
            new_id = broker.topics.named("t").id
            response = await known.ask((0, 0), topic_id=new_id)
            found_of = {one.topic_id: one.partitions[0] for one in response.responses}
            assert values_in(found_of[new_id]) == [b"new"]
            assert len(found_of) == 3

    run(scenario)


def test_a_long_poll_of_a_session_is_woken_by_what_rests(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", partitions=3)
            client = SessionClient(broker, "t")
            await client.fetch((0, 0), (1, 0), (2, 0))
            waiting = client.start(max_wait_ms=ENDLESS_MS)  # all are due
            await produce_one(broker, "t", batch_of(b"a"), partition=1)
            assert list(answered(client.heard(await waiting))) == [1]
            await client.fetch((1, 1))
            waiting = client.start(max_wait_ms=ENDLESS_MS)  # all rest
            assert resting(broker) == 3
            assert len(broker.purgatory) == 1
            await produce_one(broker, "t", batch_of(b"b"), partition=2)
            found = answered(client.heard(await waiting))
            assert values_in(found[2]) == [b"b"]
            assert list(found) == [2]

    run(scenario)


def test_a_long_poll_counts_the_bytes_of_all_that_have_woken(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", partitions=3)
            client = SessionClient(broker, "t")
            await client.fetch((0, 0), (1, 0), (2, 0))
            await client.fetch()
            batch = batch_of(b"x" * 100)
            waiting = client.start(max_wait_ms=ENDLESS_MS, min_bytes=4 * len(batch))
            for index in (2, 0, 2, 0):
                assert not waiting.done()
                await produce_one(broker, "t", bytearray(batch), partition=index)
                for _ in range(3):
                    await asyncio.sleep(0)
            found = answered(client.heard(await waiting))
            assert list(found) == [0, 2]  # in the order of the session
            assert [len(values_in(one)) for one in found.values()] == [2, 2]

    run(scenario)


def test_a_long_poll_ends_in_time_with_what_has_changed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t", partitions=2)
            await produce_one(broker, "t", batch_of(b"a"))
            client = SessionClient(broker, "t")
            await client.fetch((0, 1), (1, 0))
            assert await client.fetch(max_wait_ms=1) == {}
            waiting = client.start(max_wait_ms=200)
            await broker.partitions.raise_log_starts({partition: 1})
            found = answered(client.heard(await waiting))
            assert {i: one.log_start_offset for i, one in found.items()} == {0: 1}

    run(scenario)


def test_the_next_fetch_of_a_session_answers_the_one_that_waits(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            client = SessionClient(broker, "t")
            await client.fetch((0, 0))
            await client.fetch()
            session_id = client.session_id
            waiting = client.start(max_wait_ms=ENDLESS_MS)
            assert await client.fetch() == {}
            response = await waiting
            assert response.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
            assert (response.session_id, response.responses) == (session_id, [])
            waiting = client.start(max_wait_ms=ENDLESS_MS)
            await produce_one(broker, "t", batch_of(b"a"))
            found = answered(client.heard(await waiting))
            assert values_in(found[0]) == [b"a"]

    run(scenario)


def test_a_session_that_is_closed_answers_who_waits_in_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            client = SessionClient(broker, "t")
            await client.fetch((0, 0))
            await client.fetch()
            waiting = client.start(max_wait_ms=ENDLESS_MS)
            broker.fetch_sessions.remove(client.session_id)
            response = await waiting
            assert (response.error_code, response.session_id) == (0, 0)
            assert len(broker.purgatory) == resting(broker) == 0

    run(scenario)


def test_a_fetch_whose_connection_is_lost_loses_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", partitions=2)
            client = SessionClient(broker, "t")
            await client.fetch((0, 0), (1, 0))
            await client.fetch()
            waiting = client.start(max_wait_ms=ENDLESS_MS, min_bytes=9_999)
            await produce_one(broker, "t", batch_of(b"a"))
            waiting.abandon()
            assert len(broker.purgatory) == 0
            await produce_one(broker, "t", batch_of(b"b"), partition=1)
            found = await client.fetch()
            assert [values_in(one) for one in found.values()] == [[b"a"], [b"b"]]

    run(scenario)


def test_a_session_reads_on_across_table_and_segments(tmp_path: Path) -> None:
    async def scenario() -> None:
        tables = Tables()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t", partitions=2)
            client = SessionClient(broker, "t")
            await client.fetch((0, 0), (1, 0))
            await client.fetch()
            await produce_one(broker, "t", batch_of(b"a"))
            tables.compact(broker, partition)
            await produce_one(broker, "t", batch_of(b"b"))
            assert values_in((await client.fetch())[0]) == [b"a"]
            assert values_in((await client.fetch((0, 1)))[0]) == [b"b"]
            assert await client.fetch((0, 2)) == {}
            tables.compact(broker, partition)
            assert await client.fetch() == {}

    run(scenario)


def test_who_changes_the_isolation_level_misses_nothing(tmp_path: Path) -> None:
    """Behind the last stable offset is something for one level, not for the other."""

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            await record(partition, 1)
            client = SessionClient(broker, "t")
            for _ in range(2):
                found = await client.fetch((0, 0), isolation_level=1)
                assert not any(one.records for one in found.values())
            found = await client.fetch(isolation_level=0)
            assert len(batches_in(found[0])) == 1
            waiting = client.start(isolation_level=1, max_wait_ms=ENDLESS_MS)
            await marker(partition, 1, commit=False)
            found = answered(client.heard(await waiting))
            assert len(batches_in(found[0])) == 2
            aborted = found[0].aborted_transactions
            assert [one.producer_id for one in aborted or ()] == [1]
            assert await client.fetch((0, 2), isolation_level=1) == {}
            assert resting(broker) == 1

    run(scenario)


def test_a_place_above_the_durable_end_does_not_rest(tmp_path: Path) -> None:
    """A batch may be refused, and the place is out of range then."""

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            offsets = partition.log.offsets
            offsets.move(next_offset=3)
            client = SessionClient(broker, "t")
            await client.fetch((0, 2))
            assert await client.fetch() == {}
            offsets.move(next_offset=0)
            found = await client.fetch()
            assert found[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    run(scenario)


@BOTH
def test_a_session_of_thousands_is_served_in_turns(
    tmp_path: Path, version: int
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            count = 5 * TURN_PLACES
            await create(broker, "t", partitions=count)
            client = SessionClient(broker, "t", version)
            everything = [(index, 0) for index in range(count)]
            assert len(await client.fetch(*everything)) == count
            assert await client.fetch() == {}
            assert resting(broker) == count
            for _ in range(2):  # a record more each time, and it is named again
                waiting = client.start(*everything, max_wait_ms=ENDLESS_MS)
                for _ in range(3):
                    await asyncio.sleep(0)
                await produce_one(broker, "t", batch_of(b"x"), partition=count - 1)
                found = answered(client.heard(await waiting))
                assert list(found) == [count - 1]
            left = tuple(range(count - 1))
            assert list(await client.fetch(forgotten=left)) == [count - 1]
            assert resting(broker) == 0
            await client.fetch((0, 0), session_epoch=-1)
            assert len(broker.fetch_sessions.sessions) == 0

    run(scenario)


def test_a_large_session_that_is_closed_rests_no_more_after_some_turns(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            count = 3 * TURN_PLACES
            await create(broker, "t", partitions=count)
            client = SessionClient(broker, "t")
            await client.fetch(*[(index, 0) for index in range(count)])
            await client.fetch()
            broker.fetch_sessions.remove(client.session_id)
            assert 0 < resting(broker) < count
            for _ in range(5):
                await asyncio.sleep(0)
            assert resting(broker) == 0

    run(scenario)


class Reader:
    """A client of a session, and one without who is asked the same beside it."""

    def __init__(self, broker: Broker, version: int, isolation: int) -> None:
        self.client = SessionClient(broker, "t", version)
        self.beside = SessionClient(broker, "t", version)
        self.isolation = isolation
        self.offsets = dict.fromkeys(range(WIDE), 0)
        self.asked: dict[int, int] = {}
        self.known: dict[int, tuple[int, int, int]] = {}

    async def look(self, chance: Random) -> None:
        """What is not answered is as it was, and has nothing to be read."""
        changed = {
            index: offset
            for index, offset in self.offsets.items()
            if self.asked.get(index) != offset and chance.random() < 0.7
        }
        self.asked |= changed
        # A cold partition takes all that it may have from those behind it.
        more = {"isolation_level": self.isolation, "partition_bytes_max": 4_096}
        found = await self.client.fetch(*changed.items(), **more)
        full = {"session_id": 0, "session_epoch": -1} | more
        truth = await self.beside.fetch(*self.asked.items(), **full)
        assert found.keys() <= truth.keys()
        for index, data in truth.items():
            if index in found:
                assert found[index] == data
                self.known[index] = essence(data)
            else:
                assert not data.records
                assert self.known[index] == essence(data)
            self.go_on(index, data)

    def go_on(self, index: int, data: PartitionData) -> None:
        batches = batches_in(data)
        if batches:
            self.offsets[index] = read_header(batches[-1]).last_offset + 1
        elif data.error_code:
            self.known[index] = (0, -1, -1)  # it is answered again
            partition = self.client.broker.partitions.named("t", index)
            self.offsets[index] = partition.log_start


def essence(data: PartitionData) -> tuple[int, int, int]:
    return data.error_code, data.high_watermark, data.log_start_offset


WIDE = 12


@pytest.mark.parametrize("seed", range(6))
def test_a_session_misses_nothing_that_a_fetch_without_one_is_given(
    tmp_path: Path, seed: int
) -> None:
    async def scenario() -> None:
        chance, tables = Random(seed), Tables()
        async with rig(tmp_path, tables=tables) as broker:
            await create(broker, "t", partitions=WIDE)
            readers = [
                Reader(broker, version, isolation)
                for version in (BY_NAME, BY_ID)
                for isolation in (0, 1)
            ]
            open_in: dict[int, int] = {}
            producers = count(1)
            for _ in range(150):
                index = chance.randrange(WIDE)
                partition = broker.partitions.named("t", index)
                match chance.choice(("append", "begin", "end", "trim", "compact", "")):
                    case "append":
                        await produce_one(broker, "t", batch_of(b"x"), partition=index)
                    case "begin" if index not in open_in:
                        open_in[index] = next(producers)
                        await record(partition, open_in[index])
                    case "end" if index in open_in:
                        commit = chance.random() < 0.5
                        await marker(partition, open_in.pop(index), commit)
                    case "trim":
                        end = partition.log.offsets.stable
                        start = chance.randint(partition.log_start, end)
                        await broker.partitions.raise_log_starts({partition: start})
                    case "compact" if index not in open_in:
                        tables.compact(broker, partition)
                await chance.choice(readers).look(chance)
            for reader in readers:
                for _ in range(3):
                    await reader.look(chance)

    run(scenario)
