"""InitProducerId: an id and an epoch, for producers that want no duplicates.

Behavior: an idempotent producer gets a new id with epoch 0, whatever it had before, as
in Kafka. One with a transactional id gets that one's next epoch: all before are fenced,
and a transaction that is open is aborted first, for which it comes again
(``broker/transactions/initializing.py``).
Version notes: v3 the id and epoch it has (KIP-360), both or neither; v4
PRODUCER_FENCED, which is INVALID_PRODUCER_EPOCH before; v5 TRANSACTION_ABORTABLE
(KIP-890), which no answer says; v6 what two-phase commit asks (KIP-939), which is not
allowed, as in a Kafka without ``transaction.two.phase.commit.enable``: prepared
transactions that no broker may abort are TRANSACTIONAL_ID_AUTHORIZATION_FAILED, to keep
one that is open is UNSUPPORTED_VERSION.
"""

from collections.abc import Awaitable

from broker.apis._transactions import known_since, with_new_id
from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.ids import ProducerId
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from broker.transactions.commands import Initialized, InitProducer

_NONE = -1
FENCED_SINCE = 4


@serves(ApiKey.INIT_PRODUCER_ID, versions=(0, 6))
def init_producer_id(
    request: InitProducerIdRequest, context: Context
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    has_id, has_epoch = request.producer_id != _NONE, request.producer_epoch != _NONE
    if has_id != has_epoch or request.transactional_id == "":
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return _new_id(context)
    if request.enable2_pc:
        return _refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if request.keep_prepared_txn:
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    return _next_epoch(request.transactional_id, request, context)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=code, producer_id=_NONE, producer_epoch=_NONE
    )


async def _new_id(context: Context) -> InitProducerIdResponse:
    try:
        producer_id = await context.broker.producer_ids.next()
    except KafkaError:
        # As Kafka when it gets no block of ids: every client asks again.
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def _next_epoch(
    transactional_id: str, request: InitProducerIdRequest, context: Context
) -> InitProducerIdResponse:
    command = await with_new_id(
        transactional_id,
        InitProducer(
            request.transaction_timeout_ms,
            ProducerId(request.producer_id),
            request.producer_epoch,
        ),
        context.broker,
    )
    if command is None:
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    reply = await context.broker.transactions.init_producer(transactional_id, command)
    if isinstance(reply, Initialized):
        return InitProducerIdResponse(
            producer_id=reply.producer_id, producer_epoch=reply.producer_epoch
        )
    return _refused(known_since(reply.code, context.version, fenced=FENCED_SINCE))
