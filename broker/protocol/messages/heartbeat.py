"""Generated from definitions/heartbeat.py: do not edit."""

from dataclasses import dataclass
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class HeartbeatRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.HEARTBEAT

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None


@dataclass(slots=True)
class HeartbeatResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.HEARTBEAT

    throttle_time_ms: int = 0
    error_code: int = 0
