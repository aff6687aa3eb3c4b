"""A topic's value."""

import pytest

from broker.topics.topic import Topic, offsets_partition


def test_kafkas_own_topics_are_internal() -> None:
    assert Topic(1, bytes(16), "__consumer_offsets", 50).internal
    assert not Topic(1, bytes(16), "consumer_offsets", 50).internal
    assert not Topic(1, bytes(16), "__mine", 50).internal


@pytest.mark.parametrize(
    ("group_id", "partition"),
    [
        ("g", 3),
        ("", 0),
        ("console-consumer-12345", 6),
        ("zürich", 30),  # whose hash is negative
        ("\U0001f600", 49),  # two units of UTF-16
        ("polygenelubricants", 0),  # whose hash has no absolute value
    ],
)
def test_a_group_has_the_partition_that_kafka_would_give_it(group_id, partition):
    assert offsets_partition(group_id) == partition
