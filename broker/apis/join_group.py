"""JoinGroup: a member wants into a group, or in again.

Behavior: the answer is parked until the join phase is over; the leader's names all
members with their metadata, the others' none. What a join sets off is in
``broker/groups/joining.py``. A member of more than 1,000 assignors is refused.
Version notes: v0 has no rebalance timeout, the session timeout stands in for it (with
-1 instead, brod rebalanced for ever on another broker); v1 has one; v4 asks a new
member to come again with the id it is given (KIP-394); v5 static members (KIP-345);
v7 protocol type in the answer, and protocol name may be null; v8 a reason, for logs;
v9 a static leader may skip the assignment (KIP-814).
"""

import asyncio
from collections.abc import Awaitable

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.groups.commands import Join, Joined, Refused
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

PROTOCOLS_MAX = 1_000
"""Assignors of one member. Each takes a hundred bytes for as long as the member stays,
also one without a name; clients know a handful."""


@serves(ApiKey.JOIN_GROUP, versions=(0, 9), awaits_others=True)
def join_group(
    request: JoinGroupRequest, context: Context
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    if len(request.protocols) > PROTOCOLS_MAX:
        code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return _refused(Refused(code, request.member_id), context.version)
    command = Join(
        member_id=request.member_id,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=_rebalance_timeout_ms(request, context.version),
        protocol_type=request.protocol_type,
        protocols=tuple((p.name, p.metadata) for p in request.protocols),
        instance_id=request.group_instance_id,
        client_id=context.client_id or "",
        client_host=f"/{context.peer_host}",
        requires_member_id=context.version >= 4,
        can_skip_assignment=context.version >= 9,
    )
    ticket = context.broker.groups.join(request.group_id, command)
    return _when_joined(ticket, context.version)


def _rebalance_timeout_ms(request: JoinGroupRequest, version: int) -> int:
    return request.session_timeout_ms if version == 0 else request.rebalance_timeout_ms


async def _when_joined(
    ticket: "asyncio.Future[Joined | Refused]", version: int
) -> JoinGroupResponse:
    reply = await ticket
    if isinstance(reply, Refused):
        return _refused(reply, version)
    return JoinGroupResponse(
        generation_id=reply.generation,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name,
        leader=reply.leader_id,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=[JoinGroupResponseMember(*member) for member in reply.members],
    )


def _refused(refused: Refused, version: int) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=refused.code,
        protocol_name=None if version >= 7 else "",
        member_id=refused.member_id,
    )
