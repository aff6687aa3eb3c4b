"""Generated from definitions/find_coordinator.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class FindCoordinatorRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.FIND_COORDINATOR

    key: str = ""
    key_type: int = 0
    coordinator_keys: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Coordinator:
    key: str = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    error_code: int = 0
    error_message: str | None = ""


@dataclass(slots=True)
class FindCoordinatorResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.FIND_COORDINATOR

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    coordinators: list[Coordinator] = field(default_factory=list)
