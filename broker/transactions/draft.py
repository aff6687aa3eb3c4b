"""A decision in the making: what is to happen, who hears what, and which timers run.

Unlike a group's draft it holds no copy of the state: no command sets off a chain.
"""

from broker.machine import Decision, Ticket
from broker.protocol.errors import ErrorCode
from broker.transactions.commands import Refused, Reply, TimerKey
from broker.transactions.limits import TransactionLimits
from broker.transactions.metadata import TransactionMetadata
from broker.transactions.transaction import (
    Transaction,
    TransactionEvent,
    WriteBegan,
)


class Draft:
    """``transaction`` is the state that the decision is about; it does not change."""

    def __init__(
        self, transaction: Transaction, limits: TransactionLimits, now_ms: int
    ) -> None:
        self.transaction = transaction
        self.limits = limits
        self.now_ms = now_ms
        self._events: list[TransactionEvent] = []
        self._replies: list[tuple[Ticket, Reply]] = []
        self._timers: dict[TimerKey, int | None] = {}

    def decision(self) -> Decision[TransactionEvent, Reply]:
        """The decision: what was recorded, replied and scheduled."""
        return Decision(tuple(self._events), tuple(self._replies), self._timers)

    def record(self, event: TransactionEvent) -> None:
        """Add an event."""
        self._events.append(event)

    def write(self, metadata: TransactionMetadata) -> None:
        """Have this written; replies of the decision leave once it is durable."""
        self.record(WriteBegan(self.transaction.writes + 1, metadata))

    def reply(self, ticket: Ticket, reply: Reply) -> None:
        """Answer a ticket."""
        self._replies.append((ticket, reply))

    def refuse(self, ticket: Ticket, code: ErrorCode) -> None:
        """Answer a ticket with an error."""
        self.reply(ticket, Refused(code))

    def schedule(self, key: TimerKey, delay_ms: int) -> None:
        """Start a timer, or start it anew."""
        self._timers[key] = max(delay_ms, 1)

    def cancel(self, key: TimerKey) -> None:
        """Cancel a timer; nothing happens if it does not run."""
        self._timers[key] = None
