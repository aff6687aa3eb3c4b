"""AlterPartitionReassignments: a partition may move to where it is.

Behavior: as ``ReplicationControlManager.alterPartitionReassignments`` with one node. It
is the only replica that can be named, and is one already: that succeeds and moves
nothing. There is never a reassignment that could be cancelled (null replicas).
Version notes: v1 whether the number of replicas may change (KIP-860), which it cannot.
"""

from collections.abc import Awaitable

from broker.apis._assignment import check_assignment
from broker.apis._partitions import each_in_turns
from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import Steps, in_turns
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)
from broker.runtime.services import Broker
from broker.topics.names import shown


@serves(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=(0, 1))
def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, context: Context
) -> (
    AlterPartitionReassignmentsResponse | Awaitable[AlterPartitionReassignmentsResponse]
):
    return in_turns(_reassigned(request, context.broker))


def _reassigned(
    request: AlterPartitionReassignmentsRequest, broker: Broker
) -> Steps[AlterPartitionReassignmentsResponse]:
    def answer(
        topic: ReassignableTopic, asked: ReassignablePartition
    ) -> ReassignablePartitionResponse:
        result = ReassignablePartitionResponse(asked.partition_index, 0, None)
        try:
            _check(topic.name, asked, broker)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message or None
        return result

    each = yield from each_in_turns(
        request.topics, lambda topic: topic.partitions, answer
    )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=(
            request.allow_replication_factor_change or not each
        ),
        error_message=None,
        responses=[
            ReassignableTopicResponse(topic.name, answers) for topic, answers in each
        ],
    )


def _check(name: str, asked: ReassignablePartition, broker: Broker) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topic = broker.topics.get(name)
    if topic is None:
        raise KafkaError(unknown, f"Unable to find a topic named {shown(name)}.")
    if not 0 <= asked.partition_index < topic.partitions:
        where = f"{name}:{asked.partition_index}"
        raise KafkaError(unknown, f"Unable to find partition {where}.")
    if asked.replicas is None:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    check_assignment(asked.replicas, broker.node_id)
