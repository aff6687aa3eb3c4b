"""Produce: what is taken, what is refused and with which code."""

import asyncio
import gc
from pathlib import Path

import pytest

from broker.apis.fetch import fetch
from broker.apis.produce import produce
from broker.protocol.errors import ErrorCode, ProtocolError
from broker.protocol.messages.produce import ProduceRequest, TopicProduceData
from broker.records.limits import RECORD_ERROR_BYTES, RECORD_ERRORS_MAX
from tests.support.batches import Record, make_batch, patch, wrap
from tests.support.rig import (
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
from tests.support.serving import on_loop, serving, until
from tests.support.wire import Wire, frame_of

T = 1_700_000_000_000


def test_a_batch_is_answered_with_its_offset_and_can_be_fetched(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            first = await produce_one(broker, "t", batch_of(b"a", b"b"))
            second = await produce_one(broker, "t", batch_of(b"c"))
            assert (first.error_code, first.base_offset) == (0, 0)
            assert (second.base_offset, second.log_start_offset) == (2, 0)
            assert second.log_append_time_ms == -1
            data = await fetch_one(broker, "t", 0)
            assert values_in(data) == [b"a", b"b", b"c"]
            assert data.high_watermark == data.last_stable_offset == 3

    run(scenario)


def test_offsets_are_given_in_the_order_of_arrival(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            futures = [
                start(
                    produce, produce_request("t", (0, batch_of(b"%d" % i))), broker, 9
                )
                for i in range(50)
            ]
            answers = await asyncio.gather(*futures)
            offsets = [
                answer.responses[0].partition_responses[0].base_offset
                for answer in answers
            ]
            assert offsets == list(range(50))

    run(scenario)


def test_acks_0_is_never_answered(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            request = produce_request("t", (0, batch_of(b"a")), acks=0)
            assert await call(produce, request, broker, 9) is None
            assert values_in(await fetch_one(broker, "t", 0)) == [b"a"]

    run(scenario)


def test_acks_0_closes_the_connection_when_it_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            with pytest.raises(ProtocolError):
                await call(produce, produce_request("no", (0, b""), acks=0), broker, 9)
            unsound = patch(batch_of(b"a", b"b"), ">i", 57, 1)  # one record is said
            unsound = patch(unsound, ">i", 23, 0)
            request = produce_request("t", (0, unsound), acks=0)
            with pytest.raises(ProtocolError):
                await call(produce, request, broker, 9)

    run(scenario)


@pytest.mark.parametrize("acks", [2, -2, 99])
def test_other_acks_are_refused(tmp_path: Path, acks: int) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            request = produce_request("t", (0, batch_of(b"a")), acks=acks)
            response = await call(produce, request, broker, 9)
            answer = response.responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS
            assert partition.log.next == 0

    run(scenario)


def test_unknown_partitions_are_refused_for_themselves(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            request = produce_request(
                "t", (0, batch_of(b"a")), (5, batch_of(b"b")), (-1, batch_of(b"c"))
            )
            response = await call(produce, request, broker, 9)
            codes = [
                answer.error_code
                for answer in response.responses[0].partition_responses
            ]
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert codes == [0, unknown, unknown]
            answer = await produce_one(broker, "nowhere", batch_of(b"a"))
            assert answer.error_code == unknown
            assert answer.base_offset == -1
            assert broker.topics.get("nowhere") is None
            assert broker.counters.produce_errors == 3

    run(scenario)


def test_topics_are_found_by_id_from_version_13(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            topic = broker.topics.get("t")
            assert topic is not None
            request = produce_request("", (0, batch_of(b"a")), topic_id=topic.id)
            response = await call(produce, request, broker, 13)
            assert response.responses[0].topic_id == topic.id
            assert response.responses[0].partition_responses[0].error_code == 0
            request = produce_request("t", (0, batch_of(b"a")), topic_id=b"x" * 16)
            response = await call(produce, request, broker, 13)
            answer = response.responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_ID

    run(scenario)


def test_bad_batches_are_refused_and_change_nothing(tmp_path: Path) -> None:
    sound = batch_of(b"a", b"b")
    corrupt = bytearray(sound)
    corrupt[-1] ^= 1
    old = bytearray(sound)
    old[16] = 1
    cases = {
        "corrupt": (corrupt, ErrorCode.CORRUPT_MESSAGE),
        "cut": (sound[:-1], ErrorCode.INVALID_RECORD),
        "two": (sound + sound, ErrorCode.INVALID_RECORD),
        "old magic": (old, ErrorCode.INVALID_RECORD),
        "null": (None, ErrorCode.INVALID_RECORD),
        "empty": (b"", ErrorCode.INVALID_RECORD),
        "control": (patch(sound, ">h", 21, 0x20), ErrorCode.INVALID_RECORD),
        "count": (patch(sound, ">i", 57, 3), ErrorCode.INVALID_RECORD),
        "inside": (
            patch(patch(sound, ">i", 57, 3), ">i", 23, 2),
            ErrorCode.INVALID_RECORD,
        ),
    }

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            for name, (records, code) in cases.items():
                answer = await produce_one(broker, "t", records)
                assert (name, answer.error_code) == (name, code)
                assert answer.base_offset == -1
                assert answer.error_message
            assert partition.high_watermark == 0
            assert (await produce_one(broker, "t", batch_of(b"z"))).base_offset == 0

    run(scenario)


def test_a_batch_above_max_message_bytes_is_too_large(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path, message_max_bytes=500) as broker:
            await create(broker, "by_broker")
            await create(broker, "own", max_message_bytes="2000")
            large = batch_of(b"x" * 1000)
            answer = await produce_one(broker, "by_broker", large)
            assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
            assert (await produce_one(broker, "own", large)).error_code == 0

    run(scenario)


def test_zstd_needs_version_7(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            answer = await produce_one(broker, "t", batch_of(b"a", codec=4), version=6)
            assert answer.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
            answer = await produce_one(broker, "t", batch_of(b"a", codec=4), version=7)
            assert answer.error_code == 0

    run(scenario)


def test_log_append_time_is_stamped_and_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", message_timestamp_type="LogAppendTime")
            records = make_batch([Record(timestamp=5), Record(timestamp=9)])
            answer = await produce_one(broker, "t", records)
            now_ms = broker.clock.now_ms()
            assert answer.log_append_time_ms == now_ms
            (batch,) = batches_in(await fetch_one(broker, "t", 0))
            times = [record.timestamp for record in _records(batch)]
            assert times == [now_ms, now_ms]

    run(scenario)


def _records(batch: bytes) -> list[Record]:
    from broker.records.batch import checksum, read_header
    from tests.support.batches import read_batch

    assert checksum(batch) == read_header(batch).crc
    return read_batch(batch)


def test_times_too_far_from_now_are_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", message_timestamp_before_max_ms="1000")
            now_ms = broker.clock.now_ms()
            for timestamp in (now_ms + 3_700_000, now_ms - 2_000):
                both = [Record(timestamp=now_ms), Record(timestamp=timestamp)]
                answer = await produce_one(broker, "t", make_batch(both))
                assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
                assert [one.batch_index for one in answer.record_errors] == [1]
            answer = await produce_one(broker, "t", make_batch([Record(timestamp=-1)]))
            assert answer.error_code == 0

    run(scenario)


def test_a_compacted_topic_takes_no_record_without_key(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", cleanup_policy="compact")
            records = [Record(key=b"k"), Record(key=None), Record(key=None)]
            answer = await produce_one(broker, "t", make_batch(records))
            assert answer.error_code == ErrorCode.INVALID_RECORD
            assert [one.batch_index for one in answer.record_errors] == [1, 2]
            assert (answer.base_offset, answer.log_start_offset) == (-1, 0)
            assert all(
                "without key" in str(one.batch_index_error_message)
                for one in answer.record_errors
            )
            answer = await produce_one(broker, "t", make_batch([Record(key=b"k")]))
            assert answer.error_code == 0

    run(scenario)


def test_an_answer_names_no_more_records_than_one_batch_may_have(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", cleanup_policy="compact")
            value = b"x" * RECORD_ERROR_BYTES
            batch = make_batch([Record(None, value)] * RECORD_ERRORS_MAX)
            request = produce_request("t", (0, batch), (0, bytearray(batch)))
            response = await call(produce, request, broker, 9)
            first, second = response.responses[0].partition_responses
            assert len(first.record_errors) == RECORD_ERRORS_MAX
            assert second.error_code == ErrorCode.INVALID_RECORD
            assert second.record_errors == []

    run(scenario)


def test_a_refusal_tells_where_the_log_begins_as_kafka_does(tmp_path: Path) -> None:
    """If a log looked at the records; not of what is no batch that it could take."""
    refused: dict[str, tuple[bytes | bytearray | None, int]] = {
        "no batch": (b"", -1),
        "two batches": (batch_of(b"a") + batch_of(b"b"), -1),
        "an old batch": (patch(batch_of(b"a"), ">b", 16, 1), -1),
        "damage": (batch_of(b"a")[:-1] + b"x", -1),
        "no records": (wrap(b"", 0), 2),
        "a wrong count": (wrap(b"", 3, 2), 2),
        "control": (make_batch([Record()], attributes=0x20), 2),
        "a gap": (batch_of(b"a", producer=(7, 0, 5)), 2),
    }

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"1", b"2", producer=(7, 0, 0)))
            await broker.partitions.raise_log_starts({partition: 2})
            for name, (records, log_start) in refused.items():
                answer = await produce_one(broker, "t", records)
                assert answer.error_code != 0, name
                assert answer.log_start_offset == log_start, name

    run(scenario)


def test_a_partition_that_is_named_twice_takes_and_answers_both(tmp_path: Path) -> None:
    """Kafka keeps the last batch alone and says nothing of those before it."""

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", partitions=2)
            request = produce_request(
                "t", (0, batch_of(b"a")), (1, batch_of(b"b")), (0, batch_of(b"c"))
            )
            response = await call(produce, request, broker, 9)
            (topic,) = response.responses
            assert [
                (one.index, one.error_code, one.base_offset)
                for one in topic.partition_responses
            ] == [(0, 0, 0), (1, 0, 0), (0, 0, 1)]
            assert values_in(await fetch_one(broker, "t", 0)) == [b"a", b"c"]

    run(scenario)


def test_a_topic_without_partitions_is_not_in_the_answer(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            request = produce_request("t", (0, batch_of(b"a")))
            request.topic_data.insert(0, TopicProduceData("t"))
            request.topic_data.append(TopicProduceData("nowhere"))
            response = await call(produce, request, broker, 9)
            assert [topic.name for topic in response.responses] == ["t"]
            assert response.responses[0].partition_responses[0].error_code == 0

    run(scenario)


def test_a_retry_is_answered_with_the_original_offset(tmp_path: Path) -> None:
    def numbered(sequence: int, epoch: int = 0) -> bytearray:
        return batch_of(b"a", b"b", producer=(77, epoch, sequence))

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            await produce_one(broker, "t", numbered(0))
            await produce_one(broker, "t", numbered(2))
            again = await produce_one(broker, "t", numbered(0))
            assert (again.error_code, again.base_offset) == (0, 0)
            assert partition.high_watermark == 4
            gap = await produce_one(broker, "t", numbered(6))
            assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert gap.log_start_offset == 0
            await produce_one(broker, "t", numbered(0, epoch=1))
            old = await produce_one(broker, "t", numbered(4))
            assert old.error_code == ErrorCode.INVALID_PRODUCER_EPOCH

    run(scenario)


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_a_retry_is_told_the_newest_time_of_the_original(
    tmp_path: Path, kind: str
) -> None:
    """As Kafka tells it whoever stamped the records (``UnifiedLog.append``)."""
    times = [Record(timestamp=time) for time in (T, T + 7, T + 2)]

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", message_timestamp_type=kind)
            first, again = [
                await produce_one(broker, "t", make_batch(times, producer=(7, 0, 0)))
                for _ in range(2)
            ]
            stamp = broker.clock.now_ms()
            told = {"CreateTime": (-1, T + 7), "LogAppendTime": (stamp, stamp)}[kind]
            assert (first.log_append_time_ms, again.log_append_time_ms) == told

    run(scenario)


def test_a_retry_waits_until_the_original_is_durable(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            first, again = (
                start(
                    produce,
                    produce_request("t", (0, batch_of(b"a", producer=(1, 0, 0)))),
                    broker,
                    9,
                )
                for _ in range(2)
            )
            assert not again.done()
            for response in await asyncio.gather(first, again):
                answer = response.responses[0].partition_responses[0]
                assert (answer.error_code, answer.base_offset) == (0, 0)
            assert len(batches_in(await fetch_one(broker, "t", 0))) == 1

    run(scenario)


def test_a_retry_of_a_refused_batch_is_refused_as_well(tmp_path: Path) -> None:
    def unsound() -> bytearray:
        sound = batch_of(b"a", producer=(1, 0, 0))
        return patch(patch(sound, ">i", 57, 3), ">i", 23, 2)

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            both = [
                start(produce, produce_request("t", (0, unsound())), broker, 9)
                for _ in range(2)
            ]
            for response in await asyncio.gather(*both):
                answer = response.responses[0].partition_responses[0]
                assert answer.error_code == ErrorCode.INVALID_RECORD
            sound = batch_of(b"a", producer=(1, 0, 0))
            assert (await produce_one(broker, "t", sound)).base_offset == 0

    run(scenario)


def test_refused_batches_do_not_stay_in_memory(tmp_path: Path) -> None:
    """Without the garbage collector's help: the receive buffers are needed again."""

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            sound = batch_of(b"a", codec=3)
            cases = [
                sound[:-1],
                patch(patch(sound, ">i", 57, 3), ">i", 23, 2),
                patch(sound, ">H", 61, 0xFFFF),
            ]
            gc.collect()
            gc.disable()
            try:
                for buffer in cases:
                    answer = await produce_one(broker, "t", memoryview(buffer))
                    assert answer.error_code != 0
                    await asyncio.sleep(0.01)
                    buffer.append(0)  # not possible while anybody looks at it
            finally:
                gc.enable()

    run(scenario)


def test_a_request_without_topics_is_answered(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            response = await call(produce, ProduceRequest(acks=-1), broker)
            assert response.responses == []

    run(scenario)


@pytest.mark.parametrize("acks", [1, 0])
@pytest.mark.parametrize("version", [9, 2])
def test_a_request_for_thousands_of_partitions_is_taken_in_turns_as_any_other(
    tmp_path: Path, version: int, acks: int
) -> None:
    """Of two on one connection, and a small one between them, each is taken whole
    before the next."""
    count = 1_300

    def named(value: bytes, indexes: range) -> ProduceRequest:
        entries = [(index, batch_of(value)) for index in indexes]
        return produce_request("t", *entries, acks=acks)

    async def scenario() -> None:
        async with rig(tmp_path) as broker, serving((), broker) as server:
            await create(broker, "t", partitions=count)
            wire = await Wire.open(server.address)
            requests = [
                named(b"first", range(count)),
                named(b"between", range(count - 1, count)),
                named(b"last", range(count + (acks and 200))),
            ]
            wire.send(*(frame_of(r, version, n) for n, r in enumerate(requests)))
            for number, request in enumerate(requests if acks else ()):
                found, response = await wire.response(request.API_KEY, version)
                (topic,) = response.responses
                parts = topic.partition_responses
                assert found == number
                assert [one.index for one in parts] == [
                    one.index for one in request.topic_data[0].partition_data
                ]
                codes = [one.error_code for one in parts]
                unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                known = min(len(parts), count)
                assert codes == [0] * known + [unknown] * (len(parts) - known)
            partition = broker.partitions.named("t", count - 1)
            await until(lambda: partition.high_watermark == 3)
            place = fetch_request("t", (count - 1, 0))
            data = (await call(fetch, place, broker, 12)).responses[0].partitions[0]
            assert values_in(data) == [b"first", b"between", b"last"]
            marks = {p.high_watermark for p in broker.partitions}
            assert marks == {2, 3}

    on_loop(scenario)
