"""The transaction coordinator: where pure transactional ids meet futures and the clock.

A transactional id decides (``broker/transactions``), ``machines.py`` carries out what
it decided; this keeps all ids and gives each command a future as its ticket, as
``coordinator.py`` does for groups. After each change of an id it looks at what the id
owes: markers that it has not begun to write yet are begun (``markers.py``), and when
all are durable the id is told.

A broker that comes back goes on with what it finds: what is prepared is completed, what
is open is open for the rest of its time, and for ten seconds at least. What is complete
and open in a log all the same has lost its marker there: it is prepared again, and as
long as it is nobody writes under its id.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol

import structlog
from sqlalchemy import Connection

from broker.catalog import transactions as stored
from broker.catalog.catalog import Catalog
from broker.clock import Clock
from broker.ids import ProducerId, TopicPartition
from broker.protocol.errors import ErrorCode
from broker.runtime.coordination.journal import Journal
from broker.runtime.coordination.machines import Hosted, Shape, resolve
from broker.timing.delayed import TimerHandle, Timers
from broker.transactions import ending
from broker.transactions import transactional_id as ids
from broker.transactions.commands import (
    Add,
    Added,
    Command,
    End,
    Ended,
    Expire,
    Forget,
    Initialized,
    InitProducer,
    MarkersWritten,
    Owed,
    Refused,
    Resume,
    Written,
)
from broker.transactions.limits import TransactionLimits
from broker.transactions.metadata import NO_PRODUCER_ID, V2, TransactionMetadata
from broker.transactions.snapshot import decode, encode
from broker.transactions.states import TransactionState
from broker.transactions.transaction import Transaction, WriteBegan, owed_by
from broker.transactions.transactional_id import TransactionalId

SWEPT_EVERY_MS: Final = 60 * 60 * 1_000
"""Kafka's ``transaction.remove.expired.transaction.cleanup.interval.ms``."""
SWEPT_A_TURN: Final = 1_000

log = structlog.get_logger("lakelog.transactions")


class WritesMarkers(Protocol):
    """What is asked of ``markers.py``."""

    def write(self, owed: Owed, done: Callable[[], None], /) -> None: ...

    def lacking(self, owed: Owed, /) -> frozenset[TopicPartition]: ...

    def ends(
        self, partitions: frozenset[TopicPartition], /
    ) -> Iterator[tuple[TopicPartition, int]]: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class _Hosted:
    """An id, the runtime of its machine, and the serial of the markers it has begun."""

    transaction: Transaction
    machine: Hosted[Command]
    begun: int | None = None
    producer_id: ProducerId = NO_PRODUCER_ID
    """By which it is found."""


def limits_of(settings: Any) -> TransactionLimits:
    """The limits that the broker's settings (``settings.transactions``) ask for."""
    asked = settings.transactions
    return TransactionLimits(
        timeout_max_ms=asked.max_timeout_ms,
        id_expiration_ms=asked.id_expiration_ms,
        ids_max=asked.ids_max,
    )


