"""Generated from definitions/delete_groups.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class DeleteGroupsRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.DELETE_GROUPS

    groups_names: list[str] = field(default_factory=list)


@dataclass(slots=True)
class DeletableGroupResult:
    group_id: str = ""
    error_code: int = 0


@dataclass(slots=True)
class DeleteGroupsResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.DELETE_GROUPS

    throttle_time_ms: int = 0
    results: list[DeletableGroupResult] = field(default_factory=list)
