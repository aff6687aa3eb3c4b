"""OffsetDelete: single offsets of a group go (KIP-496).

Behavior: of a group with members only offsets of topics that none of them reads, and
only if they are consumers (NON_EMPTY_GROUP); GROUP_SUBSCRIBED_TO_TOPIC for the others.
During a rebalance what was read in the last generation counts.
Answered when the deletion is durable. There is one version; it is never flexible.
"""

import asyncio
from collections.abc import Awaitable

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import ITEMS_A_TURN, Steps, in_turns, topics_are_few
from broker.ids import TopicPartition
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from broker.topics.topic import Topic


@serves(ApiKey.OFFSET_DELETE, versions=(0, 0))
def offset_delete(
    request: OffsetDeleteRequest, context: Context
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    groups = context.broker.groups
    refusal = groups.offset_delete_refusal(request.group_id)
    if refusal:
        return OffsetDeleteResponse(error_code=refusal)
    return in_turns(_taken(request, context), at_once=topics_are_few(request.topics))


def _taken(
    request: OffsetDeleteRequest, context: Context
) -> Steps[OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]]:
    groups, taken = context.broker.groups, list[TopicPartition]()
    response, looked_at = OffsetDeleteResponse(), 0
    for topic in request.topics:
        answers: list[OffsetDeleteResponsePartition] = []
        response.topics.append(OffsetDeleteResponseTopic(topic.name, answers))
        known = context.broker.topics.get(topic.name)
        is_read = groups.reads(request.group_id, topic.name)
        for asked in (None, *topic.partitions):
            looked_at += 1
            if looked_at % ITEMS_A_TURN == 0:
                yield
            if asked is not None:
                index = asked.partition_index
                code = _refusal(known, index, is_read=is_read)
                answers.append(OffsetDeleteResponsePartition(index, code))
                if known is not None and not code:
                    taken.append(known.key(index))
    refusal = groups.offset_delete_refusal(request.group_id)
    if refusal:  # it came between two turns
        return OffsetDeleteResponse(error_code=refusal)
    if not taken:
        return response
    return _when_durable(groups.offsets.delete(request.group_id, taken), response)


def _refusal(topic: Topic | None, index: int, *, is_read: bool) -> ErrorCode:
    """Why the offset of a partition may not be deleted; NONE if it may."""
    if topic is None or not 0 <= index < topic.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE


async def _when_durable(
    durable: "asyncio.Future[None]", response: OffsetDeleteResponse
) -> OffsetDeleteResponse:
    try:
        await durable
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=error.code)
    return response
