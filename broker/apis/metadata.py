"""Metadata: which topics there are, and who leads their partitions.

Behavior: one node leads everything, at leader epoch 0. Asking for a topic creates it
if client and broker both allow that; asking for all topics never does, nor for Kafka's
own, of which ``__consumer_offsets`` is shown and always empty.
Version notes: v0 takes an empty list for all topics, v1+ null; v4 lets the client
refuse creation (before, it is always willing); v8 authorized operations (KIP-430);
v10 topic ids and v12 look-up by them (KIP-516); v13 a top-level error, for
rebootstrapping, which one node never needs.
"""

import struct
from collections.abc import Awaitable, Iterable

from broker.dispatch.context import Context
from broker.dispatch.encoded import Encoded
from broker.dispatch.registry import serves
from broker.dispatch.turns import (
    COUNTED_A_TURN,
    ITEMS_A_TURN,
    Steps,
    WhileHeard,
    in_turns,
    to_the_end,
)
from broker.protocol.api_keys import ApiKey
from broker.protocol.codec import response_encoder
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.protocol.wire import uvarint
from broker.runtime.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from broker.runtime.process.long_work import work_of_request
from broker.runtime.services import Broker
from broker.topics.names import Taken
from broker.topics.topic import INTERNAL, Topic

NO_ID = bytes(16)
BY_ID_SINCE = 12
PARTITIONS_A_TURN = 500
"""Described before others have their turn on the loop: some milliseconds."""
REFUSED_A_TURN = 100
"""Names that no topic may have now: each takes some ten microseconds."""
_KEPT_FOR_ONE_NEW = 10  # parts that are looked up in the time that one is made in


@serves(ApiKey.METADATA, versions=(0, 13))
def metadata(
    request: MetadataRequest, context: Context
) -> MetadataResponse | Encoded | Awaitable[MetadataResponse | Encoded]:
    return in_turns(_looked_up(request, context))


def _looked_up(
    request: MetadataRequest, context: Context
) -> Steps[MetadataResponse | Encoded | Awaitable[MetadataResponse | Encoded]]:
    asked = yield from _asked(request, context.version)
    if asked is None:
        topics = list(context.broker.topics.all())
        if sum(topic.partitions for topic in topics) > PARTITIONS_A_TURN:
            return (yield from _all_in_turns(topics, request, context))
        return (yield from _all_at_once(topics, request, context))
    missing = yield from _to_create(asked, request, context)
    if missing:
        answer = _create_then_answer(asked, missing, request, context)
        return WhileHeard(answer)
    return (yield from _topics(asked, {}, request, context))


def _asked(
    request: MetadataRequest, version: int
) -> Steps[list[MetadataRequestTopic] | None]:
    """The topics asked for, each once; None for all of them. Of one that is named by
    its id, the name does not count: an answer is no larger than all topics."""
    if request.topics is None or (version == 0 and not request.topics):
        return None
    unique: dict[tuple[str | None, bytes], MetadataRequestTopic] = {}
    for count, topic in enumerate(request.topics, 1):
        by_id = version >= BY_ID_SINCE and topic.topic_id != NO_ID
        unique[None if by_id else topic.name, topic.topic_id] = topic
        if count % COUNTED_A_TURN == 0:
            yield
    return list(unique.values())


def _to_create(
    asked: Iterable[MetadataRequestTopic], request: MetadataRequest, context: Context
) -> Steps[list[str]]:
    """The names of those that may be made, if any may."""
    broker = context.broker
    willing = context.version < 4 or request.allow_auto_topic_creation
    if not (willing and broker.settings.broker.auto_create_topics):
        return []
    missing: list[str] = []
    for count, topic in enumerate(asked, 1):
        if (
            topic.name is not None
            and not (context.version >= 10 and topic.topic_id != NO_ID)
            and topic.name not in INTERNAL
            and broker.topics.get(topic.name) is None
            and broker.topics.is_valid_name(topic.name)
        ):
            missing.append(topic.name)
        if count % ITEMS_A_TURN == 0:
            yield
    return missing


async def _create_then_answer(
    asked: list[MetadataRequestTopic],
    missing: list[str],
    request: MetadataRequest,
    context: Context,
) -> MetadataResponse:
    errors: dict[str, ErrorCode] = {}
    made, long_work = Taken(), work_of_request()
    for count, name in enumerate(missing, 1):
        if count % REFUSED_A_TURN == 0:
            await long_work.others_first()  # a name that is refused waits for nothing
        try:
            await context.broker.topics.ensure(
                name, context.broker.settings.broker.num_partitions, {}, made
            )
        except KafkaError as error:
            errors[name] = error.code
    return await to_the_end(_topics(asked, errors, request, context))


def _topics(
    asked: Iterable[MetadataRequestTopic],
    errors: dict[str, ErrorCode],
    request: MetadataRequest,
    context: Context,
) -> Steps[MetadataResponse]:
    """The answer about the topics that were asked for."""
    topics: list[MetadataResponseTopic] = []
    work = 0
    for topic in asked:
        one = yield from _one(topic, errors, request, context)
        topics.append(one)
        work += 1 + len(one.partitions)
        if work > PARTITIONS_A_TURN:
            work = 0
            yield
    return _answer(request, context, topics)


