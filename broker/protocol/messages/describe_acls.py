"""Generated from definitions/describe_acls.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class DescribeAclsRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_ACLS

    resource_type_filter: int = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0
    permission_type: int = 0


@dataclass(slots=True)
class AclDescription:
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


@dataclass(slots=True)
class DescribeAclsResource:
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 3
    acls: list[AclDescription] = field(default_factory=list)


@dataclass(slots=True)
class DescribeAclsResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_ACLS

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    resources: list[DescribeAclsResource] = field(default_factory=list)
