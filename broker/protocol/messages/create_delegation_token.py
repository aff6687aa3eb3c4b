"""Generated from definitions/create_delegation_token.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class CreatableRenewers:
    principal_type: str = ""
    principal_name: str = ""


@dataclass(slots=True)
class CreateDelegationTokenRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.CREATE_DELEGATION_TOKEN

    owner_principal_type: str | None = ""
    owner_principal_name: str | None = ""
    renewers: list[CreatableRenewers] = field(default_factory=list)
    max_lifetime_ms: int = 0


@dataclass(slots=True)
class CreateDelegationTokenResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.CREATE_DELEGATION_TOKEN

    error_code: int = 0
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = ""
    token_requester_principal_name: str = ""
    issue_timestamp_ms: int = 0
    expiry_timestamp_ms: int = 0
    max_timestamp_ms: int = 0
    token_id: str = ""
    hmac: bytes = b""
    throttle_time_ms: int = 0
