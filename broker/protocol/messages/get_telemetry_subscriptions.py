"""Generated from definitions/get_telemetry_subscriptions.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class GetTelemetrySubscriptionsRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.GET_TELEMETRY_SUBSCRIPTIONS

    client_instance_id: bytes = bytes(16)


@dataclass(slots=True)
class GetTelemetrySubscriptionsResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.GET_TELEMETRY_SUBSCRIPTIONS

    throttle_time_ms: int = 0
    error_code: int = 0
    client_instance_id: bytes = bytes(16)
    subscription_id: int = 0
    accepted_compression_types: list[int] = field(default_factory=list)
    push_interval_ms: int = 0
    telemetry_max_bytes: int = 0
    delta_temporality: bool = False
    requested_metrics: list[str] = field(default_factory=list)
