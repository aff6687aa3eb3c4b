"""ElectLeaders: every partition has its leader, so no election is needed.

Behavior: as ``ReplicationControlManager.electLeaders``. There is one node, it leads;
what is asked by name is ELECTION_NOT_NEEDED, preferred (KIP-460) and unclean alike; of
all partitions (null) those where there was nothing to do are left out.
Version notes: v1 the kind of election, and an error of the request as a whole.
"""

from collections.abc import Awaitable
from typing import Final

from broker.apis._partitions import each_in_turns
from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import Steps, in_turns, listed_in_turns
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from broker.runtime.topics.topics import Topics
from broker.topics.names import shown

PREFERRED, UNCLEAN = 0, 1
NOT_NEEDED: Final = "Leader election not needed for topic partition."


@serves(ApiKey.ELECT_LEADERS, versions=(0, 2))
def elect_leaders(
    request: ElectLeadersRequest, context: Context
) -> ElectLeadersResponse | Awaitable[ElectLeadersResponse]:
    return in_turns(_elected(request, context.broker.topics))


def _elected(
    request: ElectLeadersRequest, topics: Topics
) -> Steps[ElectLeadersResponse]:
    kind, response = request.election_type, ElectLeadersResponse()
    if kind not in (PREFERRED, UNCLEAN):
        response.error_code = ErrorCode.INVALID_REQUEST
    if request.topic_partitions is None:
        if response.error_code == ErrorCode.NONE:
            response.replica_election_results = yield from listed_in_turns(
                ReplicaElectionResult(topic.name) for topic in topics.all()
            )
        return response

    def look(asked: TopicPartitions, partition: int) -> PartitionResult:
        if response.error_code != ErrorCode.NONE:
            why = f"Unknown election type {kind}"
            return PartitionResult(partition, ErrorCode.INVALID_REQUEST, why)
        return _looked_at(asked.topic, partition, topics)

    each = yield from each_in_turns(
        request.topic_partitions, lambda asked: asked.partitions, look
    )
    response.replica_election_results = [
        ReplicaElectionResult(asked.topic, results) for asked, results in each
    ]
    return response


def _looked_at(name: str, partition: int, topics: Topics) -> PartitionResult:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topic = topics.get(name)
    if topic is None:
        return PartitionResult(partition, unknown, f"No such topic as {shown(name)}")
    if not 0 <= partition < topic.partitions:
        why = f"No such partition as {name}-{partition}"
        return PartitionResult(partition, unknown, why)
    return PartitionResult(partition, ErrorCode.ELECTION_NOT_NEEDED, NOT_NEEDED)
