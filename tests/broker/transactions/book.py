"""Dialogues with a transactional id, its catalog and its partitions.

A ``Book`` is what the shell is to the machine, without a loop: replies of a decision
leave when what it writes is durable, timers run on a clock of their own, markers are
written at once unless the book is told to hold them. At every step it holds the machine
to its two promises: deciding changes nothing, and replaying the events gives the same.
"""

from collections import deque
from copy import deepcopy
from typing import Any

from broker.machine import Decision
from broker.protocol.errors import ErrorCode
from broker.transactions.commands import (
    Add,
    Added,
    Command,
    End,
    Ended,
    Expire,
    Initialized,
    InitProducer,
    MarkersWritten,
    Owed,
    Refused,
    Reply,
    Resume,
    TimerKey,
    Written,
)
from broker.transactions.limits import TransactionLimits
from broker.transactions.metadata import TransactionMetadata
from broker.transactions.snapshot import decode, encode
from broker.transactions.states import TransactionState
from broker.transactions.transaction import Transaction
from broker.transactions.transactional_id import TransactionalId

MINUTE_MS = 60_000


class Book:
    """One id, its row, its markers, and the answers that nobody took yet."""

    def __init__(self, **limits: int) -> None:
        self.limits = TransactionLimits(**({"version": 1} | limits))
        self.now_ms = 1_000_000
        self.row: str | None = None
        self.markers: list[Owed] = []
        self.answers: dict[Any, Reply] = {}
        self.holds_writes = self.holds_markers = False
        self.ids = iter(range(10, 10_000))
        self.begin(TransactionMetadata())

    def begin(self, metadata: TransactionMetadata) -> None:
        self.machine = TransactionalId(self.limits, Transaction("t", metadata))
        self.replayed = Transaction("t", metadata)
        self.timers: dict[TimerKey, int] = {}
        self.stores: deque[tuple[Decision[Any, Reply], Any]] = deque()

    @property
    def transaction(self) -> Transaction:
        return self.machine.transaction

    @property
    def metadata(self) -> TransactionMetadata:
        return self.transaction.metadata

    @property
    def state(self) -> TransactionState:
        return self.metadata.state

    def crash(self) -> None:
        """Go on with what the catalog has; who waits is not answered."""
        metadata = TransactionMetadata() if self.row is None else decode(self.row)
        self.begin(metadata)
        self.say(Resume())

    def say(self, command: Command) -> None:
        """Carry out what a command means, as the broker does."""
        before = deepcopy(self.transaction)
        decision = self.machine.decide(command, self.now_ms)
        assert self.transaction == before, "deciding changed something"
        durable = [event for event in decision.events if event.durable]
        for event in decision.events:
            self.machine.apply(event)
            self.replayed.apply(event)
        assert self.transaction == self.replayed
        for key, delay_ms in decision.timers.items():
            self.timers.pop(key, None)
            if delay_ms is not None:
                self.timers[key] = self.now_ms + delay_ms
        if durable:
            (event,) = durable
            self.stores.append((decision, event))
        else:
            self._answer(decision)
        if not self.holds_writes:
            self.store()
        if not self.holds_markers:
            self.write_markers()

    def _answer(self, decision: Decision[Any, Reply]) -> None:
        for ticket, reply in decision.replies:
            if ticket is not None:
                assert ticket not in self.answers, "answered twice"
                self.answers[ticket] = reply

    def store(self, code: ErrorCode = ErrorCode.NONE) -> None:
        """Everything that is to be written is, or fails."""
        while self.stores:
            self.store_one(code)

    def store_one(self, code: ErrorCode = ErrorCode.NONE, at: int = 0) -> None:
        decision, event = self.stores[at]
        del self.stores[at]
        if code is ErrorCode.NONE:
            dead = event.metadata.state is TransactionState.DEAD
            self.row = None if dead else encode(event.metadata)
        self.say(Written(event.serial, code))
        if code is ErrorCode.NONE:
            self._answer(decision)
            return
        for ticket, _ in decision.replies:
            if ticket is not None:
                self.answers[ticket] = Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def write_markers(self) -> None:
        owed = self.transaction.owed
        if owed is not None:
            self.markers.append(owed)
            self.say(MarkersWritten(owed.serial))

    def tick(self, ms: int) -> None:
        until = self.now_ms + ms
        while due := [k for k, at in self.timers.items() if at <= until]:
            key = min(due, key=self.timers.__getitem__)
            self.now_ms = self.timers.pop(key)
            self.say(Expire(key))
        self.now_ms = until

    # -- what a producer says, and what it hears at once ----------------------

    def ask(self, command: Any) -> Reply | None:
        """The answer to a command, None as long as there is none."""
        ticket = command.ticket
        self.say(command)
        return self.answers.pop(ticket, None)

    def init(self, producer_id: int = -1, epoch: int = -1, **fields: Any) -> Any:
        given = {
            "timeout_ms": MINUTE_MS,
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "new_producer_id": next(self.ids),
            "ticket": "init",
        }
        return self.ask(InitProducer(**given | fields))

    def add(self, producer: Initialized | Ended, *parts: Any, **fields: Any) -> Any:
        """Parts are partition numbers of topic 1, or names of groups."""
        groups = frozenset(part for part in parts if isinstance(part, str))
        numbers = frozenset((1, part) for part in parts if not isinstance(part, str))
        given = {"ticket": "add"} | fields
        return self.ask(
            Add(producer.producer_id, producer.producer_epoch, numbers, groups, **given)
        )

    def end(self, producer: Any, commit: bool = True, **fields: Any) -> Any:
        given = {"ticket": "end", "new_producer_id": next(self.ids)} | fields
        return self.ask(
            End(producer.producer_id, producer.producer_epoch, commit, **given)
        )

    def commit(self, producer: Any, **fields: Any) -> Any:
        return self.end(producer, True, **fields)

    def abort(self, producer: Any, **fields: Any) -> Any:
        return self.end(producer, False, **fields)


def refused(code: str) -> Refused:
    return Refused(ErrorCode[code])


def ongoing(book: Book, *parts: Any, **fields: Any) -> Initialized:
    """Bring a new id to where these parts are in a transaction; its producer."""
    producer = book.init()
    assert isinstance(producer, Initialized)
    assert book.add(producer, *(parts or (0,)), **fields) == Added()
    return producer
