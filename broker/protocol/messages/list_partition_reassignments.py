"""Generated from definitions/list_partition_reassignments.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class ListPartitionReassignmentsTopics:
    name: str = ""
    partition_indexes: list[int] = field(default_factory=list)


@dataclass(slots=True)
class ListPartitionReassignmentsRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.LIST_PARTITION_REASSIGNMENTS

    timeout_ms: int = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


@dataclass(slots=True)
class OngoingPartitionReassignment:
    partition_index: int = 0
    replicas: list[int] = field(default_factory=list)
    adding_replicas: list[int] = field(default_factory=list)
    removing_replicas: list[int] = field(default_factory=list)


@dataclass(slots=True)
class OngoingTopicReassignment:
    name: str = ""
    partitions: list[OngoingPartitionReassignment] = field(default_factory=list)


@dataclass(slots=True)
class ListPartitionReassignmentsResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.LIST_PARTITION_REASSIGNMENTS

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    topics: list[OngoingTopicReassignment] = field(default_factory=list)
