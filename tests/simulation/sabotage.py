"""Defects, put into the broker: what the simulation must be able to find.

Each is a context in which the broker behaves as it did before a mend, or without one of
its safeguards.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from broker.catalog import pending_offsets
from broker.catalog import topics as stored
from broker.groups import classic, joining
from broker.groups.commands import AdmitCommit
from broker.groups.group import Group
from broker.ids import ProducerId
from broker.log import restoring
from broker.log.partition import LogSnapshot, PartitionLog
from broker.log.producers import Duplicate, Producers
from broker.network.blocks import Arena
from broker.network.connection import Connection
from broker.network.receiver import Receiver
from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import BatchHeader
from broker.runtime.coordination.machines import Hosted
from broker.runtime.partitions import restore
from broker.runtime.partitions.partition import Partition
from broker.runtime.topics.topics import Topics
from broker.storage import appender, restart
from broker.storage.active_segment import ActiveSegment
from broker.storage.committed_position import CommittedPosition, CommittedPositionFile
from broker.storage.wal import Wal
from broker.topics.topic import Topic
from broker.transactions import ending, transactional_id
from broker.transactions.commands import End
from broker.transactions.metadata import NO_EPOCH, TransactionMetadata
from broker.transactions.states import TransactionState
from broker.transactions.transaction import Transaction


@contextlib.contextmanager
def _replaced(owner: Any, name: str, other: Callable[..., Any]) -> Iterator[None]:
    kept = owner.__dict__[name]
    setattr(owner, name, other)
    try:
        yield
    finally:
        setattr(owner, name, kept)


@contextlib.contextmanager
def reused_receive_memory() -> Iterator[None]:
    """Frames are claimed when a step ends, but not if it closed the connection."""
    next_frame, rest = Receiver.next_frame, Receiver.rest

    def unclaimed(self: Receiver) -> Any:
        with _replaced(Arena, "claim", lambda *_: None):
            return next_frame(self)

    def claiming(self: Receiver) -> bool:
        if self._view is not None and self._block is None and self._leftover is None:
            self._arena.claim(self._position)
        return rest(self)

    with (
        _replaced(Receiver, "next_frame", unclaimed),
        _replaced(Receiver, "rest", claiming),
    ):
        yield


@contextlib.contextmanager
def deletion_before_its_commit() -> Iterator[None]:
    """A topic vanishes before the catalog has committed that."""

    async def delete(self: Topics, topic: Topic) -> None:
        self._require(topic)
        now_ms = self._clock.now_ms()
        for table in (self._by_name, self._by_id, self._by_number):
            for key, value in list(table.items()):
                if value.number == topic.number:
                    del table[key]
        try:
            await self._commit(
                lambda connection: stored.delete(connection, topic.number, now_ms)
            )
        except BaseException:
            self._put(topic)
            raise
        for watcher in self._watchers:
            watcher.topic_deleted(topic)

    with _replaced(Topics, "delete", delete):
        yield


@contextlib.contextmanager
def trust_in_the_page_cache() -> Iterator[None]:
    """A start takes what it reads for durable, and what was refused for written."""
    with (
        _replaced(restart, "_write_again", lambda *_: None),
        _replaced(CommittedPositionFile, "finish", lambda *_: None),
    ):
        yield


@contextlib.contextmanager
def checkpoints_of_what_is_in_flight() -> Iterator[None]:
    """A checkpoint keeps batches that may still be refused; offsets decide later."""

    def snapshot(self: PartitionLog) -> LogSnapshot:
        kept = self.producers.snapshot()
        return LogSnapshot(self.offsets.durable, kept, tuple(self.holes))

    def restored(snapshot: LogSnapshot | None, **more: Any) -> PartitionLog:
        log = restoring.restore_log(snapshot, **more)
        if snapshot is not None:
            restoring._abandon_refused(log, max(snapshot.durable, more["table_end"]))
        return log

    def checkpoint(self: Wal, payload: Any, _finished: Any = None) -> None:
        pieces = payload if isinstance(payload, tuple) else (payload,)

        def note() -> None:
            if self._writer.failed is None:
                self._recycler.checkpoint(pieces, *self._appender.position())

        self._writer.call(note)

    with (
        _replaced(PartitionLog, "snapshot", snapshot),
        _replaced(restore, "restore_log", restored),
        _replaced(Wal, "checkpoint", checkpoint),
    ):
        yield


@contextlib.contextmanager
def requests_that_overtake() -> Iterator[None]:
    """A request starts when it is there, whatever is open before it."""
    with _replaced(Connection, "_is_held", lambda _: False):
        yield


@contextlib.contextmanager
def markers_before_their_data() -> Iterator[None]:
    """A batch is found to be of the transaction when it comes, and appended a while
    later: its marker may be first."""
    append = Partition.append

    def late(self: Partition, records: Any, *given: Any, **more: Any) -> None:
        def now() -> None:
            append(self, records, *given, **more)

        if more.get("in_transaction"):
            records = bytearray(records)
            asyncio.get_running_loop().call_later(0.03, now)
        else:
            now()

    with _replaced(Partition, "append", late):
        yield


@contextlib.contextmanager
def the_first_open_record_is_stable() -> Iterator[None]:
    """The last stable offset is one too high while a transaction is open."""
    stable_below = PartitionLog._stable_below

    def one_more(self: PartitionLog, durable: int) -> int:
        return min(stable_below(self, durable) + 1, durable)

    with _replaced(PartitionLog, "_stable_below", one_more):
        yield


@contextlib.contextmanager
def nobody_is_fenced() -> Iterator[None]:
    """The coordinator takes partitions and batches of every epoch of its producer."""

    def mismatch(
        metadata: TransactionMetadata, producer_id: ProducerId, _epoch: int
    ) -> ErrorCode:
        if metadata.is_new or metadata.producer_id != producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return ErrorCode.NONE

    with _replaced(transactional_id, "_mismatch", mismatch):
        yield


@contextlib.contextmanager
def ends_that_bump_no_epoch() -> Iterator[None]:
    """In version 2 an epoch lasts as long as its producer, as in version 1."""
    prepared = ending.prepared

    def unbumped(
        metadata: TransactionMetadata, now_ms: int, **how: Any
    ) -> TransactionMetadata:
        found = prepared(metadata, now_ms, **how)
        if how.get("fences"):
            return found
        epoch = metadata.producer_epoch
        return found._replace(producer_epoch=epoch, last_epoch=NO_EPOCH)

    with _replaced(ending, "prepared", unbumped):
        yield


@contextlib.contextmanager
def ends_of_any_epoch() -> Iterator[None]:
    """In version 2 an EndTxn ends what is open, be it delayed from an earlier one."""
    refusal = ending._refusal_v2

    def ends_it(transaction: Transaction, command: End) -> ErrorCode | None:
        metadata = transaction.metadata
        is_its = command.producer_id == metadata.producer_id
        is_open = metadata.state is TransactionState.ONGOING
        if is_its and is_open and not transaction.is_pending:
            return None
        return refusal(transaction, command)

    with _replaced(ending, "_refusal_v2", ends_it):
        yield


@contextlib.contextmanager
def transactions_over_before_their_sync() -> Iterator[None]:
    """In the relaxed mode a transaction is over when its markers are written."""
    with _replaced(appender, "_has_marker", lambda _: False):
        yield


@contextlib.contextmanager
def what_was_written_counts_as_synced() -> Iterator[None]:
    """A start calls damaged what the relaxed mode had not synced yet."""
    with _replaced(CommittedPosition, "durable_end", CommittedPosition.end):
        yield


@contextlib.contextmanager
def pending_offsets_that_a_start_forgets() -> Iterator[None]:
    """Offsets that wait for the end of their transaction do not outlive a broker."""
    with _replaced(pending_offsets, "load", lambda _: {}):
        yield


@contextlib.contextmanager
def sequences_unchecked() -> Iterator[None]:
    """A batch is appended whatever its sequence is, gaps and repetitions alike."""
    check = Producers.check

    def anything(
        self: Producers, header: BatchHeader, *, starts_at_zero: bool = False
    ) -> Duplicate | None:
        try:
            check(self, header, starts_at_zero=starts_at_zero)
        except KafkaError as error:
            if error.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                raise
        return None

    with _replaced(Producers, "check", anything):
        yield


@contextlib.contextmanager
def gaps_unchecked() -> Iterator[None]:
    """A batch is appended whose predecessor is missing; a repetition is known."""
    check = Producers.check

    def ahead(
        self: Producers, header: BatchHeader, *, starts_at_zero: bool = False
    ) -> Duplicate | None:
        try:
            return check(self, header, starts_at_zero=starts_at_zero)
        except KafkaError as error:
            if error.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                raise
            return None

    with _replaced(Producers, "check", ahead):
        yield


@contextlib.contextmanager
def duplicates_refused() -> Iterator[None]:
    """A batch that is there already is refused; where it is, is not said."""
    check = Producers.check

    def refusing(
        self: Producers, header: BatchHeader, *, starts_at_zero: bool = False
    ) -> Duplicate | None:
        if check(self, header, starts_at_zero=starts_at_zero) is not None:
            raise KafkaError(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, "it is there")
        return None

    with _replaced(Producers, "check", refusing):
        yield


@contextlib.contextmanager
def stale_members_that_commit() -> Iterator[None]:
    """A commit of any generation is taken, of who is a member and of who was."""
    with _replaced(classic, "_commit_refusal", lambda *_: ErrorCode.NONE):
        yield


@contextlib.contextmanager
def generations_unchecked() -> Iterator[None]:
    """A member may commit in any generation, an older one as well."""

    def known(group: Group, command: AdmitCommit) -> ErrorCode:
        return joining.refusal(group, command.member_id, command.instance_id)

    with _replaced(classic, "_commit_refusal", known):
        yield


@contextlib.contextmanager
def answers_before_they_are_durable() -> Iterator[None]:
    """What a coordinator writes (offsets, generations, ends of transactions) is
    answered and seen as soon as it is on its way to the catalog."""

    def at_once(self: Hosted[Any], command: Any) -> None:
        decision = self._carry_out(command)
        durable = [event for event in decision.events if event.durable]
        if durable:
            self._journal.write(partial(self._store, durable), lambda _: None)
            self._done(decision, durable, None)
        else:
            self._answer(decision.replies)

    with _replaced(Hosted, "ask", at_once):
        yield


@contextlib.contextmanager
def records_that_are_not_synced() -> Iterator[None]:
    """A batch is acknowledged when it is written; the disk may not have it."""
    with _replaced(ActiveSegment, "sync", lambda _: None):
        yield
