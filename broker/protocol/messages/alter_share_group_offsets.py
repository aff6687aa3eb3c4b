"""Generated from definitions/alter_share_group_offsets.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class AlterShareGroupOffsetsRequestPartition:
    partition_index: int = 0
    start_offset: int = 0


@dataclass(slots=True)
class AlterShareGroupOffsetsRequestTopic:
    topic_name: str = ""
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field(
        default_factory=list
    )


@dataclass(slots=True)
class AlterShareGroupOffsetsRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.ALTER_SHARE_GROUP_OFFSETS

    group_id: str = ""
    topics: list[AlterShareGroupOffsetsRequestTopic] = field(default_factory=list)


@dataclass(slots=True)
class AlterShareGroupOffsetsResponsePartition:
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True)
class AlterShareGroupOffsetsResponseTopic:
    topic_name: str = ""
    topic_id: bytes = bytes(16)
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field(
        default_factory=list
    )


@dataclass(slots=True)
class AlterShareGroupOffsetsResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.ALTER_SHARE_GROUP_OFFSETS

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic] = field(default_factory=list)
