"""Members of groups as clients see them: join, sync, and be stable."""

from typing import Any

from broker.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from broker.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tests.support.coordinating import House

FLIGHTS_READ = b"\x00\x00\x00\x00\x00\x01\x00\x07flights"  # a consumer's subscription


def a_join(member_id: str = "", group_id: str = "g", **fields: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        **{
            "group_id": group_id,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol("range", FLIGHTS_READ)],
        }
        | fields
    )


async def joined(house: House, group_id: str = "g", **fields: Any) -> str:
    """A member alone in its group, joined and not synced; gives its id."""
    answer = await house.ask(a_join("", group_id, **fields), 3)
    assert not answer.error_code
    return str(answer.member_id)


async def stable(house: House, group_id: str = "g", **fields: Any) -> str:
    """A member alone in its group, stable in generation 1; gives its id."""
    member_id = await joined(house, group_id, **fields)
    mine = [SyncGroupRequestAssignment(member_id, b"all")]
    asked = SyncGroupRequest(group_id, 1, member_id, assignments=mine)
    assert not (await house.ask(asked, 0)).error_code
    return member_id
