"""Generated from definitions/streams_group_describe.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class StreamsGroupDescribeRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.STREAMS_GROUP_DESCRIBE

    group_ids: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False


@dataclass(slots=True)
class KeyValue:
    key: str = ""
    value: str = ""


@dataclass(slots=True)
class TopicInfo:
    name: str = ""
    partitions: int = 0
    replication_factor: int = 0
    topic_configs: list[KeyValue] = field(default_factory=list)


@dataclass(slots=True)
class Subtopology:
    subtopology_id: str = ""
    source_topics: list[str] = field(default_factory=list)
    repartition_sink_topics: list[str] = field(default_factory=list)
    state_changelog_topics: list[TopicInfo] = field(default_factory=list)
    repartition_source_topics: list[TopicInfo] = field(default_factory=list)


@dataclass(slots=True)
class Topology:
    epoch: int = 0
    subtopologies: list[Subtopology] | None = None


@dataclass(slots=True)
class Endpoint:
    host: str = ""
    port: int = 0


@dataclass(slots=True)
class TaskOffset:
    subtopology_id: str = ""
    partition: int = 0
    offset: int = 0


@dataclass(slots=True)
class TaskIds:
    subtopology_id: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Assignment:
    active_tasks: list[TaskIds] = field(default_factory=list)
    standby_tasks: list[TaskIds] = field(default_factory=list)
    warmup_tasks: list[TaskIds] = field(default_factory=list)


@dataclass(slots=True)
class Member:
    member_id: str = ""
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topology_epoch: int = 0
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] = field(default_factory=list)
    task_offsets: list[TaskOffset] = field(default_factory=list)
    task_end_offsets: list[TaskOffset] = field(default_factory=list)
    assignment: Assignment = field(default_factory=Assignment)
    target_assignment: Assignment = field(default_factory=Assignment)
    is_classic: bool = False


@dataclass(slots=True)
class DescribedGroup:
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    topology: Topology | None = None
    members: list[Member] = field(default_factory=list)
    authorized_operations: int = -2147483648


@dataclass(slots=True)
class StreamsGroupDescribeResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.STREAMS_GROUP_DESCRIBE

    throttle_time_ms: int = 0
    groups: list[DescribedGroup] = field(default_factory=list)
