"""A batch: each entry is a success or a failure, under its id."""

import asyncio

import pytest

from admin_api.problems import Problem
from admin_api.records.current import CurrentTopic
from admin_api.records.delivery import Target
from admin_api.records.entries import deliver_all
from admin_api.records.producer import RecordProducer
from admin_api.records.schemas import ProduceBatch
from tests.support.patience import IDLE_S


def batch(**entries):
    said = [{"id": name, **entry} for name, entry in entries.items()]
    return ProduceBatch.model_validate({"entries": said})


@pytest.fixture
def producer(plane):
    producer = RecordProducer(plane.bootstrap, IDLE_S)
    yield producer
    producer.close()


def test_entries_succeed_and_fail_by_themselves(plane, producer):
    plane.create("entries", 2)
    topic = CurrentTopic("entries", plane.app.state.kafka, producer)
    wanted = batch(
        a={"partition_id": 1, "value": {"type": "STRING", "data": "x"}},
        b={"value": {"type": "BINARY", "data": "!"}},
        c={"partition_id": 2},
        d={"partition_id": 1},
    )
    found = asyncio.run(deliver_all(Target("c", topic, producer), wanted))
    assert [(one.id, one.partition_id, one.offset) for one in found.successes] == [
        ("a", 1, 0),
        ("d", 1, 1),
    ]
    assert found.successes[0].value is not None
    assert found.successes[0].value.size == 1
    failed = [(one.id, one.error_code) for one in found.failures]
    assert failed == [("b", 42207), ("c", 40402)]


def test_a_batch_that_cannot_be_sends_nothing(plane, producer):
    topic = CurrentTopic("t", plane.app.state.kafka, producer)
    with pytest.raises(Problem, match="Empty"):
        asyncio.run(deliver_all(Target("c", topic, producer), batch()))