def _all_at_once(
    topics: Iterable[Topic], request: MetadataRequest, context: Context
) -> Steps[MetadataResponse]:
    """The answer about all topics, where they are few: it never yields."""
    described: list[MetadataResponseTopic] = []
    for topic in topics:
        one = yield from _described(topic, request, context.broker)
        described.append(one)
    return _answer(request, context, described)


def _one(
    asked: MetadataRequestTopic,
    errors: dict[str, ErrorCode],
    request: MetadataRequest,
    context: Context,
) -> Steps[MetadataResponseTopic]:
    topics, version = context.broker.topics, context.version
    by_id = asked.topic_id != NO_ID
    if version < BY_ID_SINCE and (by_id or asked.name is None):
        # MetadataRequest.java: ids cannot be asked for before v12
        return _refused(ErrorCode.INVALID_REQUEST, asked.name or "", asked.topic_id)
    if by_id:
        found = topics.by_id(asked.topic_id)
        if found is None:
            return _refused(ErrorCode.UNKNOWN_TOPIC_ID, None, asked.topic_id)
        return (yield from _described(found, request, context.broker))
    if asked.name is None:
        return _refused(ErrorCode.INVALID_REQUEST, None, NO_ID)
    found = topics.get(asked.name)
    if found is None:
        code = errors.get(asked.name) or _why_unknown(asked.name, context.broker)
        return _refused(code, asked.name, NO_ID)
    return (yield from _described(found, request, context.broker))


def _why_unknown(name: str, broker: Broker) -> ErrorCode:
    return (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if broker.topics.is_valid_name(name)
        else ErrorCode.INVALID_TOPIC_EXCEPTION
    )


def _refused(
    code: ErrorCode, name: str | None, topic_id: bytes
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code, name=name, topic_id=topic_id, is_internal=name in INTERNAL
    )


def _all_in_turns(
    topics: list[Topic], request: MetadataRequest, context: Context
) -> Steps[Encoded]:
    """The answer about all topics, of parts that are encoded once and kept."""
    envelope = _Envelope(context.version)
    operations = request.include_topic_authorized_operations
    kept = context.broker.topics.derived(("metadata", context.version, operations))
    parts: list[bytes] = []
    work = 0
    for topic in topics:
        known = kept.get(topic.number)
        if known is None or known[0] is not topic:
            described = yield from _described(topic, request, context.broker)
            part = envelope.encoded(described)
            known = topic, part
            if context.broker.topics.by_number(topic.number) is topic:
                kept[topic.number] = known
            work += (topic.partitions + 1) * _KEPT_FOR_ONE_NEW
        parts.append(known[1])
        work += 1
        if work > PARTITIONS_A_TURN * _KEPT_FOR_ONE_NEW:
            work = 0
            yield
    return Encoded([envelope.joined(_answer(request, context, []), parts)])


class _Envelope:
    """Where the topics stand in a response of one version."""

    def __init__(self, version: int) -> None:
        self._encode = response_encoder(int(ApiKey.METADATA), version)
        self._flexible = version >= 9
        # cluster_authorized_operations, error_code, tagged fields
        self._after = 4 * (8 <= version <= 10) + 2 * (version >= 13) + self._flexible
        self._empty = len(self._bytes(MetadataResponse()))

    def encoded(self, topic: MetadataResponseTopic) -> bytes:
        """Return the bytes of one topic: by what they make a response longer."""
        one = self._bytes(MetadataResponse(topics=[topic]))
        end = len(one) - self._after
        return one[end - (len(one) - self._empty) : end]

    def joined(self, answer: MetadataResponse, topics: list[bytes]) -> bytes:
        """Return the answer, which has no topics of its own, with these in it."""
        whole, count = self._bytes(answer), len(topics)
        end = len(whole) - self._after
        start = end - (1 if self._flexible else 4)
        length = uvarint(count + 1) if self._flexible else struct.pack(">i", count)
        return b"".join([whole[:start], length, *topics, whole[end:]])

    def _bytes(self, response: MetadataResponse) -> bytes:
        return b"".join(map(bytes, self._encode(response)))


def _partitions(count: int, node: int) -> Steps[list[MetadataResponsePartition]]:
    made: list[MetadataResponsePartition] = []
    for first in range(0, count, PARTITIONS_A_TURN):
        if first:
            yield
        made += [
            MetadataResponsePartition(
                partition_index=index,
                leader_id=node,
                leader_epoch=0,
                replica_nodes=[node],
                isr_nodes=[node],
            )
            for index in range(first, min(count, first + PARTITIONS_A_TURN))
        ]
    return made


def _described(
    topic: Topic, request: MetadataRequest, broker: Broker
) -> Steps[MetadataResponseTopic]:
    partitions = yield from _partitions(topic.partitions, broker.node_id)
    answer = MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=partitions,
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
