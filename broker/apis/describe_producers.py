"""DescribeProducers: who writes to a partition, and since where in a transaction.

Behavior: every idempotent producer that the partition remembers, with the offset at
which its open transaction begins here (KIP-664), so that one that hangs can be found
and ended. The last timestamp is when the broker heard of the producer last, not the
records' own; the coordinator's epoch is not kept (-1). A partition that is named again
is described once. What groups commit in transactions is in no partition. There is one
version.
"""

from collections.abc import Awaitable

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import ITEMS_A_TURN, Steps, in_turns
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import KafkaError
from broker.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from broker.runtime.services import Broker
from broker.topics import names

_NOT_KEPT = -1
_NO_TRANSACTION = -1


@serves(ApiKey.DESCRIBE_PRODUCERS, versions=(0, 0))
def describe_producers(
    request: DescribeProducersRequest, context: Context
) -> DescribeProducersResponse | Awaitable[DescribeProducersResponse]:
    return in_turns(_describe(request, context.broker))


def _describe(
    request: DescribeProducersRequest, broker: Broker
) -> Steps[DescribeProducersResponse]:
    topics: dict[str, TopicResponse] = {}
    described: set[tuple[str, int]] = set()
    looked_at = 0
    for asked in request.topics:
        topic = topics.setdefault(asked.name, TopicResponse(asked.name, []))
        for index in (None, *asked.partition_indexes):
            looked_at += 1
            if looked_at % ITEMS_A_TURN == 0:
                yield
            if index is None or (asked.name, index) in described:
                continue
            described.add((asked.name, index))
            answer = PartitionResponse(index)
            topic.partitions.append(answer)
            yield from _fill(answer, asked.name, broker)
    return DescribeProducersResponse(topics=list(topics.values()))


def _fill(answer: PartitionResponse, name: str, broker: Broker) -> Steps[None]:
    try:
        partition = broker.partitions.named(
            names.validate(name), answer.partition_index
        )
    except KafkaError as error:
        answer.error_code = error.code
        if broker.topics.get(name) is None:  # of one that is here Kafka says no more
            answer.error_message = error.message or None
        return
    transactions, durable = partition.log.transactions.open, partition.high_watermark
    known = partition.log.producers.active(durable)
    for count, producer in enumerate(known, 1):
        state = ProducerState(
            producer.producer_id,
            producer.epoch,
            producer.last_sequence,
            producer.last_ms,
            _NOT_KEPT,
            transactions.get(producer.producer_id, _NO_TRANSACTION),
        )
        answer.active_producers.append(state)
        if count % ITEMS_A_TURN == 0:
            yield
