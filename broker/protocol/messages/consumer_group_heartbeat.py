"""Generated from definitions/consumer_group_heartbeat.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class TopicPartitions:
    topic_id: bytes = bytes(16)
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True)
class ConsumerGroupHeartbeatRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.CONSUMER_GROUP_HEARTBEAT

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: list[TopicPartitions] | None = None


@dataclass(slots=True)
class Assignment:
    topic_partitions: list[TopicPartitions] = field(default_factory=list)


@dataclass(slots=True)
class ConsumerGroupHeartbeatResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.CONSUMER_GROUP_HEARTBEAT

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None
