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
from broker.dispatch.turns import WhileHeard
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
    if len(request.members) <= LEAVERS_A_TURN:
        leavers = _leavers(request.members)
        return _when_left(leavers, groups.leave(group_id, leavers))
    return WhileHeard(_all_left(groups, group_id, request.members))


def _leavers(members: list[MemberIdentity]) -> list[Leaver]:
    return [Leaver(one.member_id, one.group_instance_id) for one in members]


async def _when_one_left(left: "asyncio.Future[Left | Refused]") -> LeaveGroupResponse:
    reply = await left
    code = reply.code if isinstance(reply, Refused) else reply.codes[0]
    return LeaveGroupResponse(error_code=code)


async def _when_left(
    leavers: list[Leaver], left: "asyncio.Future[Left | Refused]"
) -> LeaveGroupResponse:
    reply = await asyncio.shield(left)  # they are gone, whoever hangs up
    if isinstance(reply, Refused):
        return LeaveGroupResponse(error_code=reply.code)
    return LeaveGroupResponse(
        members=[
            MemberResponse(leaver.member_id, leaver.instance_id, code)
            for leaver, code in zip(leavers, reply.codes, strict=True)
        ]
    )


async def _all_left(
    groups: Coordinator, group_id: str, members: list[MemberIdentity]
) -> LeaveGroupResponse:
    """The answer to many: some of them go, then others have a turn. Those that are left
    when the connection is lost stay: they may have come back."""
    response, long_work = LeaveGroupResponse(), work_of_request()
    for first in range(0, len(members), LEAVERS_A_TURN):
        leavers = _leavers(members[first : first + LEAVERS_A_TURN])
        some = await _when_left(leavers, groups.leave(group_id, leavers))
        if some.error_code:
            return some
        response.members += some.members
        await long_work.others_first()
    return response
