"""Generated from definitions/create_acls.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class AclCreation:
    resource_type: int = 0
    resource_name: str = ""
    resource_pattern_type: int = 3
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


@dataclass(slots=True)
class CreateAclsRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.CREATE_ACLS

    creations: list[AclCreation] = field(default_factory=list)


@dataclass(slots=True)
class AclCreationResult:
    error_code: int = 0
    error_message: str | None = ""


@dataclass(slots=True)
class CreateAclsResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.CREATE_ACLS

    throttle_time_ms: int = 0
    results: list[AclCreationResult] = field(default_factory=list)
