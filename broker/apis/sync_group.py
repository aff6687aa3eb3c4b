"""SyncGroup: a member asks for its part; the leader brings everybody's.

Behavior: a follower's answer is parked until the leader's request is there. Whom the
leader forgot gets empty bytes.
Version notes: v3 static members (KIP-345); v5 the member says which protocol it
believes to be chosen, and INCONSISTENT_GROUP_PROTOCOL tells it otherwise, or that it
said nothing (KIP-559).
"""

import asyncio
from collections.abc import Awaitable

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.groups.commands import Refused, Sync, Synced
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


@serves(ApiKey.SYNC_GROUP, versions=(0, 5), awaits_others=True)
def sync_group(
    request: SyncGroupRequest, context: Context
) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    if context.version >= 5 and None in (request.protocol_type, request.protocol_name):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    command = Sync(
        member_id=request.member_id,
        generation=request.generation_id,
        assignments=tuple((a.member_id, a.assignment) for a in request.assignments),
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
    )
    return _when_synced(context.broker.groups.sync(request.group_id, command))


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
