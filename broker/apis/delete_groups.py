"""DeleteGroups: groups go, with their offsets.

Behavior: NON_EMPTY_GROUP while there are members, GROUP_ID_NOT_FOUND for an unknown
one; a name that is given twice is answered once; answered when the deletion is durable.
Version notes: v2 flexible.
"""

import asyncio
from collections.abc import Awaitable

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import Steps, are_few, in_turns
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import KafkaError
from broker.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from broker.runtime.coordination.coordinator import Coordinator

GROUPS_A_TURN = 50
"""So many are deleted before others have their turn on the loop."""

_Pending = list[tuple[DeletableGroupResult, "asyncio.Future[None]"]]


@serves(ApiKey.DELETE_GROUPS, versions=(0, 2))
def delete_groups(
    request: DeleteGroupsRequest, context: Context
) -> DeleteGroupsResponse | Awaitable[DeleteGroupsResponse]:
    return in_turns(
        _delete(request, context.broker.groups), at_once=are_few(request.groups_names)
    )


def _delete(
    request: DeleteGroupsRequest, groups: Coordinator
) -> Steps[DeleteGroupsResponse | Awaitable[DeleteGroupsResponse]]:
    """Each by itself: those that are left when the connection is lost stay."""
    results, pending = [], _Pending()
    named: set[str] = set()
    for count, group_id in enumerate(request.groups_names, 1):
        if count % GROUPS_A_TURN == 0:
            yield
        if group_id in named:
            continue
        named.add(group_id)
        result = DeletableGroupResult(group_id, groups.delete_refusal(group_id))
        results.append(result)
        if not result.error_code:
            pending.append((result, groups.delete(group_id)))
    return _when_durable(pending, DeleteGroupsResponse(results=results))


async def _when_durable(
    pending: _Pending, response: DeleteGroupsResponse
) -> DeleteGroupsResponse:
    for result, durable in pending:
        try:
            await durable
        except KafkaError as error:
            result.error_code = error.code
    return response
