"""Topics that keep their batches in a codec of their own, by Produce of every age."""

import asyncio
import errno
import threading
from pathlib import Path

import pytest

from broker.apis._produce_again import Repeat
from broker.apis._recompressed import is_wanted
from broker.apis.delete_topics import delete_topics
from broker.apis.produce import produce
from broker.dispatch.context import Context
from broker.dispatch.turns import ITEMS_A_TURN
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.protocol.messages.produce import ProduceRequest
from broker.records.batch import read_header
from broker.records.recompress import CODECS
from broker.runtime.budget import Budget
from broker.storage.files import PosixFiles
from tests.support.batches import Record, make_batch, patch, read_batch
from tests.support.message_sets import produced
from tests.support.rig import (
    batch_of,
    batches_in,
    call,
    create,
    fetch_one,
    produce_one,
    produce_request,
    rig,
    run,
    start,
)
from tests.support.serving import on_loop, serving
from tests.support.wire import Wire, frame_of

T = 1_700_000_000_000
RECORDS = [Record(key=b"k%d" % n, value=b"v" * 90, timestamp=T + n) for n in range(50)]


@pytest.mark.parametrize("sent", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("kept", CODECS)
def test_any_codec_becomes_the_topics(tmp_path: Path, kept: str, sent: int) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", compression_type=kept)
            for version in (7, 12):
                batch = make_batch(RECORDS, codec=sent)
                answer = await produce_one(broker, "t", batch, version)
                assert (answer.error_code, answer.log_append_time_ms) == (0, -1)
            first, second = batches_in(await fetch_one(broker, "t", 0))
            assert read_header(first).codec == read_header(second).codec == CODECS[kept]
            assert [one.offset for one in read_batch(second)] == [*range(50, 100)]
            seen = [(r.key, r.value, r.timestamp) for r in read_batch(first)]
            assert seen == [(r.key, r.value, r.timestamp) for r in RECORDS]

    run(scenario)


def test_producer_keeps_what_came_and_a_change_counts_from_then_on(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            assert not broker.partitions.recompressed
            await produce_one(broker, "t", make_batch(RECORDS, codec=1))
            topic = broker.topics.get("t")
            assert topic is not None
            lz4 = {"compression.type": "lz4"}
            await broker.topics.alter_configs(topic, lambda _: lz4)
            assert broker.partitions.recompressed == {partition.number}
            await produce_one(broker, "t", make_batch(RECORDS, codec=1))
            await broker.topics.alter_configs(topic, lambda _: {})
            await produce_one(broker, "t", make_batch(RECORDS, codec=1))
            batches = batches_in(await fetch_one(broker, "t", 0))
            assert [read_header(one).codec for one in batches] == [1, 3, 1]
            assert not broker.partitions.recompressed

    run(scenario)


def test_of_a_topic_that_is_deleted_nothing_is_looked_at(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", compression_type="lz4")
            assert broker.partitions.recompressed
            deletion = DeleteTopicsRequest([DeleteTopicState("t")], timeout_ms=1000)
            await call(delete_topics, deletion, broker)
            assert not broker.partitions.recompressed

    run(scenario)


def test_a_request_of_many_batches_is_looked_through_in_turns(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", compression_type="lz4")
            kept = batch_of(b"a", codec=3)
            request = produce_request(
                "t", *((0, kept) for _ in range(2 * ITEMS_A_TURN))
            )
            context = Context(
                version=9, client_id="", key=0, peer_host="127.0.0.1", broker=broker
            )
            assert len(list(is_wanted(request, context))) == 2

    run(scenario)


@pytest.mark.parametrize(
    ("codec", "low", "high"),
    [("gzip", "1", "9"), ("lz4", "1", "17"), ("zstd", "-9", "9")],
)
def test_the_level_is_the_topics(
    tmp_path: Path, codec: str, low: str, high: str
) -> None:
    values = [Record(value=b"%d of %d" % (n * n, n)) for n in range(500)]

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            sizes = []
            for level in (high, low):
                name = f"at{level}"
                await create(
                    broker,
                    name,
                    compression_type=codec,
                    **{f"compression_{codec}_level": level},
                )
                await produce_one(broker, name, make_batch(values))
                (batch,) = batches_in(await fetch_one(broker, name, 0))
                sizes.append(len(batch))
            assert sizes[0] < sizes[1]

    run(scenario)


@pytest.mark.parametrize("version", [0, 2, 3, 6])
def test_what_the_broker_compresses_is_in_no_codec_of_the_client(
    tmp_path: Path, version: int
) -> None:
    """zstd from a client that does not know it is still refused."""

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", compression_type="zstd")
            await create(broker, "plain", compression_type="uncompressed")
            sent = produced(RECORDS, version // 2, 0) if version < 3 else batch_of(b"v")
            answer = await produce_one(broker, "t", sent, version)
            assert answer.error_code == 0
            (batch,) = batches_in(await fetch_one(broker, "t", 0))
            assert read_header(batch).codec == CODECS["zstd"]
            if version >= 3:
                refused = make_batch(RECORDS, codec=4)
                answer = await produce_one(broker, "plain", refused, version)
                unsupported = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
                assert answer.error_code == unsupported

    run(scenario)


def test_what_is_refused_is_refused_as_it_came(tmp_path: Path) -> None:
    sound = make_batch(RECORDS, codec=1)
    damaged = bytearray(sound)
    damaged[-1] ^= 1
    cases = {
        "damaged": (damaged, ErrorCode.CORRUPT_MESSAGE),
        "cut": (sound[:-1], ErrorCode.INVALID_RECORD),
        "two": (sound + sound, ErrorCode.INVALID_RECORD),
        "null": (None, ErrorCode.INVALID_RECORD),
        "count": (patch(sound, ">i", 57, 3), ErrorCode.INVALID_RECORD),
        "grows": (batch_of(b"x" * 5000, codec=1), ErrorCode.MESSAGE_TOO_LARGE),
    }

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(
                broker, "t", compression_type="uncompressed", max_message_bytes="2000"
            )
            for name, (records, code) in cases.items():
                answer = await produce_one(broker, "t", records)
                assert (name, answer.error_code) == (name, code)
            assert partition.log.next == 0
            keyless = await create(
                broker, "c", compression_type="zstd", cleanup_policy="compact"
            )
            answer = await produce_one(broker, "c", batch_of(b"a", b"b"))
            assert answer.error_code == ErrorCode.INVALID_RECORD
            assert [one.batch_index for one in answer.record_errors] == [0, 1]
            assert keyless.high_watermark == 0

    run(scenario)


def test_the_brokers_time_and_sequences_hold(tmp_path: Path) -> None:
    def numbered(sequence: int) -> bytearray:
        return make_batch(RECORDS[:2], codec=1, producer=(7, 0, sequence))

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(
                broker,
                "t",
                compression_type="lz4",
                message_timestamp_type="LogAppendTime",
            )
            for sequence, base, code in (
                (0, 0, 0),
                (2, 2, 0),
                (0, 0, 0),
                (9, -1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
            ):
                answer = await produce_one(broker, "t", numbered(sequence))
                assert (answer.base_offset, answer.error_code) == (base, code)
            batches = batches_in(await fetch_one(broker, "t", 0))
            stamps = {r.timestamp for one in batches for r in read_batch(one)}
            assert stamps == {broker.clock.now_ms()}
            assert [read_header(one).codec for one in batches] == [3, 3]

    run(scenario)


def test_one_that_is_as_it_should_be_is_pipelined_and_the_other_not(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", compression_type="gzip")
            request = produce_request("t", (0, make_batch(RECORDS, codec=1)))
            at_once = start(produce, request, broker, 9)
            assert not asyncio.iscoroutine(at_once)
            await at_once
            request = produce_request(
                "t", (0, batch_of(b"a")), (5, batch_of(b"b")), (0, batch_of(b"c"))
            )
            later = start(produce, request, broker, 9)
            assert asyncio.iscoroutine(later)
            answers = (await later).responses[0].partition_responses
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert [(one.base_offset, one.error_code) for one in answers] == [
                (50, 0), (-1, unknown), (51, 0),
            ]  # fmt: skip

    run(scenario)


def test_over_a_connection_their_order_is_that_of_the_requests(tmp_path: Path) -> None:
    """The same bytes before the batch, so that the short way would be gone."""

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", compression_type="snappy")
            async with serving((), broker) as server:
                wire = await Wire.open(server.address)
                requests = [
                    produce_request("t", (0, batch_of(b"%d" % n, codec=n % 3)))
                    for n in range(30)
                ]
                wire.send(*(frame_of(request, 9) for request in requests))
                key = int(requests[0].API_KEY)
                answers = [(await wire.response(key, 9))[1] for _ in requests]
            bases = [a.responses[0].partition_responses[0].base_offset for a in answers]
            assert bases == [*range(30)]
            batches = batches_in(await fetch_one(broker, "t", 0))
            assert {read_header(one).codec for one in batches} == {CODECS["snappy"]}
            values = [r.value for one in batches for r in read_batch(one)]
            assert values == [b"%d" % n for n in range(30)]

    on_loop(scenario)


def test_without_an_answer_it_is_kept_all_the_same(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", compression_type="zstd")
            request = produce_request("t", (0, batch_of(b"a")), acks=0)
            assert await call(produce, request, broker, 9) is None
            (batch,) = batches_in(await fetch_one(broker, "t", 0))
            assert read_header(batch).codec == CODECS["zstd"]

    run(scenario)


class HungDisk(PosixFiles):
    """Syncs wait while ``goes_on`` is not set."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()
        self.goes_on.set()

    def fdatasync(self, file: int) -> None:
        self.goes_on.wait()
        super().fdatasync(file)


def test_what_a_few_kilobytes_become_waits_in_bounded_memory_for_the_disk(
    tmp_path: Path,
) -> None:
    files, room = HungDisk(), 3 << 20
    bomb = batch_of(bytes(900_000), codec=4)
    request = produce_request("t", *((0, bytearray(bomb)) for _ in range(20)))

    async def scenario() -> None:
        async with rig(tmp_path, files=files) as broker:
            partition = await create(broker, "t", compression_type="uncompressed")
            broker.recompressed = Budget(room)
            files.goes_on.clear()
            try:
                later = asyncio.ensure_future(call(produce, request, broker, 9))
                while broker.recompressed.room > 1_100_000:
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.2)
                waiting = sum(len(one.batch) for one in partition._waiting)
                assert 900_000 < waiting <= room
                assert not later.done()
            finally:
                files.goes_on.set()
            answers = (await later).responses[0].partition_responses
            assert [one.base_offset for one in answers] == [*range(20)]
            assert broker.recompressed.taken == 0

    assert len(bomb) < 1_000
    run(scenario)


def test_who_waits_for_room_too_long_is_told_so(tmp_path: Path) -> None:
    files = HungDisk()

    async def scenario() -> None:
        async with rig(tmp_path, files=files) as broker:
            partition = await create(broker, "t", compression_type="lz4")
            broker.recompressed = Budget(1 << 20)
            files.goes_on.clear()
            try:
                first = asyncio.ensure_future(
                    call(produce, produce_request("t", (0, batch_of(b"a"))), broker, 9)
                )
                while not partition._waiting:
                    await asyncio.sleep(0.01)
                late = produce_request("t", (0, batch_of(b"b")))
                late.timeout_ms = 50
                [part] = (
                    (await call(produce, late, broker, 9))
                    .responses[0]
                    .partition_responses
                )
                assert part.error_code == ErrorCode.REQUEST_TIMED_OUT
            finally:
                files.goes_on.set()
            await first
            assert partition.log.next == 1
            assert broker.recompressed.taken == 0

    run(scenario)


@pytest.mark.parametrize("why", ["no room in time", "nothing is taken"])
def test_behind_a_first_batch_that_is_to_come_again_none_comes_first(
    tmp_path: Path, why: str
) -> None:
    """Of a producer that is not known any sequence may be the first: what was refused
    for a while would then be out of order for ever."""

    def batch(sequence: int) -> bytearray:
        return batch_of(b"%d" % sequence, producer=(9, 0, sequence))

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", compression_type="lz4")
            if why == "no room in time":
                broker.recompressed.take(broker.recompressed.bytes_max)
            else:
                failed = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "for now")
                broker.wal.overfull = failed
            early = produce_request("t", (0, batch(0)))
            early.timeout_ms = 1
            refused = await call(produce, early, broker, 9)
            [part] = refused.responses[0].partition_responses
            assert part.error_code != ErrorCode.NONE
            broker.wal.overfull = None
            if broker.recompressed.taken:
                broker.recompressed.give(broker.recompressed.taken)
            codes = [
                (await produce_one(broker, "t", batch(sequence))).error_code
                for sequence in (1, 0, 1)
            ]
            assert codes == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0, 0]

    run(scenario)


@pytest.mark.parametrize("version", [2, 9])
def test_all_batches_of_a_request_wait_for_room_in_its_time_together(
    tmp_path: Path, version: int
) -> None:
    def asked(count: int, timeout_ms: int) -> ProduceRequest:
        old = [produced([Record(value=b"a")], 1, 0) for _ in range(count)]
        sent = old if version == 2 else [batch_of(b"a") for _ in range(count)]
        request = produce_request("t", *((0, one) for one in sent))
        request.timeout_ms = timeout_ms
        return request

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t", compression_type="lz4")
            room = broker.recompressed
            room.take(room.bytes_max)
            many, longer = (
                asyncio.ensure_future(call(produce, request, broker, version))
                for request in (asked(100, 200), asked(1, 10_000))
            )
            answer = await many
            assert not longer.done()
            parts = answer.responses[0].partition_responses
            codes = {part.error_code for part in parts}
            assert codes == {ErrorCode.REQUEST_TIMED_OUT}
            room.give(room.bytes_max)
            [part] = (await longer).responses[0].partition_responses
            assert (part.base_offset, part.error_code) == (0, 0)
            assert partition.log.next == 1
            assert room.taken == 0

    run(scenario)


def test_of_who_gave_up_waiting_nothing_is_kept(tmp_path: Path) -> None:
    """While a disk hangs clients ask again and again."""

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", compression_type="lz4")
            room = broker.recompressed
            room.take(room.bytes_max)
            for _ in range(3):
                late = produce_request("t", (0, batch_of(b"a")))
                late.timeout_ms = 1
                answer = await call(produce, late, broker, 9)
                [part] = answer.responses[0].partition_responses
                assert part.error_code == ErrorCode.REQUEST_TIMED_OUT
                assert not room.is_awaited
            room.give(room.bytes_max)

    run(scenario)


def test_who_comes_later_does_not_pass_who_wants_more(tmp_path: Path) -> None:
    """Else a large batch would wait for as long as small ones come."""

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            limits = {"large": "900000", "small": "1000"}
            for name, most in limits.items():
                await create(
                    broker, name, compression_type="lz4", max_message_bytes=most
                )
            room = broker.recompressed
            room.take(room.bytes_max)
            asked = []
            for name in limits:
                request = produce_request(name, (0, batch_of(b"a")))
                asked.append(asyncio.ensure_future(call(produce, request, broker, 9)))
                await asyncio.sleep(0)
            room.give(2_000)
            await asyncio.sleep(0.05)
            assert not any(one.done() for one in asked)
            room.give(room.taken)
            for one in asked:
                [part] = (await one).responses[0].partition_responses
                assert part.error_code == 0

    run(scenario)


class FailingDisk(PosixFiles):
    """Syncs fail once ``fails`` is true."""

    fails = False

    def fdatasync(self, file: int) -> None:
        if self.fails:
            raise OSError(errno.EIO, "this disk fails")
        super().fdatasync(file)


def test_what_the_log_refuses_waits_for_no_room(tmp_path: Path) -> None:
    files = FailingDisk()

    async def scenario() -> None:
        async with rig(tmp_path, files=files) as broker:
            await create(broker, "t", compression_type="lz4")
            files.fails = True
            answer = await produce_one(broker, "t", batch_of(b"a", codec=3))
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            broker.recompressed.take(broker.recompressed.bytes_max)
            answer = await produce_one(broker, "t", batch_of(b"a"))
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR

    run(scenario)


def test_who_asks_for_no_answer_is_held_back_until_there_is_room(
    tmp_path: Path,
) -> None:
    """As he is without a codec: he would be closed, with all that he sent since."""

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t", compression_type="lz4")
            room = broker.recompressed
            room.take(room.bytes_max)
            unasked = produce_request("t", (0, batch_of(b"a")), acks=0)
            unasked.timeout_ms = 50
            held = asyncio.ensure_future(call(produce, unasked, broker, 9))
            await asyncio.sleep(0)
            behind = produce_request("t", (0, batch_of(b"b")))
            behind.timeout_ms = 500
            answer = await call(produce, behind, broker, 9)
            [part] = answer.responses[0].partition_responses
            assert part.error_code == ErrorCode.REQUEST_TIMED_OUT
            assert not held.done()
            room.give(room.bytes_max)
            assert await held is None
            assert partition.log.next == 1

    run(scenario)


def test_large_batches_may_be_under_way_together(tmp_path: Path) -> None:
    files = HungDisk()

    async def scenario() -> None:
        async with rig(tmp_path, files=files) as broker:
            configs = {"compression_type": "lz4", "max_message_bytes": str(100 << 20)}
            partition = await create(broker, "t", **configs)
            files.goes_on.clear()
            try:
                request = produce_request("t", *((0, batch_of(b"a")) for _ in range(9)))
                later = asyncio.ensure_future(call(produce, request, broker, 9))
                while len(partition._waiting) < 9:
                    await asyncio.sleep(0.01)
            finally:
                files.goes_on.set()
            await later

    run(scenario)


def test_what_is_refused_gives_its_room_back(tmp_path: Path) -> None:
    """Also where the log refuses what was compressed anew."""

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            configs = {"compression_type": "lz4", "max_message_bytes": "2000"}
            await create(broker, "t", **configs)
            for sent in (
                batch_of(b"x" * 100),
                make_batch(RECORDS[:2], codec=1, producer=(7, 0, 5)),
                batch_of(b"x" * 5000, codec=1),
                patch(batch_of(b"a", codec=1), ">i", 57, 3),
                make_batch(RECORDS[:2], codec=1, producer=(7, 0, 9)),
            ):
                await produce_one(broker, "t", sent)
                assert broker.recompressed.taken == 0

    run(scenario)


def test_over_a_connection_the_topics_codec_keeps_the_short_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    start_repeat = Repeat.start

    def noted(self: Repeat, frame: memoryview, correlation_id: int) -> object:
        found = start_repeat(self, frame, correlation_id)
        started.append(found is not None)
        return found

    monkeypatch.setattr(Repeat, "start", noted)

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", compression_type="lz4")
            async with serving((), broker) as server:
                wire = await Wire.open(server.address)
                for codec in (3, 3, 3, 1, 3):
                    request = produce_request("t", (0, batch_of(b"a", codec=codec)))
                    wire.send(frame_of(request, 9))
                    _, answer = await wire.response(int(request.API_KEY), 9)
                    [part] = answer.responses[0].partition_responses
                    assert part.error_code == 0
            batches = batches_in(await fetch_one(broker, "t", 0))
            assert {read_header(one).codec for one in batches} == {3}

    on_loop(scenario)
    assert started == [True, True, False, True]
