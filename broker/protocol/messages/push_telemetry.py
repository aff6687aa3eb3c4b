"""Generated from definitions/push_telemetry.py: do not edit."""

from dataclasses import dataclass
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class PushTelemetryRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.PUSH_TELEMETRY

    client_instance_id: bytes = bytes(16)
    subscription_id: int = 0
    terminating: bool = False
    compression_type: int = 0
    metrics: bytes = b""


@dataclass(slots=True)
class PushTelemetryResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.PUSH_TELEMETRY

    throttle_time_ms: int = 0
    error_code: int = 0
