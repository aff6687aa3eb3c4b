"""Generated from definitions/describe_delegation_token.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class DescribeDelegationTokenOwner:
    principal_type: str = ""
    principal_name: str = ""


@dataclass(slots=True)
class DescribeDelegationTokenRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_DELEGATION_TOKEN

    owners: list[DescribeDelegationTokenOwner] | None = field(default_factory=list)


@dataclass(slots=True)
class DescribedDelegationTokenRenewer:
    principal_type: str = ""
    principal_name: str = ""


@dataclass(slots=True)
class DescribedDelegationToken:
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = ""
    token_requester_principal_name: str = ""
    issue_timestamp: int = 0
    expiry_timestamp: int = 0
    max_timestamp: int = 0
    token_id: str = ""
    hmac: bytes = b""
    renewers: list[DescribedDelegationTokenRenewer] = field(default_factory=list)


@dataclass(slots=True)
class DescribeDelegationTokenResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_DELEGATION_TOKEN

    error_code: int = 0
    tokens: list[DescribedDelegationToken] = field(default_factory=list)
    throttle_time_ms: int = 0
