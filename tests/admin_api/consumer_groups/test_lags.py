"""Lags: committed offsets against the ends of the log."""

from confluent_kafka import TopicPartition
from confluent_kafka.admin import MemberAssignment, MemberDescription

from admin_api.consumer_groups.lags import NOBODY, Reader, lags, readers


def test_each_partition_that_is_there_has_its_lag():
    committed = {("b", 0): 5, ("a", 1): 3, ("a", 0): 0, ("gone", 0): 1}
    ends = {("a", 0): 7, ("a", 1): 3, ("b", 0): 9}
    whose = {("a", 0): Reader("m", "i", "c")}
    found = lags(committed, ends, whose)
    assert [(one.topic, one.partition, one.records) for one in found] == [
        ("a", 0, 7),
        ("a", 1, 0),
        ("b", 0, 4),
    ]
    assert found[0].reader == Reader("m", "i", "c")
    assert found[1].reader == NOBODY


def test_a_group_past_the_end_is_not_behind():
    [one] = lags({("a", 0): 9}, {("a", 0): 4}, {})
    assert (one.current_offset, one.end_offset, one.records) == (9, 4, 0)


def test_members_read_what_they_are_assigned():
    assigned = MemberAssignment([TopicPartition("t", 2)])
    member = MemberDescription("m", "c", "h", assigned, "i")
    assert readers([member]) == {("t", 2): Reader("m", "i", "c")}
