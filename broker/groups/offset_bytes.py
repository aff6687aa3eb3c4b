"""About what committed offsets take in memory: how much a group may have is bounded."""

from collections.abc import Mapping

from broker.groups.offsets import Committed
from broker.ids import TopicPartition

GROUP_OFFSETS_BYTES, OFFSET_BYTES = 512, 256
"""What a group with offsets takes beside its id, and an offset beside its metadata."""


def bytes_of(offsets: Mapping[TopicPartition, Committed]) -> int:
    """About what offsets take, whoever has them."""
    metadata = sum(len(one.metadata) for one in offsets.values())
    return OFFSET_BYTES * len(offsets) + metadata


def group_bytes_of(group_id: str, offsets: Mapping[TopicPartition, Committed]) -> int:
    """About what offsets of a group take that are not the group's yet."""
    return GROUP_OFFSETS_BYTES + len(group_id) + bytes_of(offsets)


def added_bytes(
    group_id: str,
    there: Mapping[TopicPartition, Committed] | None,
    upserts: Mapping[TopicPartition, Committed],
) -> int:
    """How much more they take if these come to those that are ``there``."""
    if there is None:
        return group_bytes_of(group_id, upserts)
    added = 0
    for key, committed in upserts.items():
        before = there.get(key)
        added += len(committed.metadata)
        added += OFFSET_BYTES if before is None else -len(before.metadata)
    return added
