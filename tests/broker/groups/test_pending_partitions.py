"""The producers of each partition of which something is pending."""

from broker.groups.pending_partitions import PendingPartitions


def test_who_has_what_pending_is_known_by_partition_and_group() -> None:
    index = PendingPartitions()
    index.add("g", 7, [(1, 0), (1, 1)])
    index.add("g", 8, [(1, 0)])
    index.add("g", 7, [(1, 0)])
    index.add("h", 9, [(1, 0)])
    assert index.producers("g", (1, 0)) == (7, 8)
    keys = [(1, 0), (1, 1), (1, 0), (1, 2)]
    assert index.by_producer("g", keys) == {7: [(1, 0), (1, 1)], 8: [(1, 0)]}


def test_nothing_is_left_of_a_group_of_which_nothing_is_pending() -> None:
    index = PendingPartitions()
    index.add("g", 7, [(1, 0)])
    index.add("g", 8, [(1, 0)])
    index.remove("g", 7, [(1, 0)])
    assert index.producers("g", (1, 0)) == (8,)
    index.remove("g", 8, [(1, 0)])
    assert index == PendingPartitions()
