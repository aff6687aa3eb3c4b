"""DescribeTransactions: what a transactional id is about, and since when.

Behavior: as it is durable; TRANSACTIONAL_ID_NOT_FOUND for one that nobody has an epoch
of (KIP-664). A group whose offsets are part of the transaction is told as the partition
of `__consumer_offsets` where Kafka would keep them. An id that is named again is
described once. There is one version.
"""

from collections.abc import Awaitable

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import ITEMS_A_TURN, Steps, in_turns
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from broker.runtime.services import Broker
from broker.topics.topic import CONSUMER_OFFSETS, offsets_partition
from broker.transactions import states
from broker.transactions.metadata import TransactionMetadata

GROUPS_A_TURN = 20
"""A name may be long, and is hashed letter by letter."""


@serves(ApiKey.DESCRIBE_TRANSACTIONS, versions=(0, 0))
def describe_transactions(
    request: DescribeTransactionsRequest, context: Context
) -> DescribeTransactionsResponse | Awaitable[DescribeTransactionsResponse]:
    return in_turns(_describe_all(request, context.broker))


def _describe_all(
    request: DescribeTransactionsRequest, broker: Broker
) -> Steps[DescribeTransactionsResponse]:
    answers: dict[str, TransactionState] = {}
    for count, name in enumerate(request.transactional_ids, 1):
        if name not in answers:
            answers[name] = yield from _described(name, broker)
        if count % ITEMS_A_TURN == 0:
            yield
    return DescribeTransactionsResponse(transaction_states=list(answers.values()))


def _described(name: str, broker: Broker) -> Steps[TransactionState]:
    found = broker.transactions.describe(name)
    if found is None or found.state is states.TransactionState.DEAD:
        return TransactionState(_why_not(name, broker), name)
    topics = yield from _topics(found, broker)
    return TransactionState(
        ErrorCode.NONE,
        name,
        found.state,
        found.timeout_ms,
        found.started_ms,
        found.producer_id,
        found.producer_epoch,
        topics,
    )


def _why_not(name: str, broker: Broker) -> ErrorCode:
    if broker.transactions.is_closed:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if not name:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def _topics(found: TransactionMetadata, broker: Broker) -> Steps[list[TopicData]]:
    """The partitions that are part of it, of topics that exist, by name."""
    parts: dict[str, set[int]] = {}
    for count, (number, index) in enumerate(found.open_partitions, 1):
        topic = broker.topics.by_number(number)
        if topic is not None:
            parts.setdefault(topic.name, set()).add(index)
        if count % ITEMS_A_TURN == 0:
            yield
    for count, group_id in enumerate(found.groups, 1):
        of_group = offsets_partition(group_id)
        parts.setdefault(CONSUMER_OFFSETS.name, set()).add(of_group)
        if count % GROUPS_A_TURN == 0:
            yield
    return [TopicData(name, sorted(parts[name])) for name in sorted(parts)]
