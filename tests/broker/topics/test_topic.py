"""A topic's value."""

from broker.topics.topic import Topic


def test_kafkas_own_topics_are_internal() -> None:
    assert Topic(1, bytes(16), "__consumer_offsets", 50).internal
    assert not Topic(1, bytes(16), "consumer_offsets", 50).internal
    assert not Topic(1, bytes(16), "__mine", 50).internal
