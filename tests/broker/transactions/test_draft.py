"""A decision in the making: recorded in order, and nothing is changed by it."""

from broker.machine import Decision
from broker.protocol.errors import ErrorCode
from broker.transactions.commands import Added, Refused, TimerKey
from broker.transactions.draft import Draft
from broker.transactions.limits import TransactionLimits
from broker.transactions.metadata import TransactionMetadata
from broker.transactions.transaction import EndAnswered, Transaction, WriteBegan


def test_what_is_recorded_is_the_decision_and_the_state_stays() -> None:
    transaction = Transaction("t", writes=4)
    draft = Draft(transaction, TransactionLimits(), 0)
    metadata = TransactionMetadata(1, 0)
    draft.write(metadata)
    draft.record(EndAnswered())
    draft.reply("a", Added())
    draft.refuse("b", ErrorCode.PRODUCER_FENCED)
    draft.schedule(TimerKey.TIMEOUT, 30)
    draft.cancel(TimerKey.COMPLETION)
    assert draft.decision() == Decision(
        (WriteBegan(5, metadata), EndAnswered()),
        (("a", Added()), ("b", Refused(ErrorCode.PRODUCER_FENCED))),
        {TimerKey.TIMEOUT: 30, TimerKey.COMPLETION: None},
    )
    assert transaction == Transaction("t", writes=4)


def test_a_time_that_is_over_comes_at_once_and_not_in_the_past() -> None:
    draft = Draft(Transaction("t"), TransactionLimits(), 0)
    draft.schedule(TimerKey.TIMEOUT, -500)
    assert draft.decision().timers == {TimerKey.TIMEOUT: 1}
