"""Generated from definitions/describe_cluster.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class DescribeClusterRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_CLUSTER

    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1
    include_fenced_brokers: bool = False


@dataclass(slots=True)
class DescribeClusterBroker:
    broker_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None
    is_fenced: bool = False


@dataclass(slots=True)
class DescribeClusterResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_CLUSTER

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    endpoint_type: int = 1
    cluster_id: str = ""
    controller_id: int = -1
    brokers: list[DescribeClusterBroker] = field(default_factory=list)
    cluster_authorized_operations: int = -2147483648
