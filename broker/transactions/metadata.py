"""What is known of a transactional id, as one value that is written in one piece.

Kafka writes ``TransactionLogValue`` whenever any of it changes; so do we. A value never
changes: each step of a transaction is another value, made from the one before by
``moved``, and what is durable and what is on its way to be are two values of one kind.

The price: adding a partition to a transaction of a thousand writes a thousand and one.
"""

from typing import Any, Final, NamedTuple

from broker.ids import ProducerId, TopicPartition
from broker.transactions.states import (
    COMPLETE,
    IDLE,
    PREPARED,
    TransactionState,
    may_move,
)

NO_PRODUCER_ID: Final = ProducerId(-1)
NO_EPOCH: Final = -1
EPOCH_MAX: Final = 2**15 - 1
EPOCH_USABLE_MAX: Final = EPOCH_MAX - 1
"""The last epoch that a producer gets: one more is kept for fencing it."""
NO_TIME: Final = -1
KEPT_PARTITIONS_MAX: Final = 100
"""A complete transaction of more keeps none, so that an idle id stays small."""

V1: Final = 1
V2: Final = 2


class TransactionMetadata(NamedTuple):
    """A transactional id at one moment; names as in Kafka's ``TransactionMetadata``.

    ``previous_producer_id`` is the producer's id before the last change, and
    ``last_epoch`` the epoch before the last bump if that may be repeated by the same
    producer (KIP-360, KIP-890), else -1. ``next_producer_id`` is what it will be called
    once it is complete, if its epochs are used up. ``groups`` are the consumer groups
    whose offsets are part of the transaction. ``version`` is 1 or 2, as the producer
    spoke when it last began or ended one. Of one that is complete ``partitions`` are
    those that were part of it (``KEPT_PARTITIONS_MAX``): a start looks whether each has
    its marker still. ``starts`` are of version 1, and of the first one of version 2
    behind it: where a partition ended when it became part. What is open there from an
    offset below is an earlier transaction, of the same epoch.
    """

    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    state: TransactionState = TransactionState.EMPTY
    timeout_ms: int = 0
    previous_producer_id: ProducerId = NO_PRODUCER_ID
    next_producer_id: ProducerId = NO_PRODUCER_ID
    last_epoch: int = NO_EPOCH
    partitions: frozenset[TopicPartition] = frozenset()
    groups: frozenset[str] = frozenset()
    started_ms: int = NO_TIME
    updated_ms: int = NO_TIME
    version: int = V1
    starts: tuple[tuple[TopicPartition, int], ...] = ()

    @property
    def is_new(self) -> bool:
        """Whether no producer has an epoch of it yet."""
        return self.producer_epoch == NO_EPOCH

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer can be given no higher epoch."""
        return self.producer_epoch >= EPOCH_USABLE_MAX

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is open or being ended."""
        return self.state in IDLE

    @property
    def is_prepared(self) -> bool:
        """Whether it is decided how it ends, and not every marker is known to be
        written."""
        return self.state in PREPARED

    @property
    def is_complete(self) -> bool:
        return self.state in COMPLETE

    @property
    def is_fenced(self) -> bool:
        """Of a transaction that has its end: whether that bumped the epoch, as each
        does in version 2 and in version 1 an abort that fences the producer."""
        is_above = self.last_epoch == self.producer_epoch - 1 > NO_EPOCH
        return is_above or self.producer_epoch == EPOCH_MAX

    def is_ahead(self, producer_id: ProducerId, producer_epoch: int) -> bool:
        """Whether this is the producer as it is called once its end is complete.

        It was answered then; but Complete is written behind, and a broker that starts
        completes again what its row calls prepared.
        """
        if not self.is_prepared:
            return False
        rotates = self.next_producer_id != NO_PRODUCER_ID
        after = (self.next_producer_id, 0) if rotates else self[:2]
        return (producer_id, producer_epoch) == after

    @property
    def open_partitions(self) -> frozenset[TopicPartition]:
        """The partitions of a transaction that is not over."""
        return frozenset() if self.is_idle else self.partitions

    @property
    def open_starts(self) -> dict[TopicPartition, int]:
        """Where they ended when they became part."""
        return {} if self.is_idle else dict(self.starts)

    def moved(
        self, state: TransactionState, now_ms: int, **changes: Any
    ) -> "TransactionMetadata":
        """The value that follows this one."""
        assert may_move(self.state, state), f"{self.state} -> {state}"
        before = self.producer_id
        changes = {"previous_producer_id": before, "updated_ms": now_ms} | changes
        return self._replace(state=state, **changes)
