"""Generated from definitions/share_group_describe.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class ShareGroupDescribeRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.SHARE_GROUP_DESCRIBE

    group_ids: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False


@dataclass(slots=True)
class TopicPartitions:
    topic_id: bytes = bytes(16)
    topic_name: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Assignment:
    topic_partitions: list[TopicPartitions] = field(default_factory=list)


@dataclass(slots=True)
class Member:
    member_id: str = ""
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    assignment: Assignment = field(default_factory=Assignment)


@dataclass(slots=True)
class DescribedGroup:
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: list[Member] = field(default_factory=list)
    authorized_operations: int = -2147483648


@dataclass(slots=True)
class ShareGroupDescribeResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.SHARE_GROUP_DESCRIBE

    throttle_time_ms: int = 0
    groups: list[DescribedGroup] = field(default_factory=list)
