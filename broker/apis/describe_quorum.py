"""DescribeQuorum: this node alone decides, as a quorum of one.

Behavior: as ``KafkaRaftClient.handleDescribeQuorumRequest``. Kafka's metadata live in a
partition, ``__cluster_metadata`` 0, and a request must name that one and nothing else.
Here they are in the catalog, so what its log would say is what tools can live with: the
leader is this node since the beginning (epoch 0), the log is an empty one (it ends at
0, since clients take no -1 for a high watermark), in no directory of its own, and the
leader has caught up, now.
Version notes: v1 when replicas last fetched (KIP-836); v2 messages, directories of
replicas and where the voters listen (KIP-853).
"""

from collections.abc import Awaitable
from typing import Final

from broker.apis._partitions import each_in_turns
from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import Steps, in_turns
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import unknown_partition
from broker.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    PartitionDataResponse,
    ReplicaState,
    TopicData,
    TopicDataResponse,
)
from broker.runtime.services import Broker

CLUSTER_METADATA: Final = "__cluster_metadata"
LISTENER: Final = "CONTROLLER"
"""Tools look for the voters under the name that Kafka's own settings give it."""


@serves(ApiKey.DESCRIBE_QUORUM, versions=(0, 2))
def describe_quorum(
    request: DescribeQuorumRequest, context: Context
) -> DescribeQuorumResponse | Awaitable[DescribeQuorumResponse]:
    if _asks_for_the_quorum(request):
        return _described(context.broker)
    return in_turns(_unknown(request))


def _asks_for_the_quorum(request: DescribeQuorumRequest) -> bool:
    if len(request.topics) != 1 or request.topics[0].topic_name != CLUSTER_METADATA:
        return False
    partitions = request.topics[0].partitions
    return len(partitions) == 1 and partitions[0].partition_index == 0


def _unknown(request: DescribeQuorumRequest) -> Steps[DescribeQuorumResponse]:
    error = unknown_partition()

    def answer(_: TopicData, asked: PartitionData) -> PartitionDataResponse:
        return PartitionDataResponse(asked.partition_index, error.code, error.message)

    each = yield from each_in_turns(
        request.topics, lambda topic: topic.partitions, answer
    )
    return DescribeQuorumResponse(
        topics=[TopicDataResponse(topic.topic_name, parts) for topic, parts in each]
    )


def _described(broker: Broker) -> DescribeQuorumResponse:
    now_ms = broker.clock.now_ms()
    voter = ReplicaState(
        broker.node_id,
        log_end_offset=0,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    partition = PartitionDataResponse(
        leader_id=broker.node_id, high_watermark=0, current_voters=[voter]
    )
    host, port = broker.advertised
    return DescribeQuorumResponse(
        topics=[TopicDataResponse(CLUSTER_METADATA, [partition])],
        nodes=[Node(broker.node_id, [Listener(LISTENER, host, port)])],
    )
