"""Generated from definitions/elect_leaders.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class TopicPartitions:
    topic: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True)
class ElectLeadersRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.ELECT_LEADERS

    election_type: int = 0
    topic_partitions: list[TopicPartitions] | None = field(default_factory=list)
    timeout_ms: int = 60000


@dataclass(slots=True)
class PartitionResult:
    partition_id: int = 0
    error_code: int = 0
    error_message: str | None = ""


@dataclass(slots=True)
class ReplicaElectionResult:
    topic: str = ""
    partition_result: list[PartitionResult] = field(default_factory=list)


@dataclass(slots=True)
class ElectLeadersResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.ELECT_LEADERS

    throttle_time_ms: int = 0
    error_code: int = 0
    replica_election_results: list[ReplicaElectionResult] = field(default_factory=list)
