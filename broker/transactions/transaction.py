"""A transactional id and what is on its way to be written of it; and its events.

``metadata`` is what holds: durable, or complete and about to be (below). ``writing``
has the values that go to the catalog, by serial: until one is there it means nothing,
but that whoever comes next is told to come again. Two exceptions, since nothing that
anybody was promised rests on them:

* partitions are added on top of those that are being added;
* that a transaction is *complete* holds as soon as its markers are durable in the
  partitions. Its row follows later, or never, if the next transaction's is first: a
  start that finds a prepared transaction writes its markers again and comes to the
  same value.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from broker.machine import Ticket
from broker.transactions.commands import Owed
from broker.transactions.metadata import TransactionMetadata
from broker.transactions.states import TransactionState, may_move


class TransactionEvent(Protocol):
    """Something that happened to a transactional id."""

    durable: ClassVar[bool]

    def change(self, transaction: "Transaction") -> None: ...


@dataclass(slots=True)
class Transaction:
    """The state of one transactional id.

    ``written`` is the serial of the last value that is durable. ``is_behind``: it is
    complete, and the catalog does not have it so. ``ending`` are the tickets of those
    who ended the transaction that is prepared, or is being.
    """

    transactional_id: str
    metadata: TransactionMetadata = field(default_factory=TransactionMetadata)
    writes: int = 0
    written: int = 0
    writing: dict[int, TransactionMetadata] = field(default_factory=dict)
    is_behind: bool = False
    ending: tuple[Ticket, ...] = ()

    def apply(self, event: TransactionEvent) -> None:
        """Change by one event."""
        event.change(self)

    @property
    def is_pending(self) -> bool:
        """Whether something is on its way to be written that means a change."""
        return any(not one.is_complete for one in self.writing.values())

    @property
    def newest(self) -> TransactionMetadata:
        """What it is once all that is being written is durable."""
        for metadata in reversed(self.writing.values()):
            return metadata
        return self.metadata

    @property
    def owed(self) -> Owed | None:
        """The markers that are to be written now; a start owes what a crash left."""
        if not self.metadata.is_prepared:
            return None
        return owed_by(self.metadata, self.written)

    def never_used(self) -> bool:
        """Whether nobody has an epoch of it or will, so that nothing is lost with it.

        A dead one is as good as never used.
        """
        idle = self.metadata.is_new or self.metadata.state is TransactionState.DEAD
        return idle and not self.writing

    def waiting(self) -> Iterator[Ticket]:
        """The tickets that have no answer yet."""
        return iter(self.ending)


def owed_by(metadata: TransactionMetadata, serial: int) -> Owed:
    """The markers of a transaction that is prepared."""
    return Owed(
        serial,
        metadata.producer_id,
        metadata.producer_epoch,
        metadata.state is TransactionState.PREPARE_COMMIT,
        metadata.partitions,
        metadata.groups,
        metadata.version,
        metadata.is_fenced,
        metadata.starts,
    )


@dataclass(frozen=True, slots=True)
class WriteBegan:
    """The id is to be this as soon as that is durable; dead: its row is to go."""

    durable: ClassVar[bool] = True

    serial: int
    metadata: TransactionMetadata

    def change(self, transaction: Transaction) -> None:
        transaction.writes = self.serial
        transaction.writing[self.serial] = self.metadata
        transaction.is_behind = False


@dataclass(frozen=True, slots=True)
class WriteEnded:
    """A value is durable: it holds, unless a newer one does already."""

    durable: ClassVar[bool] = False

    serial: int

    def change(self, transaction: Transaction) -> None:
        metadata = transaction.writing.pop(self.serial)
        if self.serial > transaction.written:
            transaction.metadata, transaction.written = metadata, self.serial


@dataclass(frozen=True, slots=True)
class WriteFailed:
    """A value could not be written: the id is what it was."""

    durable: ClassVar[bool] = False

    serial: int

    def change(self, transaction: Transaction) -> None:
        del transaction.writing[self.serial]
        complete = transaction.metadata.is_complete
        transaction.is_behind = complete and not transaction.writing


@dataclass(frozen=True, slots=True)
class EndParked:
    """Somebody ends the transaction, and hears it when the markers are written."""

    durable: ClassVar[bool] = False

    ticket: Ticket

    def change(self, transaction: Transaction) -> None:
        transaction.ending = (*transaction.ending, self.ticket)


@dataclass(frozen=True, slots=True)
class EndAnswered:
    """Who waited for the end has an answer."""

    durable: ClassVar[bool] = False

    def change(self, transaction: Transaction) -> None:
        transaction.ending = ()


@dataclass(frozen=True, slots=True)
class Completed:
    """Every marker is written: the transaction is over."""

    durable: ClassVar[bool] = False

    metadata: TransactionMetadata

    def change(self, transaction: Transaction) -> None:
        assert may_move(transaction.metadata.state, self.metadata.state)
        transaction.metadata = self.metadata
        transaction.is_behind = True
