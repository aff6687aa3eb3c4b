"""Generated from definitions/alter_user_scram_credentials.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class ScramCredentialDeletion:
    name: str = ""
    mechanism: int = 0


@dataclass(slots=True)
class ScramCredentialUpsertion:
    name: str = ""
    mechanism: int = 0
    iterations: int = 0
    salt: bytes = b""
    salted_password: bytes = b""


@dataclass(slots=True)
class AlterUserScramCredentialsRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.ALTER_USER_SCRAM_CREDENTIALS

    deletions: list[ScramCredentialDeletion] = field(default_factory=list)
    upsertions: list[ScramCredentialUpsertion] = field(default_factory=list)


@dataclass(slots=True)
class AlterUserScramCredentialsResult:
    user: str = ""
    error_code: int = 0
    error_message: str | None = ""


@dataclass(slots=True)
class AlterUserScramCredentialsResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.ALTER_USER_SCRAM_CREDENTIALS

    throttle_time_ms: int = 0
    results: list[AlterUserScramCredentialsResult] = field(default_factory=list)
