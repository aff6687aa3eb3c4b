"""What can be altered is a topic that is there, and clients are told why else not."""

from types import SimpleNamespace

import pytest

from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.topics.config_alter import (
    BROKER,
    TOPIC,
    check_broker_name,
    topic_to_alter,
)
from broker.runtime.topics.topics import Topics
from broker.topics.topic import Topic
from tests.support.clock import ManualClock

NODE_ID = 7
MINE = Topic(1, b"i" * 16, "t", 1)


@pytest.fixture
def topics() -> Topics:
    made = Topics(SimpleNamespace(), ManualClock())
    made.load([MINE])
    return made


def test_a_topic_that_is_there_can_be_altered(topics: Topics) -> None:
    resource = SimpleNamespace(resource_type=TOPIC, resource_name="t")
    assert topic_to_alter(resource, topics, NODE_ID, list) is MINE


@pytest.mark.parametrize(
    ("kind", "name", "code", "why"),
    [
        (BROKER, "", ErrorCode.INVALID_REQUEST, "read-only"),
        (BROKER, "7", ErrorCode.INVALID_REQUEST, "read-only"),
        (BROKER, "8", ErrorCode.INVALID_REQUEST, "expected 7 or empty string"),
        (8, "t", ErrorCode.INVALID_REQUEST, "Unsupported resource type: 8"),
        (TOPIC, "", ErrorCode.INVALID_REQUEST, "Default topic resources"),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION, "ASCII"),
        (TOPIC, "u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "'u' does not exist"),
        (TOPIC, "__consumer_offsets", ErrorCode.INVALID_TOPIC_EXCEPTION, "internal"),
    ],
)
def test_anything_else_cannot(
    topics: Topics, kind: int, name: str, code: ErrorCode, why: str
) -> None:
    resource = SimpleNamespace(resource_type=kind, resource_name=name)
    with pytest.raises(KafkaError, match=why) as refused:
        topic_to_alter(resource, topics, NODE_ID, list)
    assert refused.value.code == code


def test_a_broker_is_named_by_its_number_or_not_at_all() -> None:
    check_broker_name("", NODE_ID)
    check_broker_name("7", NODE_ID)
    for name in ("8", "07", "seven"):
        with pytest.raises(KafkaError) as refused:
            check_broker_name(name, NODE_ID)
        assert refused.value.code == ErrorCode.INVALID_REQUEST
