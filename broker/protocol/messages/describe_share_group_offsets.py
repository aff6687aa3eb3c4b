"""Generated from definitions/describe_share_group_offsets.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class DescribeShareGroupOffsetsRequestTopic:
    topic_name: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True)
class DescribeShareGroupOffsetsRequestGroup:
    group_id: str = ""
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(
        default_factory=list
    )


@dataclass(slots=True)
class DescribeShareGroupOffsetsRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS

    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(default_factory=list)


@dataclass(slots=True)
class DescribeShareGroupOffsetsResponsePartition:
    partition_index: int = 0
    start_offset: int = 0
    leader_epoch: int = 0
    lag: int = -1
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True)
class DescribeShareGroupOffsetsResponseTopic:
    topic_name: str = ""
    topic_id: bytes = bytes(16)
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field(
        default_factory=list
    )


@dataclass(slots=True)
class DescribeShareGroupOffsetsResponseGroup:
    group_id: str = ""
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field(default_factory=list)
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True)
class DescribeShareGroupOffsetsResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS

    throttle_time_ms: int = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(default_factory=list)
