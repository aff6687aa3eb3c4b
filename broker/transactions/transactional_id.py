"""A transactional id: the machine that decides what each of its requests is answered.

One object per id, pure, in the manner of ``broker/groups``: ``decide`` takes a command
and returns a ``Decision``, ``apply`` changes the state by an event. ``states.py`` has
the table, ``initializing.py`` and ``ending.py`` the two longest commands; this file has
the others and the timers.

What must be durable before it is answered is one event (``WriteBegan``), as one row;
``Written`` is the command that says how it went. What the coordinator has to do beside
answering, writing markers, is no event: it is read off the state (``Transaction.owed``)
after each command, so a restart owes what a crash left undone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from broker.ids import ProducerId, TopicPartition
from broker.machine import Decision
from broker.protocol.errors import ErrorCode
from broker.transactions import ending, initializing
from broker.transactions.commands import (
    Add,
    Added,
    Command,
    End,
    Ended,
    Expire,
    Forget,
    InitProducer,
    MarkersWritten,
    Reply,
    Resume,
    TimerKey,
    Written,
)
from broker.transactions.draft import Draft
from broker.transactions.limits import TransactionLimits
from broker.transactions.metadata import TransactionMetadata
from broker.transactions.states import TransactionState
from broker.transactions.transaction import (
    Completed,
    EndAnswered,
    Transaction,
    TransactionEvent,
    WriteEnded,
    WriteFailed,
)


@dataclass(slots=True)
class TransactionalId:
    """The machine of one transactional id; ``transaction`` is its state."""

    limits: TransactionLimits
    transaction: Transaction

    def decide(
        self, command: Command, now_ms: int
    ) -> Decision[TransactionEvent, Reply]:
        """Return what a command means; ``now_ms`` is the wall clock."""
        draft = Draft(self.transaction, self.limits, now_ms)
        if self.transaction.metadata.state is not TransactionState.DEAD:
            _DECIDED[type(command)](draft, command)
        elif isinstance(command, InitProducer | Add | End):
            draft.refuse(command.ticket, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return draft.decision()

    def apply(self, event: TransactionEvent) -> None:
        """Change the state by one event."""
        self.transaction.apply(event)


def needs_producer_id(transaction: Transaction, command: InitProducer | End) -> bool:
    """Whether the command must bring a new producer id to be sure of success."""
    if isinstance(command, End):
        return ending.needs_producer_id(transaction.metadata, command.version)
    return initializing.needs_producer_id(transaction.metadata)


def verify(
    transaction: Transaction,
    producer_id: ProducerId,
    producer_epoch: int,
    part: TopicPartition | str,
) -> ErrorCode:
    """Whether this producer may write to a partition, or commit offsets of a group
    (its id), within the transaction now.

    Source: Kafka's ``handleVerifyPartitionsInTransaction``; unlike there, nothing is
    let in from the moment that an end is decided.
    """
    metadata = transaction.metadata
    code = _mismatch(metadata, producer_id, producer_epoch)
    if code is not ErrorCode.NONE:
        return code
    is_ending = any(one.is_prepared for one in transaction.writing.values())
    if is_ending or metadata.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    parts = metadata.groups if isinstance(part, str) else metadata.partitions
    if metadata.state is TransactionState.ONGOING and part in parts:
        return ErrorCode.NONE
    return ErrorCode.TRANSACTION_ABORTABLE


def _mismatch(
    metadata: TransactionMetadata, producer_id: ProducerId, producer_epoch: int
) -> ErrorCode:
    if metadata.is_ahead(producer_id, producer_epoch):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if metadata.is_new or metadata.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if metadata.producer_epoch != producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def _add(draft: Draft, command: Add) -> None:
    """Make parts of the transaction, which begins with the first of them.

    Of a producer that sends to several partitions at once each request adds one; they
    go to the disk together, and none is sent away because another is on its way.
    """
    transaction, metadata = draft.transaction, draft.transaction.metadata
    newest = transaction.newest
    is_changing = (
        transaction.is_pending and newest.state is not TransactionState.ONGOING
    )
    code = _mismatch(metadata, command.producer_id, command.producer_epoch)
    if code is not ErrorCode.NONE:
        draft.refuse(command.ticket, code)
    elif metadata.is_prepared or is_changing:
        draft.refuse(command.ticket, ErrorCode.CONCURRENT_TRANSACTIONS)
    elif _holds(metadata, command):
        draft.reply(command.ticket, Added())
    elif not _has_room(newest, command, draft.limits):
        # as Kafka's coordinator, whose record would be too large
        draft.refuse(command.ticket, ErrorCode.UNKNOWN_SERVER_ERROR)
    else:
        if newest.is_idle:
            draft.schedule(TimerKey.TIMEOUT, newest.timeout_ms)
            draft.cancel(TimerKey.COMPLETION)
        draft.write(_with(newest, command, draft.now_ms))
        draft.reply(command.ticket, Added())


def _holds(metadata: TransactionMetadata, command: Add) -> bool:
    """Whether all of it is part of the transaction, durably."""
    return (
        metadata.state is TransactionState.ONGOING
        and command.partitions <= metadata.partitions
        and command.groups <= metadata.groups
    )


def _has_room(
    metadata: TransactionMetadata, command: Add, limits: TransactionLimits
) -> bool:
    """Whether the groups that come may come; partitions are no more than there are."""
    new = command.groups - metadata.groups
    held = sum(map(len, metadata.groups)) if new else 0
    return held + sum(map(len, new)) <= limits.groups_bytes_max


def _with(
    metadata: TransactionMetadata, command: Add, now_ms: int
) -> TransactionMetadata:
    before = metadata.open_partitions
    # what is part already may have records of it: they are below where it ends now
    new = {key: start for key, start in command.starts if key not in before}
    return metadata.moved(
        TransactionState.ONGOING,
        now_ms,
        partitions=before | command.partitions,
        groups=metadata.groups | command.groups,
        started_ms=now_ms if metadata.is_idle else metadata.started_ms,
        version=command.version,
        starts=tuple(sorted((new | metadata.open_starts).items())),
    )


def _written(draft: Draft, command: Written) -> None:
    if command.code is ErrorCode.NONE:
        draft.record(WriteEnded(command.serial))
        return
    draft.record(WriteFailed(command.serial))
    failed = draft.transaction.writing[command.serial]
    if failed.is_prepared:
        _answer_ending(draft, command.code)
    _schedule_again(draft, failed.state)


def _schedule_again(draft: Draft, failed: TransactionState) -> None:
    """Set the timer whose work may have been what could not be written."""
    metadata, retry_ms = draft.transaction.metadata, draft.limits.retry_ms
    if metadata.state is TransactionState.ONGOING:
        if failed is not TransactionState.PREPARE_ABORT:
            return  # the timer runs
        left_ms = metadata.started_ms + metadata.timeout_ms - draft.now_ms
        left_ms = min(left_ms, metadata.timeout_ms)  # or the clock was set back
        draft.schedule(TimerKey.TIMEOUT, max(left_ms, retry_ms))
    elif metadata.is_complete:
        draft.schedule(TimerKey.COMPLETION, retry_ms)


def _answer_ending(draft: Draft, code: ErrorCode) -> None:
    for ticket in draft.transaction.ending:
        draft.refuse(ticket, code)
    draft.record(EndAnswered())


def _markers_written(draft: Draft, command: MarkersWritten) -> None:
    """Complete the transaction and answer who ended it.

    Nobody waits for the row that says so, and mostly it is never written.
    """
    transaction = draft.transaction
    if not transaction.metadata.is_prepared or command.serial != transaction.written:
        return
    metadata = ending.completed(transaction.metadata, draft.now_ms)
    draft.record(Completed(metadata))
    for ticket in transaction.ending:
        draft.reply(ticket, Ended(metadata.producer_id, metadata.producer_epoch))
    draft.record(EndAnswered())
    draft.cancel(TimerKey.TIMEOUT)
    draft.schedule(TimerKey.COMPLETION, draft.limits.completion_delay_ms)


def _expire(draft: Draft, command: Expire) -> None:
    if command.key is TimerKey.TIMEOUT:
        _time_out(draft)
    elif draft.transaction.is_behind:
        draft.write(draft.transaction.metadata)


def _time_out(draft: Draft) -> None:
    """Abort a transaction that lasts too long; what is on its way comes first."""
    if draft.transaction.is_pending:
        draft.schedule(TimerKey.TIMEOUT, draft.limits.retry_ms)
    elif draft.transaction.metadata.state is TransactionState.ONGOING:
        ending.fence(draft)


def _resume(draft: Draft, _: Resume) -> None:
    metadata = draft.transaction.metadata
    if metadata.state is TransactionState.ONGOING:
        left_ms = metadata.started_ms + metadata.timeout_ms - draft.now_ms
        left_ms = min(left_ms, metadata.timeout_ms)  # the clock was set back meanwhile
        draft.schedule(TimerKey.TIMEOUT, max(left_ms, draft.limits.resumed_ms))


def _forget(draft: Draft, _: Forget) -> None:
    """Source: Kafka's ``TransactionStateManager.maybePopulateExpiredTransaction``."""
    transaction, metadata = draft.transaction, draft.transaction.metadata
    silent_ms = draft.now_ms - metadata.updated_ms
    is_free = metadata.is_idle and not metadata.is_new and not transaction.writing
    if is_free and silent_ms >= draft.limits.id_expiration_ms:
        draft.write(metadata.moved(TransactionState.DEAD, draft.now_ms))


_DECIDED: Mapping[type[Command], Callable[[Draft, Any], None]] = MappingProxyType(
    {
        InitProducer: initializing.initialize,
        Add: _add,
        End: ending.end,
        MarkersWritten: _markers_written,
        Written: _written,
        Expire: _expire,
        Resume: _resume,
        Forget: _forget,
    }
)
