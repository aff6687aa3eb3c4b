"""Generated from definitions/unregister_broker.py: do not edit."""

from dataclasses import dataclass
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class UnregisterBrokerRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.UNREGISTER_BROKER

    broker_id: int = 0


@dataclass(slots=True)
class UnregisterBrokerResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.UNREGISTER_BROKER

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
