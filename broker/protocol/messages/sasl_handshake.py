"""Generated from definitions/sasl_handshake.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class SaslHandshakeRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.SASL_HANDSHAKE

    mechanism: str = ""


@dataclass(slots=True)
class SaslHandshakeResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.SASL_HANDSHAKE

    error_code: int = 0
    mechanisms: list[str] = field(default_factory=list)
