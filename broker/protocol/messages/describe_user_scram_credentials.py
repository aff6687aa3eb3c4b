"""Generated from definitions/describe_user_scram_credentials.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class UserName:
    name: str = ""


@dataclass(slots=True)
class DescribeUserScramCredentialsRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS

    users: list[UserName] | None = field(default_factory=list)


@dataclass(slots=True)
class CredentialInfo:
    mechanism: int = 0
    iterations: int = 0


@dataclass(slots=True)
class DescribeUserScramCredentialsResult:
    user: str = ""
    error_code: int = 0
    error_message: str | None = ""
    credential_infos: list[CredentialInfo] = field(default_factory=list)


@dataclass(slots=True)
class DescribeUserScramCredentialsResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: list[DescribeUserScramCredentialsResult] = field(default_factory=list)
