"""The end of a transaction, decided: by its producer, by its timeout, by a successor.

Ending has two steps, and this file has both. *Preparing* decides how it ends; once that
is durable it is so for ever. *Completing* follows when every partition has its marker.

In version 1 an epoch lasts as long as its producer. A repeated EndTxn is known by the
state alone, so one that was delayed can end a later transaction. In version 2 (KIP-890)
each end bumps the epoch, markers carry the new one, and what comes with an old epoch is
a retry or is fenced, by this table ("retry": the epoch before the current one):

                     abort, retry   abort, current   commit, retry   commit, current
    Empty            90             ends             90              48
    CompleteAbort    ok             ends             48              48
    CompleteCommit   48             ends             ok              48

    48 INVALID_TXN_STATE    90 PRODUCER_FENCED
    "ends": there is nothing to abort that we know of, but the epoch is bumped, so that
    what the producer is not sure to have sent is fenced

While an end is being completed its own retry hears 51 (CONCURRENT_TRANSACTIONS), and so
does the producer as it is called afterwards: over a restart it knows that already.

Source: Kafka's ``TransactionCoordinator.endTransaction``, ``endTransactionWithTV1``,
``TransactionMetadata.prepareAbortOrCommit`` and ``prepareComplete``.
"""

from typing import Final

from broker.ids import ProducerId
from broker.protocol.errors import ErrorCode
from broker.transactions.commands import End, Ended
from broker.transactions.draft import Draft
from broker.transactions.metadata import (
    EPOCH_MAX,
    EPOCH_USABLE_MAX,
    KEPT_PARTITIONS_MAX,
    NO_EPOCH,
    NO_PRODUCER_ID,
    V2,
    TransactionMetadata,
)
from broker.transactions.states import TransactionState
from broker.transactions.transaction import EndParked, Transaction

_COMMITS: Final = (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)


def end(draft: Draft, command: End) -> None:
    """Prepare the end that a producer asks for, or answer what there is to say."""
    decide = _refusal_v2 if command.version >= V2 else _refusal_v1
    code = decide(draft.transaction, command)
    metadata = draft.transaction.metadata
    if code is None:
        _prepare(draft, command, metadata)
    elif code is ErrorCode.NONE:
        ended = Ended(metadata.producer_id, metadata.producer_epoch)
        draft.reply(command.ticket, ended)
    else:
        draft.refuse(command.ticket, code)


def needs_producer_id(metadata: TransactionMetadata, version: int) -> bool:
    """Whether the end may have to name a new producer id."""
    return version >= V2 and metadata.is_exhausted


def fence(draft: Draft) -> None:
    """Prepare an abort under an epoch that no producer has been given.

    Until somebody else comes the producer may ask for it, as if its answer had been
    lost: as who goes on (KIP-360), and in version 2 by aborting.
    """
    metadata = draft.transaction.metadata
    draft.write(
        prepared(
            metadata,
            draft.now_ms,
            commit=False,
            version=metadata.version,
            fences=True,
        )
    )


def _prepare(draft: Draft, command: End, metadata: TransactionMetadata) -> None:
    exhausted = needs_producer_id(metadata, command.version)
    if exhausted and command.new_producer_id == NO_PRODUCER_ID:
        # it was not known that one is needed
        draft.refuse(command.ticket, ErrorCode.CONCURRENT_TRANSACTIONS)
        return
    next_id = command.new_producer_id if exhausted else NO_PRODUCER_ID
    draft.write(
        prepared(
            metadata,
            draft.now_ms,
            commit=command.commit,
            version=command.version,
            next_producer_id=next_id,
        )
    )
    draft.record(EndParked(command.ticket))


def prepared(
    metadata: TransactionMetadata,
    now_ms: int,
    *,
    commit: bool,
    version: int,
    fences: bool = False,
    next_producer_id: ProducerId = NO_PRODUCER_ID,
) -> TransactionMetadata:
    """The value of a transaction whose end is decided."""
    epoch, last_epoch = metadata.producer_epoch, NO_EPOCH
    if fences or version >= V2:
        epoch, last_epoch = min(epoch + 1, EPOCH_MAX), epoch
    if fences and metadata.is_exhausted:
        last_epoch = NO_EPOCH
    state = (
        TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
    )
    return metadata.moved(
        state,
        now_ms,
        producer_epoch=epoch,
        last_epoch=last_epoch,
        next_producer_id=next_producer_id,
        partitions=metadata.open_partitions,
        starts=tuple(metadata.open_starts.items()),
        started_ms=now_ms if metadata.is_idle else metadata.started_ms,
        version=version,
    )


