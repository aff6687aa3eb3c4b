"""DescribeTopicPartitions: Metadata for administrators, in pages (KIP-966).

Behavior: topics in the order of their names, starting at the cursor, until the limit of
partitions is reached; then a cursor says where the next page begins. No topic named
means all. A cursor at a topic that is not named, where some are, is INVALID_REQUEST of
each, and so is one at a partition below 0; a name that is empty is
UNKNOWN_SERVER_ERROR of each. Kafka: ``DescribeTopicPartitionsRequestHandler``.
"""

from collections.abc import Awaitable, Iterator
from heapq import merge
from itertools import islice

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import COUNTED_A_TURN, ITEMS_A_TURN, Steps, in_turns
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode
from broker.protocol.messages import describe_topic_partitions as messages
from broker.runtime.operations import TOPIC_OPERATIONS
from broker.runtime.services import Broker
from broker.topics.topic import Topic

PARTITIONS_MAX = 2_000
Response = messages.DescribeTopicPartitionsResponse


@serves(ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions=(0, 0))
def describe_topic_partitions(
    request: messages.DescribeTopicPartitionsRequest, context: Context
) -> Response | Awaitable[Response]:
    return in_turns(_page(request, context))


def _page(
    request: messages.DescribeTopicPartitionsRequest, context: Context
) -> Steps[Response]:
    code = yield from _refusal(request)
    if code is not None:
        return (yield from _refused(request, code))
    work = 0
    answer = messages.DescribeTopicPartitionsResponse()
    room = max(1, min(request.response_partition_limit, PARTITIONS_MAX))
    names = yield from _asked(request, context.broker)
    for name in names:
        first = _first_of(name, request.cursor)
        if work > ITEMS_A_TURN:
            work = 0
            yield
        work += 1
        if room == 0:
            answer.next_cursor = _cursor(name, first)
            break
        topic = context.broker.topics.get(name)
        if topic is None:
            answer.topics.append(_unknown(name, context.broker))
            continue
        last = min(topic.partitions, first + room)
        answer.topics.append(_described(topic, first, last, context.broker))
        room -= max(0, last - first)
        work += max(0, last - first)
        if last < topic.partitions:
            answer.next_cursor = _cursor(name, last)
            break
    return answer


def _refusal(
    request: messages.DescribeTopicPartitionsRequest,
) -> Steps[ErrorCode | None]:
    """The code of all, if the request as a whole is refused."""
    names = yield from _names(request)
    if "" in names:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    cursor = request.cursor
    if cursor is None:
        return None
    is_beside = bool(names) and cursor.topic_name not in names
    is_valid = cursor.partition_index >= 0 and not is_beside
    return None if is_valid else ErrorCode.INVALID_REQUEST


def _names(request: messages.DescribeTopicPartitionsRequest) -> Steps[set[str]]:
    names = set[str]()
    for count, topic in enumerate(request.topics, 1):
        if count % ITEMS_A_TURN == 0:
            yield
        names.add(topic.name)
    return names


def _refused(
    request: messages.DescribeTopicPartitionsRequest, code: ErrorCode
) -> Steps[Response]:
    answer = messages.DescribeTopicPartitionsResponse()
    for count, topic in enumerate(request.topics, 1):
        if count % ITEMS_A_TURN == 0:
            yield
        refused = messages.DescribeTopicPartitionsResponseTopic(code, topic.name)
        answer.topics.append(refused)
    return answer


def _cursor(name: str, partition: int) -> messages.Cursor:
    return messages.Cursor(topic_name=name, partition_index=partition)


def _asked(
    request: messages.DescribeTopicPartitionsRequest, broker: Broker
) -> Steps[Iterator[str]]:
    """The names from the cursor on, in order: sorted in parts, since to sort all of
    them at once takes too long."""
    start = "" if request.cursor is None else request.cursor.topic_name
    asked = (topic.name for topic in request.topics)
    here = (topic.name for topic in broker.topics.all())
    names: set[str] = set()
    for count, name in enumerate(asked if request.topics else here, 1):
        if name >= start:
            names.add(name)
        if count % COUNTED_A_TURN == 0:
            yield
    parts, left = [], iter(names)
    while part := sorted(islice(left, COUNTED_A_TURN)):
        parts.append(part)
        if len(part) == COUNTED_A_TURN:
            yield
    return merge(*parts)


def _first_of(name: str, cursor: messages.Cursor | None) -> int:
    """The first partition of a topic that is told of."""
    if cursor is None or name != cursor.topic_name:
        return 0
    return max(0, cursor.partition_index)


def _unknown(
    name: str, broker: Broker
) -> messages.DescribeTopicPartitionsResponseTopic:
    code = (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if broker.topics.is_valid_name(name)
        else ErrorCode.INVALID_TOPIC_EXCEPTION
    )
    return messages.DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_authorized_operations=TOPIC_OPERATIONS
    )


def _described(
    topic: Topic, first: int, last: int, broker: Broker
) -> messages.DescribeTopicPartitionsResponseTopic:
    node = broker.node_id
    return messages.DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=[
            messages.DescribeTopicPartitionsResponsePartition(
                partition_index=index,
                leader_id=node,
                leader_epoch=0,
                replica_nodes=[node],
                isr_nodes=[node],
                # Empty, not null: the Java client does not look before it reads them.
                eligible_leader_replicas=[],
                last_known_elr=[],
            )
            for index in range(first, last)
        ],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
