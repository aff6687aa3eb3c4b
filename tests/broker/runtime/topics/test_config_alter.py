"""What can be altered is a topic that is there, and clients are told why else not."""

from types import SimpleNamespace

import pytest

from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.configs.layers import Kind
from broker.runtime.topics.config_alter import topic_to_alter
from broker.runtime.topics.topics import Topics
from broker.topics.topic import Topic
from tests.support.clock import ManualClock

MINE = Topic(1, b"i" * 16, "t", 1)


@pytest.fixture
def topics() -> Topics:
    made = Topics(SimpleNamespace(), ManualClock())
    made.load([MINE])
    return made


def test_a_topic_that_is_there_can_be_altered(topics: Topics) -> None:
    resource = SimpleNamespace(resource_type=Kind.TOPIC, resource_name="t")
    assert topic_to_alter(resource, topics, list) is MINE


@pytest.mark.parametrize(
    ("name", "code", "why"),
    [
        ("", ErrorCode.INVALID_REQUEST, "Default topic resources"),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION, "ASCII"),
        ("u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "'u' does not exist"),
        ("__consumer_offsets", ErrorCode.INVALID_TOPIC_EXCEPTION, "internal"),
    ],
)
def test_anything_else_cannot(
    topics: Topics, name: str, code: ErrorCode, why: str
) -> None:
    resource = SimpleNamespace(resource_type=Kind.TOPIC, resource_name=name)
    with pytest.raises(KafkaError, match=why) as refused:
        topic_to_alter(resource, topics, list)
    assert refused.value.code == code
