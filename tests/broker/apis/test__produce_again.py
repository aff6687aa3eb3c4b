"""A produce that begins like one before is answered as if it had been read whole."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.apis._produce_again import Repeat, repeat
from broker.apis.produce import produce
from broker.dispatch.dispatcher import (
    KEPT_BYTES_MAX,
    PREFIX_LENGTHS_MAX,
    REPEATS_MAX,
    Dispatcher,
    Session,
)
from broker.dispatch.registry import Registry
from broker.protocol.api_keys import ApiKey
from broker.protocol.codec import response_decoder
from broker.protocol.errors import ErrorCode, ProtocolError
from broker.protocol.frames import decode_response_head
from broker.protocol.messages.produce import ProduceRequest
from broker.runtime.services import Broker
from tests.support.batches import Record, make_batch
from tests.support.rig import batch_of, create, produce_request, rig, run
from tests.support.wire import frame_of

VERSIONS = range(3, 14)


def session_of(broker: Broker) -> Session:
    served = [produce.__dict__["served"]]
    return Dispatcher(Registry(served), broker).session("127.0.0.1")


def counting_session(broker: Broker) -> tuple[Session, list[int]]:
    """A session, and how long each request was that was looked at to be kept."""
    asked: list[int] = []

    def counted(frame: memoryview, *read: Any) -> Repeat | None:
        asked.append(len(frame))
        return repeat(frame, *read)

    served = replace(produce.__dict__["served"], repeat=counted)
    return Dispatcher(Registry([served]), broker).session("127.0.0.1"), asked


def request_of(
    broker: Broker, topic: str, batch: bytearray | None, **more: Any
) -> ProduceRequest:
    request = produce_request(topic, (0, batch), **more)
    found = broker.topics.get(topic)
    if found is not None:
        request.topic_data[0].topic_id = found.id
    return request


async def answered(
    session: Session, frame: bytes, version: int, *, by_repeat: bool | None = None
) -> tuple[int, Any]:
    """Correlation id and response to a frame, as a client reads them."""
    view = memoryview(bytearray(frame[4:]))
    route, correlation_id, result = session.start(view)
    if by_repeat is not None:
        assert (type(result).__name__ == "Repeated") is by_repeat
    if hasattr(result, "__await__"):
        result = await result
    if type(result) is not bytes:
        parts, size = route.answer(correlation_id, result)
        result = b"".join(map(bytes, parts))
        assert len(result) == size
    assert int.from_bytes(result[:4], "big") == len(result) - 4
    sent = memoryview(result)[4:]
    told, position = decode_response_head(sent, ApiKey.PRODUCE, version)
    return told, response_decoder(ApiKey.PRODUCE, version)(sent, position)


def keyed(*values: bytes, **more: Any) -> bytearray:
    return make_batch([Record(b"k", value) for value in values], **more)


def batches() -> list[bytearray | None]:
    """Good ones and bad ones, in this order."""
    damaged = keyed(b"d")
    damaged[-1] ^= 1
    return [
        keyed(b"a", b"b"),
        keyed(b"c"),
        damaged,
        keyed(b"x" * 3_000),
        keyed(b"e", producer=(7, 0, 0)),
        keyed(b"e", producer=(7, 0, 0)),
        keyed(b"f", producer=(7, 0, 5)),
        make_batch([Record(None), Record(b"k"), Record(None)]),
        keyed(b"y" * 200),
        keyed(b"z" * 300, codec=3),
        None,
        bytearray(),
        keyed(b"g"),
    ]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("stamped", [False, True])
def test_both_ways_give_the_same_answers(
    tmp_path: Path, version: int, stamped: bool
) -> None:
    configs = {"max_message_bytes": "1000", "cleanup_policy": "compact"}
    if stamped:
        configs["message_timestamp_type"] = "LogAppendTime"

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "one", **configs)
            await create(broker, "two", **configs)
            kept = session_of(broker)
            seen = refused = 0
            for number, batch in enumerate(batches()):
                answers = []
                for topic, session in (("one", session_of(broker)), ("two", kept)):
                    request = request_of(
                        broker, topic, None if batch is None else bytearray(batch)
                    )
                    frame = frame_of(request, version, correlation_id=number)
                    told, response = await answered(session, frame, version)
                    assert told == number
                    seen += bool(batch) and bool(session._repeats)
                    (data,) = response.responses
                    if version < 13:
                        assert data.name == topic
                    (one,) = data.partition_responses
                    if stamped and one.error_code == 0:
                        assert one.log_append_time_ms > 0
                        one.log_append_time_ms = 0
                    answers.append((one, response.throttle_time_ms))
                assert answers[0] == answers[1]
                refused += 2 * bool(answers[0][0].error_code)
                assert broker.counters.produce_errors == refused
            assert seen
            assert refused

    run(scenario)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_second_request_is_started_by_the_first(tmp_path: Path, version: int) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            session = session_of(broker)
            for number in range(3):
                frame = frame_of(
                    request_of(broker, "t", batch_of(b"x" * (number * 90))), version
                )
                _, response = await answered(
                    session, frame, version, by_repeat=number > 0
                )
                (one,) = response.responses[0].partition_responses
                assert (one.error_code, one.base_offset) == (0, number)

    run(scenario)


@pytest.mark.parametrize("version", [7, 12])
def test_what_follows_the_batch_is_read_the_general_way(
    tmp_path: Path, version: int
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            session = session_of(broker)
            request = request_of(broker, "t", batch_of(b"a"))
            frame = frame_of(request, version)
            await answered(session, frame, version, by_repeat=False)
            _, longer = await answered(session, frame + b"!", version, by_repeat=False)
            (one,) = longer.responses[0].partition_responses
            assert (one.error_code, one.base_offset) == (0, 1)
            with pytest.raises(ProtocolError):
                await answered(session, frame[:-5], version)

    run(scenario)


def test_neither_acks_0_nor_several_partitions_are_repeated(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", partitions=2)
            session = session_of(broker)
            for request in (
                produce_request("t", (0, batch_of(b"a")), acks=0),
                produce_request("t", (0, batch_of(b"a")), (1, batch_of(b"b"))),
                produce_request("unknown", (0, batch_of(b"a"))),
                produce_request("t", (7, batch_of(b"a"))),
            ):
                view = memoryview(bytearray(frame_of(request, 7)[4:]))
                result = session.start(view)[2]
                if hasattr(result, "__await__"):
                    await result
            assert not session._repeats

    run(scenario)


def test_a_topic_that_was_deleted_is_looked_up_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            session = session_of(broker)
            frame = frame_of(request_of(broker, "t", batch_of(b"a")), 7)
            for _ in range(2):
                await answered(session, frame, 7)
            topic = broker.topics.get("t")
            assert topic is not None
            await broker.topics.delete(topic)
            _, response = await answered(session, frame, 7, by_repeat=False)
            (one,) = response.responses[0].partition_responses
            assert one.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            await create(broker, "t")
            for expected in (0, 1):
                _, response = await answered(session, frame, 7)
                (one,) = response.responses[0].partition_responses
                assert (one.error_code, one.base_offset) == (0, expected)

    run(scenario)


def test_nothing_is_kept_of_a_request_that_begins_with_much(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            session, asked = counting_session(broker)
            name = "c" * (KEPT_BYTES_MAX + 1)
            for number in range(2):
                frame = frame_of(
                    request_of(broker, "t", batch_of(b"x")), 9, client_id=name
                )
                _, response = await answered(session, frame, 9, by_repeat=False)
                (one,) = response.responses[0].partition_responses
                assert (one.error_code, one.base_offset) == (0, number)
            assert len(asked) == 1

    run(scenario)


def test_who_begins_in_ever_more_ways_is_not_looked_at_for_ever(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            session, asked = counting_session(broker)
            for n in range(1, PREFIX_LENGTHS_MAX + 3):
                await create(broker, "t" * n)
            for turn in range(2):
                for n in range(1, PREFIX_LENGTHS_MAX + 3):
                    frame = frame_of(produce_request("t" * n, (0, batch_of(b"x"))), 9)
                    again = turn == 1 and n <= PREFIX_LENGTHS_MAX
                    _, response = await answered(session, frame, 9, by_repeat=again)
                    (one,) = response.responses[0].partition_responses
                    assert (one.error_code, one.base_offset) == (0, turn)
            assert len(asked) == PREFIX_LENGTHS_MAX + 1

    run(scenario)


def test_of_many_partitions_so_many_are_kept_and_no_more(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            session, asked = counting_session(broker)
            await create(broker, "t", partitions=REPEATS_MAX + 2)
            for index in range(REPEATS_MAX + 2):
                frame = frame_of(produce_request("t", (index, batch_of(b"x"))), 9)
                await answered(session, frame, 9, by_repeat=False)
            assert len(session._repeats) == len(asked) == REPEATS_MAX

    run(scenario)


@pytest.mark.parametrize("version", [8, 9])
def test_what_is_kept_of_a_large_request_costs_no_look_at_its_bytes(
    tmp_path: Path, version: int
) -> None:
    """Comparing them took 200 ms; the bytes of a batch need be none of a batch's."""

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            session = session_of(broker)
            batch = bytearray(64 << 20)
            frame = frame_of(request_of(broker, "t", batch), version)
            view = memoryview(bytearray(frame))[4:]
            del frame, batch
            known = session._read_header(view)
            request = known.route.decode(view, known.body_position)
            begun_s = time.thread_time()
            kept = repeat(view, request, known.context, known.route.answer)
            assert time.thread_time() - begun_s < 0.02
            assert kept is not None

    run(scenario)
