"""OffsetDelete: single offsets of a group go (KIP-496).

Behavior: of a group with members only offsets of topics that none of them reads, and
only if they are consumers (NON_EMPTY_GROUP); GROUP_SUBSCRIBED_TO_TOPIC for the others.
Answered when the deletion is durable. There is one version; it is never flexible.
"""

import asyncio
from collections.abc import Awaitable

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.ids import TopicPartition
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


@serves(ApiKey.OFFSET_DELETE, versions=(0, 0))
def offset_delete(
    request: OffsetDeleteRequest, context: Context
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    groups = context.broker.groups
    refusal = groups.offset_delete_refusal(request.group_id)
    if refusal:
        return OffsetDeleteResponse(error_code=refusal)
    taken: list[TopicPartition] = []
    response = OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                topic.name, _take(topic, request.group_id, context, taken)
            )
            for topic in request.topics
        ]
    )
    if not taken:
        return response
    return _when_durable(groups.offsets.delete(request.group_id, taken), response)


def _take(
    asked: OffsetDeleteRequestTopic,
    group_id: str,
    context: Context,
    taken: list[TopicPartition],
) -> list[OffsetDeleteResponsePartition]:
    """Put what may be deleted of one topic into ``taken``; a code for each."""
    topic = context.broker.topics.get(asked.name)
    read = context.broker.groups.reads(group_id, asked.name)
    answers = []
    for partition in asked.partitions:
        index = partition.partition_index
        if topic is None or not 0 <= index < topic.partitions:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif read:
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        else:
            code = ErrorCode.NONE
            taken.append(topic.key(index))
        answers.append(OffsetDeleteResponsePartition(index, code))
    return answers


async def _when_durable(
    durable: "asyncio.Future[None]", response: OffsetDeleteResponse
) -> OffsetDeleteResponse:
    try:
        await durable
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=error.code)
    return response
