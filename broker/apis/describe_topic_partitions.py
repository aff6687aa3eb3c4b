"""DescribeTopicPartitions: Metadata for administrators, in pages (KIP-966).

Behavior: topics in the order of their names, starting at the cursor, until the limit of
partitions is reached; then a cursor says where the next page begins. No topic named
means all. Kafka: ``DescribeTopicPartitionsRequestHandler``.
"""

from collections.abc import Awaitable, Iterator

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import ITEMS_A_TURN, Steps, in_turns
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
    work = 0
    answer = messages.DescribeTopicPartitionsResponse()
    room = max(1, min(request.response_partition_limit, PARTITIONS_MAX))
    for name, first in _asked(request, context.broker):
        if work > ITEMS_A_TURN:
            work = 0
            yield
        work += 1
        topic = context.broker.topics.get(name)
        if topic is None:
            answer.topics.append(_unknown(name, context.broker))
            continue
        if room == 0:
            answer.next_cursor = _cursor(name, first)
            break
        last = min(topic.partitions, first + room)
        answer.topics.append(_described(topic, first, last, context.broker))
        room -= max(0, last - first)
        work += max(0, last - first)
        if last < topic.partitions:
            answer.next_cursor = _cursor(name, last)
            break
    return answer


def _cursor(name: str, partition: int) -> messages.Cursor:
    return messages.Cursor(topic_name=name, partition_index=partition)


def _asked(
    request: messages.DescribeTopicPartitionsRequest, broker: Broker
) -> Iterator[tuple[str, int]]:
    """Names in order, each with the first partition to tell of."""
    names = {topic.name for topic in request.topics}
    if not names:
        names = {topic.name for topic in broker.topics.all()}
    start = request.cursor
    for name in sorted(names):
        if start is None or name > start.topic_name:
            yield name, 0
        elif name == start.topic_name:
            yield name, max(0, start.partition_index)


def _unknown(
    name: str, broker: Broker
) -> messages.DescribeTopicPartitionsResponseTopic:
    code = (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if broker.topics.is_valid_name(name)
        else ErrorCode.INVALID_TOPIC_EXCEPTION
    )
    return messages.DescribeTopicPartitionsResponseTopic(error_code=code, name=name)


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