def completed(metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """The value of a prepared transaction once its markers are written."""
    rotates = metadata.next_producer_id != NO_PRODUCER_ID
    is_kept = len(metadata.partitions) <= KEPT_PARTITIONS_MAX
    return metadata.moved(
        TransactionState.COMPLETE_COMMIT
        if metadata.state is TransactionState.PREPARE_COMMIT
        else TransactionState.COMPLETE_ABORT,
        now_ms,
        producer_id=metadata.next_producer_id if rotates else metadata.producer_id,
        producer_epoch=0 if rotates else metadata.producer_epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions=metadata.partitions if is_kept else frozenset(),
        starts=metadata.starts if is_kept else (),
        groups=frozenset(),
    )


def uncompleted(metadata: TransactionMetadata) -> TransactionMetadata:
    """The value of a complete transaction before its markers were written: what
    ``completed`` was given, but for its groups, whose offsets are no matter of
    markers."""
    rotated = metadata.previous_producer_id != metadata.producer_id
    return metadata._replace(
        state=TransactionState.PREPARE_COMMIT
        if metadata.state is TransactionState.COMPLETE_COMMIT
        else TransactionState.PREPARE_ABORT,
        producer_id=metadata.previous_producer_id,
        producer_epoch=EPOCH_MAX if rotated else metadata.producer_epoch,
        next_producer_id=metadata.producer_id if rotated else NO_PRODUCER_ID,
    )


def _refusal_v1(transaction: Transaction, command: End) -> ErrorCode | None:
    """NONE: it has ended so already; None: it is to be ended."""
    metadata = transaction.metadata
    if metadata.is_new or command.producer_id != metadata.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if command.producer_epoch != metadata.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if transaction.is_pending:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if metadata.state is TransactionState.ONGOING:
        return None
    if metadata.state is TransactionState.EMPTY:
        return ErrorCode.INVALID_TXN_STATE
    return _as_before(metadata, command)


def _refusal_v2(transaction: Transaction, command: End) -> ErrorCode | None:
    metadata = transaction.metadata
    if metadata.is_ahead(command.producer_id, command.producer_epoch):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    rotated = _rotated_since(metadata, command)
    if metadata.is_new or (command.producer_id != metadata.producer_id and not rotated):
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.is_pending:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    is_retry = rotated or _bumped_since(metadata, command)
    is_current = not rotated and command.producer_epoch == metadata.producer_epoch
    if metadata.is_prepared:
        return _as_before(metadata, command) if is_retry else ErrorCode.PRODUCER_FENCED
    if is_retry and metadata.is_complete:
        return _as_before(metadata, command)
    if not is_current:
        return ErrorCode.PRODUCER_FENCED
    if metadata.state is TransactionState.ONGOING or not command.commit:
        return None
    return ErrorCode.INVALID_TXN_STATE


def _bumped_since(metadata: TransactionMetadata, command: End) -> bool:
    """Whether the answer would have been the current epoch, and was lost.

    The epochs alone do not say so: an abort that fences at the last epoch has no room
    for two, and would take the fenced producer for one that asks again.
    """
    bumped = command.producer_epoch + 1 == metadata.producer_epoch
    return bumped and command.producer_epoch == metadata.last_epoch


def _rotated_since(metadata: TransactionMetadata, command: End) -> bool:
    """Whether the answer would have been a new producer id, and was lost."""
    return (
        command.producer_id == metadata.previous_producer_id != metadata.producer_id
        and command.producer_epoch == metadata.last_epoch == EPOCH_USABLE_MAX
        and metadata.producer_epoch == 0
    )


def _as_before(metadata: TransactionMetadata, command: End) -> ErrorCode:
    """The answer to who ends again what is ended, or is being."""
    if command.commit is not (metadata.state in _COMMITS):
        return ErrorCode.INVALID_TXN_STATE
    if metadata.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.NONE
