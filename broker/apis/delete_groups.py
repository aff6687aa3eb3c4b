"""DeleteGroups: groups go, with their offsets.

Behavior: NON_EMPTY_GROUP while there are members, GROUP_ID_NOT_FOUND for an unknown
one; answered when the deletion is durable.
Version notes: v2 flexible.
"""

import asyncio
from collections.abc import Awaitable

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import KafkaError
from broker.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

_Pending = list[tuple[DeletableGroupResult, "asyncio.Future[None]"]]


@serves(ApiKey.DELETE_GROUPS, versions=(0, 2))
def delete_groups(
    request: DeleteGroupsRequest, context: Context
) -> Awaitable[DeleteGroupsResponse]:
    groups = context.broker.groups
    results, pending = [], _Pending()
    for group_id in request.groups_names:
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
