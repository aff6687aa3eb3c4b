"""Generated from definitions/delete_topics.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class DeleteTopicState:
    name: str | None = None
    topic_id: bytes = bytes(16)


@dataclass(slots=True)
class DeleteTopicsRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.DELETE_TOPICS

    topics: list[DeleteTopicState] = field(default_factory=list)
    topic_names: list[str] = field(default_factory=list)
    timeout_ms: int = 0


@dataclass(slots=True)
class DeletableTopicResult:
    name: str | None = ""
    topic_id: bytes = bytes(16)
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True)
class DeleteTopicsResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.DELETE_TOPICS

    throttle_time_ms: int = 0
    responses: list[DeletableTopicResult] = field(default_factory=list)
