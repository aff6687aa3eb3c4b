"""Generated from definitions/delete_share_group_offsets.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: str = ""


@dataclass(slots=True)
class DeleteShareGroupOffsetsRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.DELETE_SHARE_GROUP_OFFSETS

    group_id: str = ""
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field(default_factory=list)


@dataclass(slots=True)
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: str = ""
    topic_id: bytes = bytes(16)
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True)
class DeleteShareGroupOffsetsResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.DELETE_SHARE_GROUP_OFFSETS

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(default_factory=list)
