"""Generated from definitions/describe_quorum.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class PartitionData:
    partition_index: int = 0


@dataclass(slots=True)
class TopicData:
    topic_name: str = ""
    partitions: list[PartitionData] = field(default_factory=list)


@dataclass(slots=True)
class DescribeQuorumRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_QUORUM

    topics: list[TopicData] = field(default_factory=list)


@dataclass(slots=True)
class ReplicaState:
    replica_id: int = 0
    replica_directory_id: bytes = bytes(16)
    log_end_offset: int = 0
    last_fetch_timestamp: int = -1
    last_caught_up_timestamp: int = -1


@dataclass(slots=True)
class PartitionDataResponse:
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = ""
    leader_id: int = 0
    leader_epoch: int = 0
    high_watermark: int = 0
    current_voters: list[ReplicaState] = field(default_factory=list)
    observers: list[ReplicaState] = field(default_factory=list)


@dataclass(slots=True)
class TopicDataResponse:
    topic_name: str = ""
    partitions: list[PartitionDataResponse] = field(default_factory=list)


@dataclass(slots=True)
class Listener:
    name: str = ""
    host: str = ""
    port: int = 0


@dataclass(slots=True)
class Node:
    node_id: int = 0
    listeners: list[Listener] = field(default_factory=list)


@dataclass(slots=True)
class DescribeQuorumResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_QUORUM

    error_code: int = 0
    error_message: str | None = ""
    topics: list[TopicDataResponse] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
