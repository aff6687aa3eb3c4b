"""The numbers by which the broker names things, told apart by the type checker.

The problem: a topic's number, a partition's and an offset stand side by side in many
signatures, all of them integers, and one that is swapped for another is found by no
test that has topic 1, partition 1 and offset 1. The idea: a name for each kind, which
exists for the type checker only. The price: where a number is made out of another
integer, its kind has to be said; at 50 ns a call this is not done for each record.
"""

from typing import NewType

TopicNumber = NewType("TopicNumber", int)
"""A topic in the catalog; never given to another topic, even of the same name."""

PartitionNumber = NewType("PartitionNumber", int)
"""A partition within its topic, from 0."""

ProducerId = NewType("ProducerId", int)
"""An idempotent producer, as the broker named it; -1: the producer is not one."""

TopicPartition = tuple[TopicNumber, PartitionNumber]
"""Topic number and partition number: the key of a partition within the broker."""

Superseded = tuple[ProducerId, TopicPartition, int]
"""An offset that is pending no more: whose, of which partition, and only if it was said
before this time (wall clock, ms)."""
