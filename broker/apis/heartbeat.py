"""Heartbeat: a member lives, and learns whether its generation still holds.

Behavior: REBALANCE_IN_PROGRESS while others rejoin; it counts as a sign of life even
so.
Version notes: v3 static members (KIP-345).
"""

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.groups.commands import Heartbeat
from broker.protocol.api_keys import ApiKey
from broker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@serves(ApiKey.HEARTBEAT, versions=(0, 4), keeps_alive=True)
def heartbeat(request: HeartbeatRequest, context: Context) -> HeartbeatResponse:
    command = Heartbeat(
        request.member_id, request.generation_id, request.group_instance_id
    )
    code = context.broker.groups.heartbeat(request.group_id, command)
    return HeartbeatResponse(error_code=code)
