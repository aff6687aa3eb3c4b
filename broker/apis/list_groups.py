"""ListGroups: every group of this broker.

Behavior: simple groups, which only have offsets, are listed with an empty protocol
type.
Version notes: v3 flexible; v4 states, and a filter by them (KIP-518); v5 types, and a
filter by them (KIP-848): all groups here are classic.
"""

from collections.abc import Awaitable, Iterable

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import COUNTED_A_TURN, ITEMS_A_TURN, Steps, in_turns
from broker.protocol.api_keys import ApiKey
from broker.protocol.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

_TYPE = "classic"


@serves(ApiKey.LIST_GROUPS, versions=(0, 5))
def list_groups(
    request: ListGroupsRequest, context: Context
) -> ListGroupsResponse | Awaitable[ListGroupsResponse]:
    return in_turns(_list(request, context))


def _list(request: ListGroupsRequest, context: Context) -> Steps[ListGroupsResponse]:
    states = yield from _folded(request.states_filter)
    types = yield from _folded(request.types_filter)
    if types and _TYPE not in types:
        return ListGroupsResponse()
    listed: list[ListedGroup] = []
    # As they are now: groups come and go between two turns.
    groups = list(context.broker.groups.groups())
    for count, (group_id, protocol_type, state) in enumerate(groups, 1):
        if not states or state.casefold() in states:
            listed.append(ListedGroup(group_id, protocol_type, state, _TYPE))
        if count % ITEMS_A_TURN == 0:
            yield
    return ListGroupsResponse(groups=listed)


def _folded(names: Iterable[str]) -> Steps[set[str]]:
    """Filters match whatever their case (KAFKA-15966)."""
    folded: set[str] = set()
    for count, name in enumerate(names, 1):
        folded.add(name.strip().casefold())
        if count % COUNTED_A_TURN == 0:
            yield
    return folded
