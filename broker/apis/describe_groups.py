"""DescribeGroups: a group's state and its members.

Behavior: metadata is shown of a stable group only, assignments always, as Kafka does. A
group that is named again is not described again: an answer is no larger than all of
them.
Version notes: v3 authorized operations (KIP-430); v4 instance ids (KIP-345); v6 an
unknown group is GROUP_ID_NOT_FOUND with a message (KIP-1043); up to v5 it is "Dead",
without an error.
"""

from collections.abc import Awaitable

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import ITEMS_A_TURN, Steps, in_turns
from broker.groups.group import GroupView
from broker.groups.states import GroupState
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

# READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS, as bits: what anybody may
# do with a group without an authorizer (AclEntry.supportedOperations).
_ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


@serves(ApiKey.DESCRIBE_GROUPS, versions=(0, 6))
def describe_groups(
    request: DescribeGroupsRequest, context: Context
) -> DescribeGroupsResponse | Awaitable[DescribeGroupsResponse]:
    return in_turns(_describe_all(request, context))


def _describe_all(
    request: DescribeGroupsRequest, context: Context
) -> Steps[DescribeGroupsResponse]:
    answers, work = [], 0
    described: set[str] = set()
    for group_id in request.groups:
        work += 1
        if work > ITEMS_A_TURN:
            work = 0
            yield
        if group_id in described:
            continue
        described.add(group_id)
        view = context.broker.groups.describe(group_id)
        answer = (
            _unknown(group_id, context.version)
            if view is None
            else _described(group_id, view)
        )
        if request.include_authorized_operations and not answer.error_code:
            answer.authorized_operations = _ALL_OPERATIONS
        answers.append(answer)
        work += len(answer.members)
    return DescribeGroupsResponse(groups=answers)


def _unknown(group_id: str, version: int) -> DescribedGroup:
    answer = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD)
    if version >= 6:
        answer.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        answer.error_message = f"Group {group_id} not found."
    return answer


def _described(group_id: str, view: GroupView) -> DescribedGroup:
    return DescribedGroup(
        group_id=group_id,
        group_state=view.state,
        protocol_type=view.protocol_type,
        protocol_data=view.protocol_name,
        members=[DescribedGroupMember(*member) for member in view.members],
    )
