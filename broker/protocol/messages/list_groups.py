"""Generated from definitions/list_groups.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class ListGroupsRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.LIST_GROUPS

    states_filter: list[str] = field(default_factory=list)
    types_filter: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ListedGroup:
    group_id: str = ""
    protocol_type: str = ""
    group_state: str = ""
    group_type: str = ""


@dataclass(slots=True)
class ListGroupsResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.LIST_GROUPS

    throttle_time_ms: int = 0
    error_code: int = 0
    groups: list[ListedGroup] = field(default_factory=list)
