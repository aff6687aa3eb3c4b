"""LeaveGroup: members go, and the others rebalance at once.

Behavior: an administrator may remove a static member by its instance id alone. Nobody
is a member of an unknown group: UNKNOWN_MEMBER_ID for each, as in a known one. The last
one's answer leaves when it is durable that the group is empty.
Version notes: v0-2 one member, its error on top; v3 many, with an error each (KIP-345);
v5 a reason, for logs (KIP-800).
"""

import asyncio
from collections.abc import Awaitable

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.groups.commands import Leaver, Left, Refused
from broker.protocol.api_keys import ApiKey
from broker.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)


@serves(ApiKey.LEAVE_GROUP, versions=(0, 5))
def leave_group(
    request: LeaveGroupRequest, context: Context
) -> Awaitable[LeaveGroupResponse]:
    if context.version < 3:
        leavers = [Leaver(request.member_id)]
    else:
        leavers = [Leaver(m.member_id, m.group_instance_id) for m in request.members]
    left = context.broker.groups.leave(request.group_id, leavers)
    return _when_left(left, leavers, context.version)


async def _when_left(
    left: "asyncio.Future[Left | Refused]", leavers: list[Leaver], version: int
) -> LeaveGroupResponse:
    reply = await left
    if isinstance(reply, Refused):
        return LeaveGroupResponse(error_code=reply.code)
    if version < 3:
        return LeaveGroupResponse(error_code=reply.codes[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(leaver.member_id, leaver.instance_id, code)
            for leaver, code in zip(leavers, reply.codes, strict=True)
        ]
    )
