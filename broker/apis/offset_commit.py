"""OffsetCommit: where a group stands, written.

Behavior: answered when the offsets are durable. Without generation and member it is a
simple commit, which only a group without members takes. Metadata and leader epoch are
kept as they came; errors are per partition.
Version notes: v1 a commit timestamp per partition; v2-4 a retention time, honoured;
v5 none; v6 leader epoch (KIP-320); v7 static members (KIP-345); v9 epochs of the new
groups (KIP-848), which for a classic group still is the generation; v10 topic ids
(KIP-848), UNKNOWN_TOPIC_ID for one that is not known.
"""

import asyncio
from collections.abc import Awaitable

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.groups.offsets import NO_EXPIRY, Committed, TopicPartition
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from broker.topics.topic import Topic

_UNSET = -1
_NEVER_MS = 2**63 - 1
"""The latest time there is: a client may ask for more, the catalog cannot keep it."""


@serves(ApiKey.OFFSET_COMMIT, versions=(1, 10))
def offset_commit(
    request: OffsetCommitRequest, context: Context
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    groups = context.broker.groups
    refusal = groups.admit_commit(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
    )
    taken: dict[TopicPartition, Committed] = {}
    response = OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                _take(topic, request, context, refusal, taken),
            )
            for topic in request.topics
        ]
    )
    if not taken:
        return response
    return _when_durable(groups.commit(request.group_id, taken), response)


def _take(
    asked: OffsetCommitRequestTopic,
    request: OffsetCommitRequest,
    context: Context,
    refusal: ErrorCode,
    taken: dict[TopicPartition, Committed],
) -> list[OffsetCommitResponsePartition]:
    """Put what may be committed of one topic into ``taken``; a code for each."""
    topics = context.broker.topics
    by_id = context.version >= 10
    topic = topics.by_id(asked.topic_id) if by_id else topics.get(asked.name)
    now_ms = context.broker.clock.now_ms()
    answers = []
    for partition in asked.partitions:
        index = partition.partition_index
        code = _unknown(topic, index, by_id=by_id) or refusal
        if not code and _too_long(partition, context):
            code = ErrorCode.OFFSET_METADATA_TOO_LARGE
        if not code and topic is not None:
            committed = _committed(partition, request.retention_time_ms, now_ms)
            taken[topic.number, index] = committed
        answers.append(OffsetCommitResponsePartition(index, code))
    return answers


def _unknown(topic: Topic | None, index: int, *, by_id: bool) -> ErrorCode:
    if topic is None and by_id:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if topic is None or not 0 <= index < topic.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _too_long(partition: OffsetCommitRequestPartition, context: Context) -> bool:
    metadata = partition.committed_metadata or ""
    longest: int = context.broker.groups.limits.offset_metadata_max
    return len(metadata) > longest


def _committed(
    partition: OffsetCommitRequestPartition, retention_ms: int, now_ms: int
) -> Committed:
    stamped_ms = partition.commit_timestamp
    return Committed(
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata or "",
        now_ms if stamped_ms == _UNSET else stamped_ms,
        NO_EXPIRY if retention_ms == _UNSET else min(now_ms + retention_ms, _NEVER_MS),
    )


async def _when_durable(
    durable: "asyncio.Future[None]", response: OffsetCommitResponse
) -> OffsetCommitResponse:
    try:
        await durable
    except KafkaError as error:
        for topic in response.topics:
            for partition in topic.partitions:
                partition.error_code = partition.error_code or error.code
    return response
