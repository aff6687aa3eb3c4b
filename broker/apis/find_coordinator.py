"""FindCoordinator: which broker keeps a group, or a transactional id.

Behavior: this one, always, under the address that Metadata gives. Other kinds of keys
are INVALID_REQUEST.
Version notes: v0 groups only; v1 key type and message, "NONE" if all is well; v4 many
keys (KIP-699), and an empty message then; v6 share groups (KIP-932), which are not
served.
"""

from collections.abc import Awaitable

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import ITEMS_A_TURN, Steps, in_turns
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP, TRANSACTION = 0, 1


@serves(ApiKey.FIND_COORDINATOR, versions=(0, 6))
def find_coordinator(
    request: FindCoordinatorRequest, context: Context
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    if context.version >= 4:
        return in_turns(_coordinators(request, context))
    one = _coordinator(request.key, request.key_type, context)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message or ErrorCode.NONE.name,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _coordinators(
    request: FindCoordinatorRequest, context: Context
) -> Steps[FindCoordinatorResponse]:
    found: list[Coordinator] = []
    for count, key in enumerate(request.coordinator_keys, 1):
        found.append(_coordinator(key, request.key_type, context))
        if count % ITEMS_A_TURN == 0:
            yield
    return FindCoordinatorResponse(coordinators=found)


def _coordinator(key: str, key_type: int, context: Context) -> Coordinator:
    if key_type in (GROUP, TRANSACTION):
        broker = context.broker
        host, port = broker.advertised
        return Coordinator(key, broker.node_id, host, port, error_message="")
    code = ErrorCode.INVALID_REQUEST
    message = f"There are no coordinators of type {key_type} here."
    return Coordinator(key, -1, "", -1, code, message)
