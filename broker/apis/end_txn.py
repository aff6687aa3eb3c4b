"""EndTxn: commit a transaction or abort it, all of it.

Behavior: answered when every marker is durable and every pending offset decided about,
so what was committed can be read by then. Asking again for the same end is answered
alike, for the other one INVALID_TXN_STATE (``broker/transactions/ending.py``).
Version notes: v2 PRODUCER_FENCED, which is INVALID_PRODUCER_EPOCH before (KIP-588); v4
TRANSACTION_ABORTABLE, which no answer says; v5 each end bumps the epoch, and the answer
has the id and epoch of the next transaction (KIP-890).
"""

from collections.abc import Awaitable

from broker.apis._transactions import known_since, with_new_id
from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.ids import ProducerId
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from broker.transactions.commands import End, Ended
from broker.transactions.metadata import V1, V2

FENCED_SINCE = 2
BUMPS_SINCE = 5


@serves(ApiKey.END_TXN, versions=(0, 5))
def end_txn(
    request: EndTxnRequest, context: Context
) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    return _end(request, context)


async def _end(request: EndTxnRequest, context: Context) -> EndTxnResponse:
    command = await with_new_id(
        request.transactional_id,
        End(
            ProducerId(request.producer_id),
            request.producer_epoch,
            request.committed,
            V2 if context.version >= BUMPS_SINCE else V1,
        ),
        context.broker,
    )
    if command is None:
        return EndTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    reply = await context.broker.transactions.end(request.transactional_id, command)
    if not isinstance(reply, Ended):
        code = known_since(reply.code, context.version, fenced=FENCED_SINCE)
        return EndTxnResponse(error_code=code)
    if context.version < BUMPS_SINCE:
        return EndTxnResponse()
    return EndTxnResponse(
        producer_id=reply.producer_id, producer_epoch=reply.producer_epoch
    )
