"""CreatePartitions: more partitions for topics that are there.

Behavior: one result per topic asked for, always (their absence confused clients of
another implementation); only growth is possible.
Version notes: none that changes behavior; v2 flexible, v3 throttling (KIP-599).
"""

from collections.abc import Awaitable

from broker.apis._assignment import check_assignment
from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import (
    completed,
    drained,
    grouped_in_turns,
    side_by_side,
    while_heard,
)
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from broker.runtime.services import Broker


@serves(ApiKey.CREATE_PARTITIONS, versions=(0, 3))
def create_partitions(
    request: CreatePartitionsRequest, context: Context
) -> Awaitable[CreatePartitionsResponse]:
    return while_heard(_grow_all(request, context.broker), len(request.topics))


async def _grow_all(
    request: CreatePartitionsRequest, broker: Broker
) -> CreatePartitionsResponse:
    named = grouped_in_turns(request.topics, lambda topic: topic.name)
    each = await completed(named)
    results = await side_by_side(  # the catalog commits them together
        _grow_one(asked, times, request.validate_only, broker)
        for asked, times in drained(each)
    )
    return CreatePartitionsResponse(results=results)


async def _grow_one(
    asked: CreatePartitionsTopic, times: int, validate_only: bool, broker: Broker
) -> CreatePartitionsTopicResult:
    result = CreatePartitionsTopicResult(name=asked.name)
    try:
        if times > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        await _grow(asked, validate_only, broker)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
    return result


async def _grow(
    asked: CreatePartitionsTopic, validate_only: bool, broker: Broker
) -> None:
    topic = broker.topics.named(asked.name)
    broker.topics.check_added(topic, asked.count)
    _check_assignments(asked, asked.count - topic.partitions, broker.node_id)
    if not validate_only:
        await broker.topics.add_partitions(topic, asked.count)


def _check_assignments(asked: CreatePartitionsTopic, added: int, node_id: int) -> None:
    if asked.assignments is None:
        return
    if len(asked.assignments) != added:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only "
            f"{len(asked.assignments)} assignment(s) were specified.",
        )
    for one in asked.assignments:
        check_assignment(one.broker_ids, node_id)
