"""AddPartitionsToTxn: partitions become part of a transaction, which begins with them.

Behavior: all of them or none; beside one that is refused for itself the others are
OPERATION_NOT_ATTEMPTED. The answer follows when it is durable that they are part of it,
so what is written there after is never forgotten.
Version notes: v2 PRODUCER_FENCED, which is INVALID_PRODUCER_EPOCH before (KIP-588); v4
many transactions, and asking only whether partitions are part of one: what brokers ask
each other (KIP-890), and Kafka answers whoever may do anything: with
TRANSACTION_ABORTABLE for one that is not.
"""

import asyncio
from collections.abc import Awaitable, Iterator, Mapping
from dataclasses import dataclass, field

from broker.apis._transactions import known_since
from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import (
    ITEMS_A_TURN,
    Steps,
    WhileHeard,
    completed,
    in_turns,
    topics_are_few,
)
from broker.ids import PartitionNumber, ProducerId, TopicPartition
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from broker.runtime.process.long_work import work_of_request
from broker.runtime.services import Broker
from broker.transactions.commands import Add, Added, Refused

MANY_SINCE = 4
FENCED_SINCE = 2
TRANSACTIONS_A_TURN = 100
"""Of one request: each may be answered at once."""

_TO_CLIENTS = {
    ErrorCode.INVALID_TOPIC_EXCEPTION: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
}
"""Nobody is allowed to write to Kafka's own topics, as Kafka says it there."""

Named = tuple[str, int]
"""A topic's name and a partition's number."""


@dataclass(slots=True)
class _Looked:
    """The partitions of one transaction of a request: where they are, or why not."""

    keys: dict[Named, TopicPartition] = field(default_factory=dict)
    refused: dict[Named, ErrorCode] = field(default_factory=dict)

    def not_attempted(self) -> None:
        for name in self.keys:
            self.refused[name] = ErrorCode.OPERATION_NOT_ATTEMPTED


@serves(ApiKey.ADD_PARTITIONS_TO_TXN, versions=(0, 5))
def add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, context: Context
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    if context.version >= MANY_SINCE:
        return WhileHeard(_many(request, context))
    only = AddPartitionsToTxnTransaction(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return in_turns(_only(only, context), at_once=topics_are_few(only.topics))


def _only(
    asked: AddPartitionsToTxnTransaction, context: Context
) -> Steps[AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]]:
    """Who hangs up while they are looked up adds none: the producer may be further."""
    looked = yield from _look(asked, context.broker)
    if not looked.refused:
        return _when_added(asked, looked, _add(asked, looked, context), context)
    for name, code in looked.refused.items():
        looked.refused[name] = _TO_CLIENTS.get(code, code)
    looked.not_attempted()
    topics = yield from _results(asked, looked.refused)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


async def _when_added(
    asked: AddPartitionsToTxnTransaction,
    looked: _Looked,
    adding: "asyncio.Future[Added | Refused]",
    context: Context,
) -> AddPartitionsToTxnResponse:
    codes = dict.fromkeys(looked.keys, await _code(adding, context))
    topics = await completed(_results(asked, codes))
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


async def _many(
    request: AddPartitionsToTxnRequest, context: Context
) -> AddPartitionsToTxnResponse:
    results: list[AddPartitionsToTxnResult] = []
    long_work = work_of_request()
    for count, one in enumerate(request.transactions, 1):
        topics = await _one(one, context)
        results.append(AddPartitionsToTxnResult(one.transactional_id, topics))
        if count % TRANSACTIONS_A_TURN == 0:
            await long_work.others_first()
    return AddPartitionsToTxnResponse(results_by_transaction=results)


async def _one(
    asked: AddPartitionsToTxnTransaction, context: Context
) -> list[AddPartitionsToTxnTopicResult]:
    """Add the partitions of one transaction, or look whether they are part of it."""
    looked = await completed(_look(asked, context.broker))
    if looked.refused:
        looked.not_attempted()
        codes: Mapping[Named, ErrorCode] = looked.refused
    elif asked.verify_only:
        codes = await completed(_verified(asked, looked, context))
    else:
        code = await _code(_add(asked, looked, context), context)
        codes = dict.fromkeys(looked.keys, code)
    return await completed(_results(asked, codes))


def _look(asked: AddPartitionsToTxnTransaction, broker: Broker) -> Steps[_Looked]:
    looked = _Looked()
    for count, name in enumerate(_named(asked), 1):
        if name is not None:
            _look_for(name, looked, broker)
        if count % ITEMS_A_TURN == 0:
            yield
    return looked


def _look_for(name: Named, looked: _Looked, broker: Broker) -> None:
    try:
        partition = broker.partitions.named(name[0], PartitionNumber(name[1]))
        partition.check_stored()
    except KafkaError as error:
        looked.refused[name] = error.code
    else:
        looked.keys[name] = partition.key


def _named(asked: AddPartitionsToTxnTransaction) -> Iterator[Named | None]:
    """Each partition; None for a topic, which takes time as well."""
    for topic in asked.topics:
        yield None
        for index in topic.partitions:
            yield topic.name, index


def _add(
    asked: AddPartitionsToTxnTransaction, looked: _Looked, context: Context
) -> "asyncio.Future[Added | Refused]":
    command = Add(
        ProducerId(asked.producer_id),
        asked.producer_epoch,
        frozenset(looked.keys.values()),
    )
    return context.broker.transactions.add(asked.transactional_id, command)


async def _code(
    adding: "asyncio.Future[Added | Refused]", context: Context
) -> ErrorCode:
    reply = await asyncio.shield(adding)  # it is durable, whoever hangs up
    if isinstance(reply, Added):
        return ErrorCode.NONE
    return known_since(reply.code, context.version, fenced=FENCED_SINCE)


def _verified(
    asked: AddPartitionsToTxnTransaction, looked: _Looked, context: Context
) -> Steps[dict[Named, ErrorCode]]:
    codes: dict[Named, ErrorCode] = {}
    for count, (name, key) in enumerate(looked.keys.items(), 1):
        codes[name] = context.broker.transactions.verify(
            asked.transactional_id,
            ProducerId(asked.producer_id),
            asked.producer_epoch,
            key,
        )
        if count % ITEMS_A_TURN == 0:
            yield
    return codes


def _results(
    asked: AddPartitionsToTxnTransaction, codes: Mapping[Named, ErrorCode]
) -> Steps[list[AddPartitionsToTxnTopicResult]]:
    """What became of each, once, by topic; one without partitions is named as well."""
    results: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for count, topic in enumerate(asked.topics, 1):
        results.setdefault(topic.name, [])
        if count % ITEMS_A_TURN == 0:
            yield
    for count, ((name, index), code) in enumerate(codes.items(), 1):
        results[name].append(AddPartitionsToTxnPartitionResult(index, code))
        if count % ITEMS_A_TURN == 0:
            yield
    return [AddPartitionsToTxnTopicResult(*one) for one in results.items()]
