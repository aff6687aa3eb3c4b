"""InitProducerId, decided: an epoch for who comes, and the end of who was there.

A new instance of a producer names itself by its transactional id alone and gets the
next epoch: whoever has an older one is fenced from then on (KIP-98). A producer that
goes on after an error says which id and epoch it has (KIP-360): it gets the next epoch
only if nobody came in between, and may ask twice, since its answer may be lost. An
epoch has 15 bits; when they are used up it goes on with a new producer id and epoch 0.

While a transaction is open it is aborted first, under an epoch that nobody gets, and
who asked is told to come again.

Source: Kafka's ``TransactionCoordinator.prepareInitProducerIdTransit`` and
``TransactionMetadata.prepareIncrementProducerEpoch``.
"""

from typing import Any

from broker.protocol.errors import ErrorCode
from broker.transactions import ending
from broker.transactions.commands import Initialized, InitProducer
from broker.transactions.draft import Draft
from broker.transactions.metadata import (
    EPOCH_MAX,
    EPOCH_USABLE_MAX,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    TransactionMetadata,
)
from broker.transactions.states import TransactionState


def initialize(draft: Draft, command: InitProducer) -> None:
    """Give the producer its next epoch, or say why not."""
    code = _refusal(draft, command)
    metadata = draft.transaction.metadata
    if code is not ErrorCode.NONE:
        draft.refuse(command.ticket, code)
    elif metadata.state is TransactionState.ONGOING:
        ending.fence(draft)
        draft.refuse(command.ticket, ErrorCode.CONCURRENT_TRANSACTIONS)
    else:
        _give_epoch(draft, command, metadata)


def needs_producer_id(metadata: TransactionMetadata) -> bool:
    """Whether the next epoch may be that of a new producer id."""
    return metadata.is_new or metadata.is_exhausted


def _refusal(draft: Draft, command: InitProducer) -> ErrorCode:
    if not 0 < command.timeout_ms <= draft.limits.timeout_max_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    metadata = draft.transaction.metadata
    if draft.transaction.is_pending or metadata.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if not _is_known(metadata, command):
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def _is_known(metadata: TransactionMetadata, command: InitProducer) -> bool:
    """Whether the producer that it says it is may be the current one.

    A new id takes anybody: the coordinator has forgotten a producer that lives on. The
    id before the current one asks again if its epochs were used up.
    """
    expected = command.producer_id
    if expected == NO_PRODUCER_ID or metadata.is_new:
        return True
    before = expected == metadata.previous_producer_id
    exhausted = command.producer_epoch >= EPOCH_USABLE_MAX
    return expected == metadata.producer_id or (before and exhausted)


def _give_epoch(
    draft: Draft, command: InitProducer, metadata: TransactionMetadata
) -> None:
    changes = _next_epoch(metadata, command)
    if changes is None:
        draft.refuse(command.ticket, ErrorCode.PRODUCER_FENCED)
    elif changes.get("producer_id") == NO_PRODUCER_ID:  # it was not known that one is
        draft.refuse(command.ticket, ErrorCode.CONCURRENT_TRANSACTIONS)  # needed
    else:
        given = metadata.moved(
            TransactionState.EMPTY,
            draft.now_ms,
            timeout_ms=command.timeout_ms,
            partitions=frozenset(),
            starts=(),
            groups=frozenset(),
            started_ms=NO_TIME,
            **changes,
        )
        draft.write(given)
        reply = Initialized(given.producer_id, given.producer_epoch)
        draft.reply(command.ticket, reply)


def _next_epoch(
    metadata: TransactionMetadata, command: InitProducer
) -> dict[str, Any] | None:
    """What changes of id and epochs; None if the producer is fenced."""
    epoch, goes_on = metadata.producer_epoch, command.producer_id != NO_PRODUCER_ID
    last_epoch = epoch if goes_on else NO_EPOCH
    is_current = (command.producer_id, command.producer_epoch) == metadata[:2]
    if metadata.producer_epoch == EPOCH_MAX and _had_the_last_epoch(metadata, command):
        is_current = True  # and nobody came since it was fenced: there is no such epoch
    if metadata.is_new or (metadata.is_exhausted and (is_current or not goes_on)):
        return {
            "producer_id": command.new_producer_id,
            "producer_epoch": 0,
            "last_epoch": last_epoch,
        }
    if is_current or not goes_on:
        return {"producer_epoch": epoch + 1, "last_epoch": last_epoch}
    if command.producer_epoch == metadata.last_epoch:  # it asks again
        return {"previous_producer_id": metadata.previous_producer_id}
    return None


def _had_the_last_epoch(metadata: TransactionMetadata, command: InitProducer) -> bool:
    """Whether it is the one that was fenced by the epoch that nobody is given."""
    last = (metadata.producer_id, EPOCH_USABLE_MAX)
    return (command.producer_id, command.producer_epoch) == last
