"""ListGroups: every group of this broker.

Behavior: simple groups, which only have offsets, are listed with an empty protocol
type.
Version notes: v3 flexible; v4 states, and a filter by them (KIP-518); v5 types, and a
filter by them (KIP-848): all groups here are classic.
"""

from collections.abc import Iterable

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

_TYPE = "classic"


@serves(ApiKey.LIST_GROUPS, versions=(0, 5))
def list_groups(request: ListGroupsRequest, context: Context) -> ListGroupsResponse:
    states, types = _folded(request.states_filter), _folded(request.types_filter)
    if types and _TYPE not in types:
        return ListGroupsResponse()
    return ListGroupsResponse(
        groups=[
            ListedGroup(group_id, protocol_type, state, _TYPE)
            for group_id, protocol_type, state in context.broker.groups.groups()
            if not states or state.casefold() in states
        ]
    )


def _folded(names: Iterable[str]) -> frozenset[str]:
    """Filters match whatever their case (KAFKA-15966)."""
    return frozenset(name.strip().casefold() for name in names)
