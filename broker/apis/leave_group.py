"""LeaveGroup: members go, and the others rebalance at once.

Behavior: an administrator may remove a static member by its instance id alone. The
last one's answer leaves when it is durable that the group is empty.
Version notes: v0-2 one member, its error on top; v3 many, with an error each (KIP-345);
v5 a reason, for logs (KIP-800).
"""

from collections.abc import Awaitable

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.groups.classic import Leaver
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)


@serves(ApiKey.LEAVE_GROUP, versions=(0, 5))
def leave_group(
    request: LeaveGroupRequest, context: Context
) -> Awaitable[LeaveGroupResponse]:
    response = _let_go(request, context)
    return _when_settled(request.group_id, context, response)


async def _when_settled(
    group_id: str, context: Context, response: LeaveGroupResponse
) -> LeaveGroupResponse:
    await context.broker.groups.settled(group_id)
    return response


def _let_go(request: LeaveGroupRequest, context: Context) -> LeaveGroupResponse:
    groups = context.broker.groups
    if context.version < 3:
        codes = groups.leave(request.group_id, [Leaver(request.member_id)])
        code = codes if isinstance(codes, ErrorCode) else codes[0]
        return LeaveGroupResponse(error_code=code)
    leavers = [Leaver(m.member_id, m.group_instance_id) for m in request.members]
    codes = groups.leave(request.group_id, leavers)
    if isinstance(codes, ErrorCode):
        return LeaveGroupResponse(error_code=codes)
    return LeaveGroupResponse(
        members=[
            MemberResponse(leaver.member_id, leaver.instance_id, code)
            for leaver, code in zip(leavers, codes, strict=True)
        ]
    )
