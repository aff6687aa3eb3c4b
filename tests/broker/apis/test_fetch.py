"""Fetch: limits, waiting, errors, and reading across memory, segments and tables."""

import asyncio
from pathlib import Path

import pytest

from broker.apis.delete_topics import delete_topics
from broker.apis.fetch import fetch
from broker.apis.produce import produce
from broker.lake.cold import ColdRead
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.protocol.messages.fetch import FetchRequest, PartitionData, ReplicaState
from broker.records.batch import read_header
from broker.runtime.partitions.reads import BATCHES_MAX, TURN_PLACES
from broker.runtime.services import Broker
from tests.support.batches import patch
from tests.support.fetching import SessionClient
from tests.support.files import ForgetfulFiles
from tests.support.rig import (
    ENDLESS_MS,
    Tables,
    batch_of,
    batches_in,
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


async def fill(broker: Broker, name: str, count: int, size: int = 100) -> None:
    """``count`` batches of one record each, in one go."""
    asked = [
        start(
            produce,
            produce_request(name, (0, batch_of(b"%06d" % i + b"." * size))),
            broker,
            9,
        )
        for i in range(count)
    ]
    await asyncio.gather(*asked)


def offsets_of(data: PartitionData) -> list[int]:
    """High watermark, last stable offset and log start."""
    return [data.high_watermark, data.last_stable_offset, data.log_start_offset]


def numbers(values: list[bytes | None]) -> list[int]:
    return [int(value[:6]) for value in values if value is not None]


def test_a_fetch_inside_a_batch_returns_the_whole_batch(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"a", b"b", b"c"))
            data = await fetch_one(broker, "t", 2)
            assert values_in(data) == [b"a", b"b", b"c"]

    run(scenario)


def test_at_the_end_there_is_nothing_and_no_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"a"))
            data = await fetch_one(broker, "t", 1)
            assert (data.error_code, data.records) == (0, b"")
            assert data.high_watermark == 1

    run(scenario)


@pytest.mark.parametrize("offset", [-1, 3, 1 << 40])
def test_offsets_outside_the_log_are_out_of_range(tmp_path: Path, offset: int) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"a", b"b"))
            data = await fetch_one(broker, "t", offset, max_wait_ms=5_000)
            assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert offsets_of(data) == [-1, -1, -1]

    run(scenario)


def test_unknown_partitions_and_ids_are_told_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            data = await fetch_one(broker, "nowhere", 0, max_wait_ms=5_000)
            assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert data.records == b""
            assert offsets_of(data) == [-1, -1, -1]
            data = await fetch_one(broker, "t", 0, version=13, max_wait_ms=5_000)
            assert data.error_code == ErrorCode.UNKNOWN_TOPIC_ID
            request = fetch_request("t", (3, 0), max_wait_ms=5_000)
            response = await call(fetch, request, broker, 12)
            code = response.responses[0].partitions[0].error_code
            assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert broker.counters.fetch_errors == 3

    run(scenario)


def test_topics_are_fetched_by_id_from_version_13(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"a"))
            topic = broker.topics.get("t")
            assert topic is not None
            request = fetch_request("", (0, 0))
            request.topics[0].topic_id = topic.id
            response = await call(fetch, request, broker, 18)
            assert response.responses[0].topic_id == topic.id
            assert values_in(response.responses[0].partitions[0]) == [b"a"]

    run(scenario)


