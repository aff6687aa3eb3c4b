"""What a transactional id is asked, and what it answers.

As in ``broker/groups``: a command carries a *ticket*, and an answer names the ticket
that it is for. Chance is an argument: a command that may need a new producer id brings
one (``coordinator.needs_producer_id`` says whether it does).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from broker.ids import ProducerId, TopicPartition
from broker.machine import Ticket
from broker.protocol.errors import ErrorCode
from broker.transactions.metadata import NO_EPOCH, NO_PRODUCER_ID, V1


@dataclass(frozen=True, slots=True)
class InitProducer:
    """A producer wants an epoch: InitProducerId.

    ``producer_id`` and ``producer_epoch`` are what it has (KIP-360), or -1 both.
    """

    timeout_ms: int
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    new_producer_id: ProducerId = NO_PRODUCER_ID
    ticket: Ticket = None


@dataclass(frozen=True, slots=True)
class Add:
    """Partitions, and the offsets of groups, become part of the transaction.

    AddPartitionsToTxn, AddOffsetsToTxn; in version 2 also Produce and TxnOffsetCommit.
    """

    producer_id: ProducerId
    producer_epoch: int
    partitions: frozenset[TopicPartition] = frozenset()
    groups: frozenset[str] = frozenset()
    version: int = V1
    ticket: Ticket = None
    starts: tuple[tuple[TopicPartition, int], ...] = ()
    """Of version 1: where partitions end now."""


@dataclass(frozen=True, slots=True)
class End:
    """The transaction is to be committed or aborted: EndTxn, of version 1 or 2."""

    producer_id: ProducerId
    producer_epoch: int
    commit: bool
    version: int = V1
    new_producer_id: ProducerId = NO_PRODUCER_ID
    ticket: Ticket = None


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """Each partition and group has the marker that ``Owed.serial`` asked for."""

    serial: int


@dataclass(frozen=True, slots=True)
class Written:
    """The value of this serial is durable, or could not be written (``code``)."""

    serial: int
    code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class Expire:
    """A timer ran out."""

    key: "TimerKey"


@dataclass(frozen=True, slots=True)
class Resume:
    """The id was read from the catalog: the time of its transaction runs on."""


@dataclass(frozen=True, slots=True)
class Forget:
    """The id is to be forgotten if nobody has used it for long enough."""


@dataclass(frozen=True, slots=True)
class Initialized:
    """The producer's id and epoch from now on; all before are fenced."""

    producer_id: ProducerId
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Added:
    """What was to be added is part of the transaction."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The transaction is over, and read so; id and epoch for the next one (v2)."""

    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class Refused:
    """A Kafka error, in today's words: older versions know some by other codes."""

    code: ErrorCode


Reply = Initialized | Added | Ended | Refused


class TimerKey(StrEnum):
    """What a transactional id waits for; starting a timer again replaces it."""

    TIMEOUT = "timeout"  # the producer to end its transaction
    COMPLETION = "completion"  # something newer to be written than that it is complete


class Owed(NamedTuple):
    """Markers that must be written before the transaction is complete.

    ``serial`` names the decision: it goes back with ``MarkersWritten``. ``fences``: the
    epoch is one that no producer has, above that of the records.
    """

    serial: int
    producer_id: ProducerId
    producer_epoch: int
    commit: bool
    partitions: frozenset[TopicPartition]
    groups: frozenset[str]
    version: int
    fences: bool = False
    starts: tuple[tuple[TopicPartition, int], ...] = ()


Command = InitProducer | Add | End | MarkersWritten | Written | Expire | Resume | Forget
