"""Generated from definitions/expire_delegation_token.py: do not edit."""

from dataclasses import dataclass
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class ExpireDelegationTokenRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.EXPIRE_DELEGATION_TOKEN

    hmac: bytes = b""
    expiry_time_period_ms: int = 0


@dataclass(slots=True)
class ExpireDelegationTokenResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.EXPIRE_DELEGATION_TOKEN

    error_code: int = 0
    expiry_timestamp_ms: int = 0
    throttle_time_ms: int = 0
