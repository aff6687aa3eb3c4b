"""Committed offsets: what one is, and when it may be forgotten.

A committed offset outlives the consumers that wrote it, and nobody ever says that it is
no longer needed. KIP-211's answer, which is ours: as long as a group has members,
nothing they read is forgotten; once it is empty, its offsets live for the retention
from that moment, or from their own commit if that was later.

Two deviations, both to the safe side. Kafka counts from the emptying alone, so that a
simple consumer which commits into a once managed group can lose what it just wrote. And
a group that never had members counts as emptied when the broker started: a restart
makes its offsets live longer, never shorter.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from broker.ids import TopicNumber, TopicPartition

NO_EXPIRY = -1


class Committed(NamedTuple):
    """One committed offset.

    ``expires_ms`` is set only by OffsetCommit v2 to v4 with a retention of its own;
    ``NO_EXPIRY`` leaves it to the broker's.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    committed_ms: int = 0
    expires_ms: int = NO_EXPIRY

    def is_older_than(self, other: "Committed") -> bool:
        """Whether it was said before; see `Commits` of what is said at once."""
        return self.committed_ms < other.committed_ms


class RetentionState(NamedTuple):
    """What is known of a group: since when it is empty, or what its members read.

    ``empty_since_ms`` is None while there are members; ``subscribed`` is None unless
    it is certain that nothing else is read.
    """

    empty_since_ms: int | None
    subscribed: frozenset[str] | None = None


def expired(
    offsets: Mapping[TopicPartition, Committed],
    retention_state: RetentionState,
    name_of: Callable[[TopicNumber], str | None],
    *,
    now_ms: int,
    retention_ms: int,
) -> Iterator[TopicPartition]:
    """The partitions whose offset may be forgotten now.

    ``name_of`` knows the topics that exist: an offset of any other is meaningless,
    since numbers are never used again.
    """
    for key, committed in offsets.items():
        name = name_of(key[0])
        if name is None or (
            _may_expire(retention_state, name)
            and _deadline_ms(committed, retention_state, retention_ms) <= now_ms
        ):
            yield key


def _may_expire(retention_state: RetentionState, topic_name: str) -> bool:
    if retention_state.empty_since_ms is not None:
        return True
    return (
        retention_state.subscribed is not None
        and topic_name not in retention_state.subscribed
    )


def _deadline_ms(
    committed: Committed, retention_state: RetentionState, retention_ms: int
) -> int:
    if committed.expires_ms != NO_EXPIRY:
        return committed.expires_ms
    empty_since_ms = retention_state.empty_since_ms
    since_ms = committed.committed_ms
    if empty_since_ms is not None and empty_since_ms > since_ms:
        since_ms = empty_since_ms
    return since_ms + retention_ms