class TransactionCoordinator:
    """All transactional ids of this broker. For the event loop's thread only."""

    def __init__(
        self,
        catalog: Catalog,
        timers: Timers,
        clock: Clock,
        limits: TransactionLimits,
        markers: WritesMarkers,
    ) -> None:
        self.limits = limits
        self._journal = Journal(catalog, "transactions")
        self._timers = timers
        self._clock = clock
        self._markers = markers
        self._hosted: dict[str, _Hosted] = {}
        self._by_producer: dict[ProducerId, str] = {}
        self._sweep: TimerHandle | None = None
        self._closed = False

    def load(self) -> None:
        """Read every id; open transactions' time runs on, and what is owed is begun.

        Blocks; on the loop, once partitions and committed offsets are there. An id that
        cannot be read is told in the log and left out.
        """
        for transactional_id, value in self._journal.catalog.read(stored.load).items():
            try:
                metadata = decode(value)
            except ValueError as error:
                log.error(
                    "a transactional id is forgotten",
                    transactional_id=transactional_id,
                    error=str(error),
                )
                continue
            metadata = self._clipped(transactional_id, metadata)
            found = self._found(transactional_id, metadata)
            hosted = self._host(Transaction(transactional_id, found))
            hosted.machine.ask(Resume())
            self._changed(hosted)

    def _clipped(
        self, transactional_id: str, metadata: TransactionMetadata
    ) -> TransactionMetadata:
        """A partition that lost its end is given these offsets again: what is open
        begins there at the latest. Each start that follows should know, too; should it
        not, it takes what was written since for undecided."""
        ends = dict(self._markers.ends(metadata.open_partitions))
        starts = tuple(
            (key, min(start, ends.get(key, start)))
            for key, start in metadata.open_starts.items()
        )
        if starts == tuple(metadata.open_starts.items()):
            return metadata
        clipped = metadata._replace(starts=starts)
        store = partial(stored.store, transactional_id=transactional_id)
        self._journal.write(partial(store, value=encode(clipped)), lambda _error: None)
        return clipped

    def _found(
        self, transactional_id: str, metadata: TransactionMetadata
    ) -> TransactionMetadata:
        """What a start makes of a row: one that is complete and has lost markers is
        prepared, where it lacks them."""
        if not metadata.is_complete:
            return metadata
        prepared = ending.uncompleted(metadata)
        lacking = self._markers.lacking(owed_by(prepared, 0))
        if not lacking:
            return metadata
        log.error(
            "markers of a transaction that is over are lost and written again",
            transactional_id=transactional_id, partitions=sorted(lacking),
        )  # fmt: skip
        return prepared._replace(partitions=lacking)

    async def close(self) -> None:
        """Refuse everybody who waits, to ask again; wait until changes are durable."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        self._markers.close()
        for hosted in self._hosted.values():
            hosted.machine.close()
            for ticket in hosted.transaction.waiting():
                resolve(ticket, Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        self._hosted.clear()
        await self._journal.flush()

    # -- producers --------------------------------------------------------------------

    def needs_producer_id(
        self, transactional_id: str, command: InitProducer | End
    ) -> bool:
        """Whether the command must bring a new producer id to be sure of success."""
        hosted = self._hosted.get(transactional_id)
        if hosted is None:
            return isinstance(command, InitProducer) and not self.is_full
        return ids.needs_producer_id(hosted.transaction, command)

    def init_producer(
        self, transactional_id: str, command: InitProducer
    ) -> "asyncio.Future[Initialized | Refused]":
        """Give a producer its next epoch; the ticket is given here.

        Refused with INVALID_REQUEST, with COORDINATOR_NOT_AVAILABLE if it would be one
        id more than there may be, or as the id does.
        """
        unknown = transactional_id and transactional_id not in self._hosted
        if unknown and not self._closed and not self.is_full:
            self._host(Transaction(transactional_id))
        return self._ask(transactional_id, command)

    def add(
        self, transactional_id: str, command: Add
    ) -> "asyncio.Future[Added | Refused]":
        """Make partitions or groups part of the transaction; as ``init_producer``."""
        if command.version < V2 or self._follows_version_1(transactional_id):
            ends = tuple(sorted(self._markers.ends(command.partitions)))
            command = replace(command, starts=ends)
        return self._ask(transactional_id, command)

    def _follows_version_1(self, transactional_id: str) -> bool:
        """Whether the epoch may be that of a transaction of version 1: that of the
        first one of version 2 behind it is."""
        hosted = self._hosted.get(transactional_id)
        newest = None if hosted is None else hosted.transaction.newest
        return newest is not None and (newest.version < V2 or bool(newest.open_starts))

    def end(
        self, transactional_id: str, command: End
    ) -> "asyncio.Future[Ended | Refused]":
        """Commit or abort the transaction; answered when its markers are durable."""
        return self._ask(transactional_id, command)

    def verify(
        self,
        transactional_id: str,
        producer_id: ProducerId,
        producer_epoch: int,
        part: TopicPartition | str,
    ) -> ErrorCode:
        """Whether the producer may write to a partition, or commit offsets of a group
        (its id), within the transaction now."""
        if self._closed:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        hosted = self._hosted.get(transactional_id)
        if hosted is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return ids.verify(hosted.transaction, producer_id, producer_epoch, part)

    def _ask(
        self, transactional_id: str, command: InitProducer | Add | End
    ) -> "asyncio.Future[Any]":
        ticket: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        hosted = self._hosted.get(transactional_id)
        if hosted is None:
            code = self._unknown(transactional_id, isinstance(command, InitProducer))
            ticket.set_result(Refused(code))
            return ticket
        hosted.machine.ask(replace(command, ticket=ticket))
        self._drop_if_never_used(hosted)
        return ticket

    def _unknown(self, transactional_id: str, is_new: bool) -> ErrorCode:
        if self._closed:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        if is_new:  # there is no room: the client asks again until there is
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING

    # -- administration ---------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Whether it answers nobody any more."""
        return self._closed

    @property
    def is_full(self) -> bool:
        """Whether no new id is taken; those that are here go on."""
        return len(self._hosted) >= self.limits.ids_max

    def warnings(self) -> tuple[str, ...]:
        """What an operator should know now."""
        if not self.is_full:
            return ()
        return (
            f"there are {len(self._hosted)} transactional ids and no new one is taken "
            f"(transactions.ids_max={self.limits.ids_max}); one that is idle is "
            "forgotten after transactions.id_expiration_ms",
        )

    def names(self) -> tuple[str, ...]:
        """Every id there is now; ``describe`` says whether anybody has an epoch of it
        then."""
        return tuple(self._hosted)

    def describe(self, transactional_id: str) -> TransactionMetadata | None:
        """What holds of an id; None if nobody has an epoch of it."""
        hosted = self._hosted.get(transactional_id)
        if hosted is None or hosted.transaction.metadata.is_new:
            return None
        return hosted.transaction.metadata

    def all(self) -> Iterator[tuple[str, TransactionMetadata]]:
        """Every id that somebody has an epoch of."""
        for transactional_id, hosted in self._hosted.items():
            if not hosted.transaction.metadata.is_new:
                yield transactional_id, hosted.transaction.metadata

    def id_of(self, producer_id: ProducerId) -> str | None:
        """The transactional id that has this producer now."""
        return self._by_producer.get(producer_id)

    # -- what follows -----------------------------------------------------------------

    def _host(self, transaction: Transaction) -> _Hosted:
        def changed() -> None:
            self._changed(hosted)

        machine: Hosted[Command] = Hosted(
            TransactionalId(self.limits, transaction),
            _shape_of(transaction.transactional_id),
            self._journal,
            self._timers,
            self._clock,
            on_change=changed,
        )
        hosted = _Hosted(transaction, machine)
        self._hosted[transaction.transactional_id] = hosted
        if self._sweep is None:
            self._sweep_later()
        return hosted

    def _changed(self, hosted: _Hosted) -> None:
        """Begin to write the markers that are owed, unless that is under way."""
        self._find_by_producer(hosted)
        owed = hosted.transaction.owed
        if owed is not None and hosted.begun != owed.serial:
            hosted.begun = owed.serial
            done = partial(hosted.machine.ask, MarkersWritten(owed.serial))
            self._markers.write(owed, done)
        self._drop_if_never_used(hosted)

    def _find_by_producer(self, hosted: _Hosted) -> None:
        transaction = hosted.transaction
        before, now = hosted.producer_id, transaction.metadata.producer_id
        if before != now:
            self._by_producer.pop(before, None)
            self._by_producer[now] = transaction.transactional_id
            hosted.producer_id = now

    def _drop_if_never_used(self, hosted: _Hosted) -> None:
        """Who was refused, or is forgotten, leaves nothing behind."""
        transaction = hosted.transaction
        name = transaction.transactional_id
        if transaction.never_used() and self._hosted.get(name) is hosted:
            hosted.machine.close()
            del self._hosted[name]
            self._by_producer.pop(hosted.producer_id, None)

    def _sweep_later(self) -> None:
        """Look again in a while; not as long as there is nothing to look at."""
        self._sweep = None
        if self._hosted:
            self._sweep = self._timers.after(SWEPT_EVERY_MS, self._forget_expired)

    def _forget_expired(self) -> None:
        self._sweep_on(iter(tuple(self._hosted.values())))

    def _sweep_on(self, left: Iterator[_Hosted]) -> None:
        for count, hosted in enumerate(left, 1):
            hosted.machine.ask(Forget())
            if count == SWEPT_A_TURN:
                self._sweep = self._timers.after(1, partial(self._sweep_on, left))
                return
        self._sweep_later()


def _shape_of(transactional_id: str) -> Shape[Command]:
    return Shape(partial(_store, transactional_id), _written, _fail, Expire)


def _store(transactional_id: str, connection: Connection, event: WriteBegan) -> None:
    if event.metadata.state is TransactionState.DEAD:
        stored.delete(connection, transactional_id)
    else:
        stored.store(connection, transactional_id, encode(event.metadata))


def _written(event: WriteBegan, error: BaseException | None) -> Written:
    failed = error is not None
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE if failed else ErrorCode.NONE
    return Written(event.serial, code)


def _fail(ticket: Any, _: BaseException) -> None:
    # Retriable for every client: the coordinator may be well again by then.
    resolve(ticket, Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
