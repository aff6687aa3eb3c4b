"""SyncGroup: a member asks for its part; the leader brings everybody's.

Behavior: a follower's answer is parked until the leader's request is there. Whom the
leader forgot gets empty bytes, and what it gives to nobody in the group is not kept.
Version notes: v3 static members (KIP-345); v5 the member says which protocol it
believes to be chosen, and INCONSISTENT_GROUP_PROTOCOL tells it otherwise, or that it
said nothing (KIP-559).
"""

import asyncio
from collections.abc import Awaitable

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import COUNTED_A_TURN, Steps, are_few, in_turns
from broker.groups.commands import Refused, Sync, Synced
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from broker.runtime.coordination.coordinator import Coordinator


def sync_group_in_turns(
    request: SyncGroupRequest, context: Context
) -> Steps[SyncGroupResponse | Awaitable[SyncGroupResponse]]:
    """The same for many assignments, which nothing keeps while the answer is parked.

    Therefore that is a task: what a coroutine awaits may yet look at its request.
    """
    if context.version >= 5 and None in (request.protocol_type, request.protocol_name):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    groups = context.broker.groups
    assigned = yield from _assigned(request, groups)
    command = Sync(
        member_id=request.member_id,
        generation=request.generation_id,
        assignments=tuple(assigned.items()),
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
    )
    answer = _when_synced(groups.sync(request.group_id, command))
    return asyncio.ensure_future(answer)


@serves(
    ApiKey.SYNC_GROUP,
    versions=(0, 5),
    awaits_others=True,
    in_turns=sync_group_in_turns,
)
def sync_group(
    request: SyncGroupRequest, context: Context
) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    return in_turns(
        sync_group_in_turns(request, context), at_once=are_few(request.assignments)
    )


def _assigned(
    request: SyncGroupRequest, groups: Coordinator
) -> Steps[dict[str, bytes]]:
    """What each member of the group is given, the last time that it is named."""
    assigned: dict[str, bytes] = {}
    for count, each in enumerate(request.assignments, 1):
        if groups.has_member(request.group_id, each.member_id):
            assigned[each.member_id] = each.assignment
        if count % COUNTED_A_TURN == 0:
            yield
    return assigned


async def _when_synced(
    ticket: "asyncio.Future[Synced | Refused]",
) -> SyncGroupResponse:
    reply = await ticket
    if isinstance(reply, Refused):
        return SyncGroupResponse(error_code=reply.code)
    return SyncGroupResponse(
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name,
        assignment=reply.assignment,
    )
