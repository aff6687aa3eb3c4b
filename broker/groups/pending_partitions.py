"""Who has an offset of a partition pending, by group.

The problem: what a group commits takes the place of what is pending for the same
partitions, and a group may have thousands of producers, each with a transaction of its
own; to look at all of them at each commit is a turn of the loop. The idea: an index by
partition, which one producer has, or two. The price: a hundred bytes for each pending
offset more.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from broker.ids import ProducerId, TopicPartition


@dataclass(slots=True)
class PendingPartitions:
    """The producers of each partition of which something is pending."""

    groups: dict[str, dict[TopicPartition, tuple[ProducerId, ...]]] = field(
        default_factory=dict
    )

    def producers(self, group_id: str, key: TopicPartition) -> tuple[ProducerId, ...]:
        """Who has an offset of this partition pending."""
        return self.groups.get(group_id, {}).get(key, ())

    def by_producer(
        self, group_id: str, keys: Iterable[TopicPartition]
    ) -> Mapping[ProducerId, list[TopicPartition]]:
        """Who has something pending for these partitions, and for which of them."""
        found: dict[ProducerId, list[TopicPartition]] = {}
        for key in dict.fromkeys(keys):
            for producer_id in self.producers(group_id, key):
                found.setdefault(producer_id, []).append(key)
        return found

    def add(
        self, group_id: str, producer_id: ProducerId, keys: Iterable[TopicPartition]
    ) -> None:
        """A producer has offsets of these pending; of some it may have had before."""
        of_group = self.groups.setdefault(group_id, {})
        for key in keys:
            there = of_group.get(key, ())
            if producer_id not in there:
                of_group[key] = (*there, producer_id)

    def remove(
        self, group_id: str, producer_id: ProducerId, keys: Iterable[TopicPartition]
    ) -> None:
        """A producer has none of these, which it had, pending any more."""
        of_group = self.groups.get(group_id, {})
        for key in keys:
            left = tuple(one for one in of_group[key] if one != producer_id)
            if left:
                of_group[key] = left
            else:
                del of_group[key]
        if not of_group:
            self.groups.pop(group_id, None)
