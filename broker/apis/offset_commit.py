"""OffsetCommit: where a group stands, written.

Behavior: answered when the offsets are durable. Without generation and member it is a
simple commit, which only a group without members takes. Metadata and leader epoch are
kept as they came; errors are per partition.
Version notes: v0 no generation and no member, so a simple commit; v1 a commit timestamp
per partition; v2-4 a retention time, honoured; v5 none; v6 leader epoch (KIP-320); v7
static members (KIP-345); v9 epochs of the new groups (KIP-848), which for a classic
group still is the generation, and GROUP_ID_NOT_FOUND where ILLEGAL_GENERATION was; v10
topic ids (KIP-848), UNKNOWN_TOPIC_ID for one that is not known.
"""

import asyncio
from collections.abc import Awaitable, Callable

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import ITEMS_A_TURN, Steps, in_turns, topics_are_few
from broker.groups.offsets import NO_EXPIRY, Committed
from broker.ids import TopicPartition
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


@serves(ApiKey.OFFSET_COMMIT, versions=(0, 10))
def offset_commit(
    request: OffsetCommitRequest, context: Context
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    return in_turns(_commit(request, context), at_once=topics_are_few(request.topics))


def _refusal(request: OffsetCommitRequest, context: Context) -> ErrorCode:
    """Why this member may not commit now; NONE if it may."""
    refusal: ErrorCode = context.broker.groups.admit_commit(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
    )
    if refusal is ErrorCode.GROUP_ID_NOT_FOUND and context.version < 9:
        refusal = ErrorCode.ILLEGAL_GENERATION
    return refusal


def _commit(
    request: OffsetCommitRequest, context: Context
) -> Steps[OffsetCommitResponse | Awaitable[OffsetCommitResponse]]:
    refusal = _refusal(request, context)
    taken: dict[TopicPartition, Committed] = {}
    response, looked_at = OffsetCommitResponse(), 0
    for topic in request.topics:
        looked_at += 1
        if looked_at % ITEMS_A_TURN == 0:
            yield
        take = _taker(topic, request, context, refusal, taken)
        answers: list[OffsetCommitResponsePartition] = []
        response.topics.append(
            OffsetCommitResponseTopic(topic.name, topic.topic_id, answers)
        )
        for partition in topic.partitions:
            answers.append(take(partition))
            looked_at += 1
            if looked_at % ITEMS_A_TURN == 0:
                yield
    if taken and looked_at >= ITEMS_A_TURN:  # it may have been fenced between turns
        refusal = _refusal(request, context)
        if refusal:
            return _refused(response, refusal)
    if not taken:
        return response
    durable = context.broker.groups.commit(request.group_id, taken)
    return _when_durable(durable, response)


def _taker(
    asked: OffsetCommitRequestTopic,
    request: OffsetCommitRequest,
    context: Context,
    refusal: ErrorCode,
    taken: dict[TopicPartition, Committed],
) -> Callable[[OffsetCommitRequestPartition], OffsetCommitResponsePartition]:
    """What puts a partition of one topic into ``taken`` if it may be committed."""
    topics = context.broker.topics
    by_id = context.version >= 10
    topic = topics.by_id(asked.topic_id) if by_id else topics.get(asked.name)
    now_ms = context.broker.clock.now_ms()

    def take(
        partition: OffsetCommitRequestPartition,
    ) -> OffsetCommitResponsePartition:
        index = partition.partition_index
        code = _unknown(topic, index, by_id=by_id) or refusal
        if not code and _too_long(partition, context):
            code = ErrorCode.OFFSET_METADATA_TOO_LARGE
        if not code and topic is not None:
            committed = _committed(partition, request.retention_time_ms, now_ms)
            taken[topic.key(index)] = committed
        return OffsetCommitResponsePartition(index, code)

    return take


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
        _refused(response, error.code)
    return response


def _refused(response: OffsetCommitResponse, code: ErrorCode) -> OffsetCommitResponse:
    """The response, with this code for all that had none."""
    for topic in response.topics:
        for partition in topic.partitions:
            partition.error_code = partition.error_code or code
    return response
