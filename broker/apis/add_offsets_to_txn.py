"""AddOffsetsToTxn: the offsets of a group join a transaction.

Behavior: answered when it is durable that the group is part of the transaction, which
begins with it if nothing was added before; TxnOffsetCommit may follow. Any id is a
group's: whether its members may commit is asked when they do.
Version notes: v2 PRODUCER_FENCED, which is INVALID_PRODUCER_EPOCH before (KIP-360); v3
flexible; v4 of no consequence here (TRANSACTION_ABORTABLE is never said).
"""

from collections.abc import Awaitable

from broker.apis._transactions import known_since
from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.ids import ProducerId
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from broker.transactions.commands import Add, Refused


@serves(ApiKey.ADD_OFFSETS_TO_TXN, versions=(0, 4))
def add_offsets_to_txn(
    request: AddOffsetsToTxnRequest, context: Context
) -> Awaitable[AddOffsetsToTxnResponse]:
    return _add(request, context)


async def _add(
    request: AddOffsetsToTxnRequest, context: Context
) -> AddOffsetsToTxnResponse:
    command = Add(
        ProducerId(request.producer_id),
        request.producer_epoch,
        groups=frozenset({request.group_id}),
    )
    reply = await context.broker.transactions.add(request.transactional_id, command)
    code = reply.code if isinstance(reply, Refused) else ErrorCode.NONE
    code = known_since(code, context.version, fenced=2)
    return AddOffsetsToTxnResponse(error_code=code)
