"""Generated from definitions/leave_group.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class MemberIdentity:
    member_id: str = ""
    group_instance_id: str | None = None
    reason: str | None = None


@dataclass(slots=True)
class LeaveGroupRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.LEAVE_GROUP

    group_id: str = ""
    member_id: str = ""
    members: list[MemberIdentity] = field(default_factory=list)


@dataclass(slots=True)
class MemberResponse:
    member_id: str = ""
    group_instance_id: str | None = ""
    error_code: int = 0


@dataclass(slots=True)
class LeaveGroupResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.LEAVE_GROUP

    throttle_time_ms: int = 0
    error_code: int = 0
    members: list[MemberResponse] = field(default_factory=list)
