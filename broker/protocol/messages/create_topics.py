"""Generated from definitions/create_topics.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class CreatableReplicaAssignment:
    partition_index: int = 0
    broker_ids: list[int] = field(default_factory=list)


@dataclass(slots=True)
class CreatableTopicConfig:
    name: str = ""
    value: str | None = ""


@dataclass(slots=True)
class CreatableTopic:
    name: str = ""
    num_partitions: int = 0
    replication_factor: int = 0
    assignments: list[CreatableReplicaAssignment] = field(default_factory=list)
    configs: list[CreatableTopicConfig] = field(default_factory=list)


@dataclass(slots=True)
class CreateTopicsRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.CREATE_TOPICS

    topics: list[CreatableTopic] = field(default_factory=list)
    timeout_ms: int = 60000
    validate_only: bool = False


@dataclass(slots=True)
class CreatableTopicConfigs:
    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False


@dataclass(slots=True)
class CreatableTopicResult:
    name: str = ""
    topic_id: bytes = bytes(16)
    error_code: int = 0
    error_message: str | None = ""
    topic_config_error_code: int = 0
    num_partitions: int = -1
    replication_factor: int = -1
    configs: list[CreatableTopicConfigs] | None = field(default_factory=list)


@dataclass(slots=True)
class CreateTopicsResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.CREATE_TOPICS

    throttle_time_ms: int = 0
    topics: list[CreatableTopicResult] = field(default_factory=list)
