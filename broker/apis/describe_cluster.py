"""DescribeCluster: the nodes, the cluster id and the controller.

Behavior: one node, which is also the controller.
Version notes: v1 asks for brokers or controllers (KIP-919); controllers are not asked
of a broker's listener. v2 fenced brokers (KIP-1073): there are none.
"""

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from broker.runtime.operations import CLUSTER_OPERATIONS

BROKERS, CONTROLLERS = 1, 2


@serves(ApiKey.DESCRIBE_CLUSTER, versions=(0, 2))
def describe_cluster(
    request: DescribeClusterRequest, context: Context
) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLERS:
        return _refused(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an "
            "endpoint of type CONTROLLER",
        )
    if request.endpoint_type != BROKERS:
        return _refused(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            f"Unsupported endpoint type {request.endpoint_type}",
        )
    broker = context.broker
    host, port = broker.advertised
    answer = DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        brokers=[DescribeClusterBroker(broker_id=broker.node_id, host=host, port=port)],
    )
    if request.include_cluster_authorized_operations:
        answer.cluster_authorized_operations = CLUSTER_OPERATIONS
    return answer


def _refused(code: ErrorCode, message: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=code, error_message=message)
