"""Generated from definitions/describe_topic_partitions.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class TopicRequest:
    name: str = ""


@dataclass(slots=True)
class Cursor:
    topic_name: str = ""
    partition_index: int = 0


@dataclass(slots=True)
class DescribeTopicPartitionsRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_TOPIC_PARTITIONS

    topics: list[TopicRequest] = field(default_factory=list)
    response_partition_limit: int = 2000
    cursor: Cursor | None = None


@dataclass(slots=True)
class DescribeTopicPartitionsResponsePartition:
    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: list[int] = field(default_factory=list)
    isr_nodes: list[int] = field(default_factory=list)
    eligible_leader_replicas: list[int] | None = None
    last_known_elr: list[int] | None = None
    offline_replicas: list[int] = field(default_factory=list)


@dataclass(slots=True)
class DescribeTopicPartitionsResponseTopic:
    error_code: int = 0
    name: str | None = ""
    topic_id: bytes = bytes(16)
    is_internal: bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(
        default_factory=list
    )
    topic_authorized_operations: int = -2147483648


@dataclass(slots=True)
class DescribeTopicPartitionsResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_TOPIC_PARTITIONS

    throttle_time_ms: int = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = field(default_factory=list)
    next_cursor: Cursor | None = None
