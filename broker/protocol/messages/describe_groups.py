"""Generated from definitions/describe_groups.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class DescribeGroupsRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_GROUPS

    groups: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False


@dataclass(slots=True)
class DescribedGroupMember:
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


@dataclass(slots=True)
class DescribedGroup:
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: list[DescribedGroupMember] = field(default_factory=list)
    authorized_operations: int = -2147483648


@dataclass(slots=True)
class DescribeGroupsResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_GROUPS

    throttle_time_ms: int = 0
    groups: list[DescribedGroup] = field(default_factory=list)
