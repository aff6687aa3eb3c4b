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
    MemberIdentity,
    MemberResponse,
)
from broker.runtime.coordination.coordinator import Coordinator
from broker.runtime.process.long_work import work_of_request

LEAVERS_A_TURN = 1_000
"""So many go at once, with one rebalance for them."""


@serves(ApiKey.LEAVE_GROUP, versions=(0, 5))
def leave_group(
    request: LeaveGroupRequest, context: Context
) -> Awaitable[LeaveGroupResponse]:
    groups, group_id = context.broker.groups, request.group_id
    if context.version < 3:
        return _when_one_left(groups.leave(group_id, [Leaver(request.member_id)]))
    return _all_left(groups, group_id, request.members)


async def _when_one_left(left: "asyncio.Future[Left | Refused]") -> LeaveGroupResponse:
    reply = await left
    code = reply.code if isinstance(reply, Refused) else reply.codes[0]
    return LeaveGroupResponse(error_code=code)


async def _all_left(
    groups: Coordinator, group_id: str, members: list[MemberIdentity]
) -> LeaveGroupResponse:
    """The answer to many: some of them go, then others have a turn."""
    response, long_work = LeaveGroupResponse(), work_of_request()
    for first in range(0, max(len(members), 1), LEAVERS_A_TURN):
        some = members[first : first + LEAVERS_A_TURN]
        leavers = [Leaver(one.member_id, one.group_instance_id) for one in some]
        reply = await groups.leave(group_id, leavers)
        if isinstance(reply, Refused):
            return LeaveGroupResponse(error_code=reply.code)
        response.members += [
            MemberResponse(leaver.member_id, leaver.instance_id, code)
            for leaver, code in zip(leavers, reply.codes, strict=True)
        ]
        if first:
            await long_work.others_first()
    return response
