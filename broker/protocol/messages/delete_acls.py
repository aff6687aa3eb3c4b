"""Generated from definitions/delete_acls.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class DeleteAclsFilter:
    resource_type_filter: int = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0
    permission_type: int = 0


@dataclass(slots=True)
class DeleteAclsRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.DELETE_ACLS

    filters: list[DeleteAclsFilter] = field(default_factory=list)


@dataclass(slots=True)
class DeleteAclsMatchingAcl:
    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 3
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


@dataclass(slots=True)
class DeleteAclsFilterResult:
    error_code: int = 0
    error_message: str | None = ""
    matching_acls: list[DeleteAclsMatchingAcl] = field(default_factory=list)


@dataclass(slots=True)
class DeleteAclsResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.DELETE_ACLS

    throttle_time_ms: int = 0
    filter_results: list[DeleteAclsFilterResult] = field(default_factory=list)
