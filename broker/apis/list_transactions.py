"""ListTransactions: the transactional ids that somebody has an epoch of.

Behavior: filters narrow each other down; of none everything is listed. States are named
as Kafka names them, letter by letter; those it does not know are told (KIP-664).
Version notes: v1 only what has lasted longer than so many milliseconds since it began
(KIP-994), ended or not, as in Kafka; v2 ids that a pattern of RE2 matches from end to
end (KIP-1152), INVALID_REGULAR_EXPRESSION for none.
"""

import asyncio
from collections.abc import Awaitable, Callable

from broker.apis._patterns import matching
from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import ITEMS_A_TURN, Steps, counted_in_turns, in_turns
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from broker.transactions import states
from broker.transactions.metadata import TransactionMetadata

_KNOWN = frozenset({*states.TransactionState, "PrepareEpochFence"})
"""The last is Kafka's alone: no transaction here is ever in it."""

_Filter = Callable[[TransactionMetadata], bool]


@serves(ApiKey.LIST_TRANSACTIONS, versions=(0, 2))
def list_transactions(
    request: ListTransactionsRequest, context: Context
) -> ListTransactionsResponse | Awaitable[ListTransactionsResponse]:
    if context.broker.transactions.is_closed:
        unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ListTransactionsResponse(error_code=unavailable)
    return in_turns(_list(request, context))


def _list(
    request: ListTransactionsRequest, context: Context
) -> Steps[ListTransactionsResponse | Awaitable[ListTransactionsResponse]]:
    transactions, response = context.broker.transactions, ListTransactionsResponse()
    named = yield from counted_in_turns(request.state_filters)
    producers = yield from counted_in_turns(request.producer_id_filters)
    response.unknown_state_filters = [name for name in named if name not in _KNOWN]
    now_ms = context.broker.clock.now_ms()

    def is_meant(found: TransactionMetadata) -> bool:
        lasted_ms = now_ms - found.started_ms
        return (
            found.state is not states.TransactionState.DEAD
            and (not named or found.state in named)
            and (not producers or found.producer_id in producers)
            and (request.duration_filter < 0 or lasted_ms > request.duration_filter)
        )

    for count, name in enumerate(transactions.names(), 1):
        found = transactions.describe(name)
        if found is not None and is_meant(found):
            one = TransactionState(name, found.producer_id, found.state)
            response.transaction_states.append(one)
        if count % ITEMS_A_TURN == 0:
            yield
    pattern = request.transactional_id_pattern
    return _matching(pattern, response) if pattern else response


async def _matching(
    pattern: str, response: ListTransactionsResponse
) -> ListTransactionsResponse:
    """The response, without the ids that do not match."""
    listed = response.transaction_states
    ids = [one.transactional_id for one in listed]
    loop = asyncio.get_running_loop()
    try:
        is_matched = await loop.run_in_executor(None, matching, pattern, ids)
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    response.transaction_states = [
        one for one, is_one in zip(listed, is_matched, strict=True) if is_one
    ]
    return response
