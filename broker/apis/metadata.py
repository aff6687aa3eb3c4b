"""Metadata: which topics there are, and who leads their partitions.

Behavior: one node leads everything, at leader epoch 0. Asking for a topic creates it
if client and broker both allow that; asking for all topics never does.
Version notes: v0 takes an empty list for all topics, v1+ null; v4 lets the client
refuse creation (before, it is always willing); v8 authorized operations (KIP-430);
v10 topic ids and v12 look-up by them (KIP-516); v13 a top-level error, for
rebootstrapping, which one node never needs.
"""

from collections.abc import Awaitable, Iterable

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.runtime.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from broker.runtime.services import Broker
from broker.topics.topic import Topic

NO_ID = bytes(16)


@serves(ApiKey.METADATA, versions=(0, 13))
def metadata(
    request: MetadataRequest, context: Context
) -> MetadataResponse | Awaitable[MetadataResponse]:
    asked = _asked(request, context.version)
    if asked is None:
        return _answer(request, context, _all_topics(request, context.broker))
    missing = _to_create(asked, request, context)
    if missing:
        return _create_then_answer(asked, missing, request, context)
    return _answer(request, context, _topics(asked, {}, request, context))


def _asked(request: MetadataRequest, version: int) -> list[MetadataRequestTopic] | None:
    """The topics asked for, each once; None for all of them."""
    if request.topics is None or (version == 0 and not request.topics):
        return None
    unique = {(topic.name, topic.topic_id): topic for topic in request.topics}
    return list(unique.values())


def _to_create(
    asked: Iterable[MetadataRequestTopic], request: MetadataRequest, context: Context
) -> list[str]:
    broker = context.broker
    willing = context.version < 4 or request.allow_auto_topic_creation
    if not (willing and broker.settings.broker.auto_create_topics):
        return []
    return [
        topic.name
        for topic in asked
        if topic.name is not None
        and not (context.version >= 10 and topic.topic_id != NO_ID)
        and broker.topics.get(topic.name) is None
    ]


async def _create_then_answer(
    asked: list[MetadataRequestTopic],
    missing: list[str],
    request: MetadataRequest,
    context: Context,
) -> MetadataResponse:
    errors: dict[str, ErrorCode] = {}
    for name in missing:
        try:
            await context.broker.topics.ensure(
                name, context.broker.settings.broker.num_partitions, {}
            )
        except KafkaError as error:
            errors[name] = error.code
    return _answer(request, context, _topics(asked, errors, request, context))


def _topics(
    asked: Iterable[MetadataRequestTopic],
    errors: dict[str, ErrorCode],
    request: MetadataRequest,
    context: Context,
) -> list[MetadataResponseTopic]:
    return [_one(topic, errors, request, context) for topic in asked]


def _one(
    asked: MetadataRequestTopic,
    errors: dict[str, ErrorCode],
    request: MetadataRequest,
    context: Context,
) -> MetadataResponseTopic:
    topics, version = context.broker.topics, context.version
    by_id = asked.topic_id != NO_ID
    if version < 12 and (by_id or asked.name is None):
        # MetadataRequest.java: ids cannot be asked for before v12
        return _refused(ErrorCode.INVALID_REQUEST, asked.name or "", asked.topic_id)
    if by_id:
        found = topics.by_id(asked.topic_id)
        if found is None:
            return _refused(ErrorCode.UNKNOWN_TOPIC_ID, None, asked.topic_id)
        return _described(found, request, context.broker)
    if asked.name is None:
        return _refused(ErrorCode.INVALID_REQUEST, None, NO_ID)
    found = topics.get(asked.name)
    if found is None:
        code = errors.get(asked.name) or _why_unknown(asked.name, context.broker)
        return _refused(code, asked.name, NO_ID)
    return _described(found, request, context.broker)


def _why_unknown(name: str, broker: Broker) -> ErrorCode:
    return (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if broker.topics.is_valid_name(name)
        else ErrorCode.INVALID_TOPIC_EXCEPTION
    )


def _refused(
    code: ErrorCode, name: str | None, topic_id: bytes
) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id)


def _all_topics(
    request: MetadataRequest, broker: Broker
) -> list[MetadataResponseTopic]:
    return [_described(topic, request, broker) for topic in broker.topics.all()]


def _described(
    topic: Topic, request: MetadataRequest, broker: Broker
) -> MetadataResponseTopic:
    node = broker.node_id
    answer = MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=[
            MetadataResponsePartition(
                partition_index=index,
                leader_id=node,
                leader_epoch=0,
                replica_nodes=[node],
                isr_nodes=[node],
            )
            for index in range(topic.partitions)
        ],
    )
    if request.include_topic_authorized_operations:
        answer.topic_authorized_operations = TOPIC_OPERATIONS
    return answer


def _answer(
    request: MetadataRequest, context: Context, topics: list[MetadataResponseTopic]
) -> MetadataResponse:
    broker = context.broker
    host, port = broker.advertised
    answer = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=broker.node_id, host=host, port=port)],
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        answer.cluster_authorized_operations = CLUSTER_OPERATIONS
    return answer
