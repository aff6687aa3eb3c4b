"""DescribeCluster: one node, which is also the controller."""

from pathlib import Path

from broker.apis.describe_cluster import describe_cluster
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.describe_cluster import DescribeClusterRequest
from broker.runtime.operations import CLUSTER_OPERATIONS
from tests.support.rig import NODE_ID, call, rig, run


def test_the_node_and_the_cluster_are_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            response = await call(describe_cluster, DescribeClusterRequest(), broker)
            (node,) = response.brokers
            assert (node.broker_id, node.host, node.port) == (
                NODE_ID,
                "localhost",
                9092,
            )
            assert response.cluster_id == broker.cluster_id
            assert response.controller_id == NODE_ID
            assert response.cluster_authorized_operations == -(1 << 31)
            request = DescribeClusterRequest(True)
            response = await call(describe_cluster, request, broker)
            assert response.cluster_authorized_operations == CLUSTER_OPERATIONS

    run(scenario)


def test_controllers_are_not_asked_of_a_broker(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            mismatched = (
                "The request was sent to an endpoint of type BROKER, but we wanted an "
                "endpoint of type CONTROLLER"
            )
            for kind, code, why in (
                (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE, mismatched),
                (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type 3"),
            ):
                request = DescribeClusterRequest(endpoint_type=kind)
                response = await call(describe_cluster, request, broker)
                assert response.error_code == code
                assert response.error_message == why
                assert response.brokers == []

    run(scenario)
