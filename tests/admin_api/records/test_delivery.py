"""Reports of a stream: one for each record, in order, while records still come."""

import asyncio
import gc
import json
import weakref

import pytest

from admin_api.problems import Problem
from admin_api.records.current import CurrentTopic
from admin_api.records.delivery import IN_FLIGHT_MAX, Target, parse, reports
from admin_api.records.producer import RecordProducer
from admin_api.records.schemas import Report
from admin_api.records.unfinished import AllUnfinished
from tests.support.patience import IDLE_S


def report(offset):
    return Report(
        cluster_id="c", topic_name="t", partition_id=0, offset=offset, timestamp=None
    )


def record(number):
    return json.dumps({"partition_id": number}).encode()


async def chunks(*sent):
    for one in sent:
        yield one


def sending(report_of):
    """What sends a record, of what waits for its report."""

    async def send(record):
        return report_of(record)

    return send


async def reported(source, send):
    return [
        (code, json.loads(body))
        async for code, body in reports(source, sending(send), AllUnfinished())
    ]


async def delivered(record):
    return report(record.partition_id)


def test_records_are_reported_in_their_order_however_they_are_delivered():
    async def story():
        gates = [asyncio.Event() for _ in range(3)]

        async def send(record):
            await gates[record.partition_id].wait()
            return report(record.partition_id)

        waiting = asyncio.create_task(
            reported(chunks(record(0), record(1) + record(2)), send)
        )
        for gate in reversed(gates):
            gate.set()
        return await waiting

    found = asyncio.run(story())
    assert [(code, one["error_code"], one["offset"]) for code, one in found] == [
        (200, 200, 0),
        (200, 200, 1),
        (200, 200, 2),
    ]


def test_a_record_is_reported_before_the_next_one_comes():
    async def story():
        seen = asyncio.Event()

        async def source():
            yield record(0)
            await seen.wait()
            yield record(1)

        found = []
        async for _, body in reports(source(), sending(delivered), AllUnfinished()):
            found.append(json.loads(body)["offset"])
            seen.set()
        return found

    assert asyncio.run(story()) == [0, 1]


def test_a_record_that_cannot_be_sent_is_a_report_like_any_other():
    async def later(_):
        raise Problem(40403, "later")

    def send(record):
        if record.partition_id == 1:
            raise Problem(42207, "at once")
        return later(record) if record.partition_id == 2 else delivered(record)

    sent = [record(0), record(1), record(2), b'{"offset":1}', record(4)]
    found = asyncio.run(reported(chunks(*sent), send))
    codes = [(code, one["error_code"]) for code, one in found]
    assert codes == [(200, 200), (422, 42207), (404, 40403), (400, 400), (200, 200)]
    assert found[1][1]["message"] == "at once"
    assert "offset" in found[3][1]["message"]


@pytest.mark.parametrize("rest", [b"x", b"{"])
def test_what_is_no_json_ends_the_stream_after_what_was_before(rest):
    found = asyncio.run(reported(chunks(record(0) + rest), delivered))
    assert [code for code, _ in found] == [200, 400]


def test_an_empty_stream_has_no_report():
    assert asyncio.run(reported(chunks(), delivered)) == []


def test_reading_waits_while_too_much_is_on_its_way():
    async def story():
        taken, gate = [], asyncio.Event()

        async def send(record):
            await gate.wait()
            return report(record.partition_id)

        async def source():
            for number in range(2 * IN_FLIGHT_MAX):
                taken.append(number)
                yield record(number)

        waiting = asyncio.create_task(reported(source(), send))
        for _ in range(5 * IN_FLIGHT_MAX):
            await asyncio.sleep(0)
        read = len(taken)
        gate.set()
        return read, await waiting

    read, found = asyncio.run(story())
    assert read <= IN_FLIGHT_MAX + 2
    assert len(found) == 2 * IN_FLIGHT_MAX


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b'{"partition_id": "x"}', "partition_id"),
        (b'{"value": {"type": "FLY"}}', "value.type"),
        (b'{"a": tru}', "JSON"),
        (b'{"\xff": 1}', "JSON"),
        (b'{"value":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "JSON"),
        (b'{"value": {"data": 1' + b"0" * 5000 + b"}}", "JSON"),
    ],
)
def test_a_record_that_cannot_be_is_refused_in_words(text, why):
    with pytest.raises(Problem, match=why) as caught:
        asyncio.run(parse(text))
    assert caught.value.status == 400


def test_a_report_that_nobody_reads_yet_keeps_nothing_of_its_record(plane):
    plane.create("unread")
    producer = RecordProducer(plane.bootstrap, IDLE_S)
    text = b'{"value": {"type": "STRING", "data": "abc"}}'
    record = asyncio.run(parse(text))
    kept = weakref.ref(record)

    async def story():
        nonlocal record
        topic = CurrentTopic("unread", plane.app.state.kafka, producer)
        waiting = await Target("c", topic, producer).send(record)
        del record
        gc.collect()
        assert kept() is None
        return await waiting

    report = asyncio.run(story())
    producer.close()
    assert (report.offset, report.value.size) == (0, 3)
