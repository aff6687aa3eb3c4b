"""Generated from definitions/sasl_authenticate.py: do not edit."""

from dataclasses import dataclass
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class SaslAuthenticateRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.SASL_AUTHENTICATE

    auth_bytes: bytes = b""


@dataclass(slots=True)
class SaslAuthenticateResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.SASL_AUTHENTICATE

    error_code: int = 0
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0