def test_leader_epochs_fence(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            for epoch, code in ((-1, 0), (0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)):
                request = fetch_request("t", (0, 0))
                request.topics[0].partitions[0].current_leader_epoch = epoch
                response = await call(fetch, request, broker, 12)
                assert response.responses[0].partitions[0].error_code == code

    run(scenario)


def test_an_epoch_that_never_was_cannot_have_been_fetched(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            for epoch, code in ((-1, 0), (0, 0), (1, ErrorCode.OFFSET_OUT_OF_RANGE)):
                request = fetch_request("t", (0, 0))
                request.topics[0].partitions[0].last_fetched_epoch = epoch
                response = await call(fetch, request, broker, 12)
                assert response.responses[0].partitions[0].error_code == code

    run(scenario)


@pytest.mark.parametrize("version", [3, 12, 13])
def test_a_partition_that_is_named_twice_is_fetched_once_as_it_was_named_last(
    tmp_path: Path, version: int
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", 2)
            topic_id = broker.topics.named("t").id
            for value in (b"a", b"b"):
                await produce_one(broker, "t", batch_of(value))
            places = [[(0, 9), (1, 0)], [], [(0, 1)], [(1, 0)]]
            topics = [fetch_request("t", *some).topics[0] for some in places]
            for topic in topics:
                topic.topic_id = topic_id
            request = fetch_request("t")
            request.topics = topics
            response = await call(fetch, request, broker, version)
            (told,) = response.responses
            assert [one.partition_index for one in told.partitions] == [0, 1]
            assert [one.error_code for one in told.partitions] == [0, 0]
            records = told.partitions[0].records
            if version > 3:
                assert values_in(told.partitions[0]) == [b"b"]
            assert records

    run(scenario)


def test_many_names_of_one_partition_are_looked_at_in_turns(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            places = [(0, 0)] * (3 * TURN_PLACES)
            request = fetch_request("t", *places, max_wait_ms=60_000)
            waiting = start(fetch, request, broker, 12)
            await asyncio.sleep(0)
            await produce_one(broker, "t", batch_of(b"a"))
            (topic,) = (await waiting).responses
            assert [values_in(one) for one in topic.partitions] == [[b"a"]]

    run(scenario)


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (0, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
@pytest.mark.parametrize("version", [4, 12, 17])
def test_a_replica_is_refused(
    tmp_path: Path, version: int, epoch: int, code: ErrorCode
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"a"))
            for replica_id, expected in ((5, code), (-2, ErrorCode.NONE)):
                request = fetch_request("t", (0, 0), replica_id=replica_id)
                request.replica_state = ReplicaState(replica_id)
                request.topics[0].topic_id = broker.topics.named("t").id
                request.topics[0].partitions[0].current_leader_epoch = epoch
                response = await call(fetch, request, broker, version)
                (data,) = response.responses[0].partitions
                assert data.error_code == expected
                assert bool(data.records) is (replica_id < 0)

    run(scenario)


def test_a_session_is_given_out_to_who_wants_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            for epoch in (0, -1):
                request = fetch_request("t", (0, 0), session_epoch=epoch)
                response = await call(fetch, request, broker, 12)
                assert response.error_code == 0
                assert (response.session_id > 0) is (epoch == 0)
                assert response.responses
            assert len(broker.fetch_sessions.sessions) == 1
            request = fetch_request("t", (0, 0), session_id=5, session_epoch=3)
            response = await call(fetch, request, broker, 12)
            assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            assert response.responses == []

    run(scenario)


def test_who_does_not_ask_for_aborted_transactions_gets_null(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            assert (await fetch_one(broker, "t", 0)).aborted_transactions is None
            data = await fetch_one(broker, "t", 0, isolation_level=1)
            assert data.aborted_transactions == []
            response = await call(fetch, fetch_request("nowhere", (0, 0)), broker, 12)
            (data,) = response.responses[0].partitions
            assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert data.aborted_transactions == []  # as Kafka's

    run(scenario)


def test_an_error_of_a_partition_that_is_here_names_no_aborted_transactions(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            for level in (0, 1):
                data = await fetch_one(broker, "t", 5, isolation_level=level)
                assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
                assert data.aborted_transactions is None  # as Kafka's

    run(scenario)


def test_the_first_batch_is_given_however_small_the_limits(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", partitions=3)
            for partition in range(3):
                for _ in range(2):
                    records = batch_of(b"x" * 500)
                    await produce_one(broker, "t", records, partition=partition)
            request = fetch_request(
                "t", (0, 2), (1, 0), (2, 0), bytes_max=10, partition_bytes_max=10
            )
            response = await call(fetch, request, broker, 12)
            counts = [len(batches_in(p)) for p in response.responses[0].partitions]
            assert counts == [0, 1, 0]

    run(scenario)


def test_limits_hold_over_all_partitions(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", partitions=3)
            size = len(batch_of(b"x" * 500))
            for partition in range(3):
                for _ in range(4):
                    records = batch_of(b"x" * 500)
                    await produce_one(broker, "t", records, partition=partition)
            request = fetch_request(
                "t", (0, 0), (1, 0), (2, 0),
                bytes_max=5 * size + 1, partition_bytes_max=3 * size + 1,
            )  # fmt: skip
            response = await call(fetch, request, broker, 12)
            counts = [len(batches_in(p)) for p in response.responses[0].partitions]
            assert counts == [3, 2, 0]

    run(scenario)


def test_small_batches_are_sent_in_one_piece_and_large_ones_uncopied(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "small")
            await create(broker, "large")
            for _ in range(3):
                await produce_one(broker, "small", batch_of(b"x"))
                await produce_one(broker, "large", batch_of(b"x" * 10_000))
            small = (await fetch_one(broker, "small", 0)).records
            large = (await fetch_one(broker, "large", 0)).records
            assert isinstance(small, list)
            assert [type(part) for part in small] == [bytes]
            assert isinstance(large, list)
            assert [type(part) for part in large] == [memoryview] * 3

    run(scenario)


def test_a_long_poll_is_answered_by_an_append(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            request = fetch_request("t", (0, 0), max_wait_ms=ENDLESS_MS)
            waiting = start(fetch, request, broker, 12)
            await asyncio.sleep(0.02)
            assert not waiting.done()
            await produce_one(broker, "t", batch_of(b"a"))
            response = await waiting
            assert values_in(response.responses[0].partitions[0]) == [b"a"]
            assert len(broker.purgatory) == 0

    run(scenario)


@pytest.mark.parametrize("level", [0, 1])
def test_a_long_poll_is_not_woken_by_what_is_not_durable(
    tmp_path: Path, level: int
) -> None:
    async def scenario() -> None:
        files = ForgetfulFiles()
        async with rig(tmp_path, files=files) as broker:
            partition = await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"before"))
            request = fetch_request(
                "t", (0, 1), max_wait_ms=ENDLESS_MS, isolation_level=level
            )
            waiting = start(fetch, request, broker, 12)
            held = files.hold("fdatasync")
            try:
                asked = produce_request("t", (0, batch_of(b"a")))
                written = start(produce, asked, broker, 9)
                await asyncio.sleep(0.05)
                assert (partition.log.next, partition.high_watermark) == (2, 1)
                assert not waiting.done()
            finally:
                held.set()
            (data,) = (await waiting).responses[0].partitions
            assert (values_in(data), data.high_watermark) == ([b"a"], 2)
            await written

    run(scenario)


def test_a_long_poll_is_woken_only_when_min_bytes_are_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", partitions=2)
            size = len(batch_of(b"x"))
            await produce_one(broker, "t", batch_of(b"x"))
            request = fetch_request(
                "t", (0, 0), (1, 0), max_wait_ms=ENDLESS_MS, min_bytes=3 * size
            )
            waiting = start(fetch, request, broker, 12)
            await produce_one(broker, "t", batch_of(b"x"))
            await asyncio.sleep(0.01)
            assert not waiting.done()
            await produce_one(broker, "t", batch_of(b"x"), partition=1)
            response = await waiting
            counts = [len(batches_in(p)) for p in response.responses[0].partitions]
            assert counts == [2, 1]

    run(scenario)


def test_min_bytes_is_no_more_than_max_bytes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"x"))
            data = await fetch_one(
                broker, "t", 0, max_wait_ms=ENDLESS_MS, min_bytes=1 << 20, bytes_max=10
            )
            assert values_in(data) == [b"x"]

    run(scenario)


def test_a_long_poll_ends_in_time_with_what_there_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"a"))
            data = await fetch_one(broker, "t", 0, max_wait_ms=30, min_bytes=10_000)
            assert values_in(data) == [b"a"]
            data = await fetch_one(broker, "t", 1, max_wait_ms=30)
            assert data.records == b""

    run(scenario)


def test_a_fetch_without_partitions_is_answered_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            request = FetchRequest(max_wait_ms=ENDLESS_MS, min_bytes=1)
            assert (await call(fetch, request, broker, 12)).responses == []

    run(scenario)


def test_who_wants_no_bytes_does_not_wait_for_any(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            request = fetch_request("t", (0, 0), max_wait_ms=ENDLESS_MS, min_bytes=0)
            async with asyncio.timeout(60):
                [topic] = (await call(fetch, request, broker, 12)).responses
            assert topic.partitions[0].error_code == 0

    run(scenario)


@pytest.mark.parametrize("version", [12, 13])
def test_deleting_a_topic_answers_who_waits_for_it(
    tmp_path: Path, version: int
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            topic = broker.topics.get("t")
            assert topic is not None
            request = fetch_request("t", (0, 0), max_wait_ms=ENDLESS_MS)
            request.topics[0].topic_id = topic.id
            waiting = start(fetch, request, broker, version)
            gone = DeleteTopicsRequest([DeleteTopicState("t")])
            await call(delete_topics, gone, broker)
            response = await waiting
            code = response.responses[0].partitions[0].error_code
            assert code == (
                ErrorCode.UNKNOWN_TOPIC_ID
                if version == 13
                else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )

    run(scenario)


def test_what_is_not_in_memory_is_read_from_segments(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path, hot_bytes=0) as broker:
            await create(broker, "t")
            await fill(broker, "t", 3000, size=900)  # several segments of a megabyte
            offset, seen = 0, []
            while offset < 3000:
                data = await fetch_one(broker, "t", offset)
                fetched = numbers(values_in(data))
                assert fetched, "a fetch below the high watermark never stalls"
                seen += fetched
                offset = fetched[-1] + 1
            assert seen == list(range(3000))

    run(scenario)


def test_a_consumer_crosses_from_table_to_segments(tmp_path: Path) -> None:
    async def scenario() -> None:
        tables = Tables()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            await fill(broker, "t", 500)
            tables.compact(broker, partition)
            await fill(broker, "t", 500)
            offset, seen = 0, []
            while offset < 1000:
                data = await fetch_one(broker, "t", offset, max_wait_ms=5_000)
                fetched = values_in(data)
                assert fetched
                seen += numbers(fetched)
                offset = read_header(batches_in(data)[-1]).last_offset + 1
            assert seen == [*range(500), *range(500)]
            assert tables.reads

    run(scenario)


def test_a_crowd_of_tiny_batches_is_given_in_several_answers(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await fill(broker, "t", 2000, size=1)
            first = numbers(values_in(await fetch_one(broker, "t", 0)))
            assert first == list(range(BATCHES_MAX))
            rest = numbers(values_in(await fetch_one(broker, "t", BATCHES_MAX)))
            assert first + rest == list(range(2000))

    run(scenario)


def test_cold_reads_keep_the_limits_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        tables = Tables()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            await fill(broker, "t", 20, size=20_000)
            tables.compact(broker, partition)
            data = await fetch_one(broker, "t", 3, partition_bytes_max=50_000)
            assert numbers(values_in(data)) == [3, 4]
            data = await fetch_one(broker, "t", 3, bytes_max=1)
            assert numbers(values_in(data)) == [3]

    run(scenario)


def test_a_gap_at_the_end_lets_the_position_reach_the_high_watermark(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        tables = Tables()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            await fill(broker, "t", 10)
            tables.compact(broker, partition)
            del tables.batches[partition.key][5:]  # its owner deleted rows
            offset = 0
            for _ in range(10):
                data = await fetch_one(broker, "t", offset, max_wait_ms=5_000)
                offset = read_header(batches_in(data)[-1]).last_offset + 1
                if offset == 10:
                    break
            assert offset == 10

    run(scenario)


def test_a_refused_batch_leaves_a_gap_that_consumers_pass(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            unsound = patch(patch(batch_of(b"a"), ">i", 57, 3), ">i", 23, 2)
            asked = [
                start(produce, produce_request("t", (0, records)), broker, 9)
                for records in (batch_of(b"a"), unsound, batch_of(b"z"))
            ]
            await asyncio.gather(*asked)
            assert partition.high_watermark == 5
            data = await fetch_one(broker, "t", 1)
            assert values_in(data) == [b"z"]
            assert read_header(batches_in(data)[-1]).last_offset == 4

    run(scenario)


def test_a_table_that_cannot_be_read_is_an_error_of_its_partition(
    tmp_path: Path,
) -> None:
    class Broken(Tables):
        async def read(self, *_: int) -> None:
            raise OSError("gone")

    async def scenario() -> None:
        tables = Broken()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t", partitions=2)
            await fill(broker, "t", 3)
            await produce_one(broker, "t", batch_of(b"fine"), partition=1)
            tables.compact(broker, partition)
            for version, code in (
                (12, ErrorCode.KAFKA_STORAGE_ERROR),
                (5, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            ):
                request = fetch_request("t", (0, 0), (1, 0), bytes_max=4 << 20)
                response = await call(fetch, request, broker, version)
                broken, fine = response.responses[0].partitions
                assert (broken.error_code, broken.records) == (code, b"")
                assert values_in(fine) == [b"fine"]

    run(scenario)


class Lost(Tables):
    """Of the first partition, whose file is gone, nothing can be read."""

    async def read(
        self, number: int, partition: int, offset: int, bytes_max: int
    ) -> ColdRead:
        if partition == 0:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "gone")
        return await super().read(number, partition, offset, bytes_max)


@pytest.mark.parametrize("is_cold", [True, False])
def test_a_table_that_cannot_be_read_takes_nobodys_place_in_an_answer(
    tmp_path: Path, *, is_cold: bool
) -> None:
    """Who follows others beside it gets their records, however small his answers."""

    async def scenario() -> None:
        tables = Lost()
        async with rig(tmp_path, tables=tables) as broker:
            lost = await create(broker, "t", partitions=3)
            fine = broker.partitions.named("t", 1)
            await produce_one(broker, "t", batch_of(b"lost"))
            for value in (b"a", b"b"):
                await produce_one(broker, "t", batch_of(value), partition=1)
            tables.compact(broker, lost)
            if is_cold:
                tables.compact(broker, fine)
            request = fetch_request("t", (0, 0), (2, 0), (1, 0))
            response = await call(fetch, request, broker, 12)
            one, empty, other = response.responses[0].partitions
            assert one.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert values_in(empty) == []
            assert values_in(other) == [b"a", b"b"]
            client = SessionClient(broker, "t")
            found = await client.fetch((0, 0), (2, 0), (1, 0))
            assert values_in(found[1]) == [b"a", b"b"]
            found = await client.fetch((1, 1))
            assert values_in(found[1])[-1] == b"b"

    run(scenario)
