"""InitProducerId: an id and an epoch, for producers that want no duplicates.

Behavior: an idempotent producer gets a new id with epoch 0, whatever it had before, as
in Kafka. Transactions are not served yet: a transactional id is refused with the code
that all clients take as final, as FindCoordinator does, where it comes with words.
Version notes: v3 the id and epoch it has (KIP-360), both or neither; v4
PRODUCER_FENCED, v5 transactions v2 (KIP-890): of no consequence without transactions.
"""

from collections.abc import Awaitable

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

_NONE = -1


@serves(ApiKey.INIT_PRODUCER_ID, versions=(0, 5))
def init_producer_id(
    request: InitProducerIdRequest, context: Context
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    code = _refusal(request)
    if code:
        return _refused(code)
    return _new_id(context)


def _refusal(request: InitProducerIdRequest) -> ErrorCode:
    has_id, has_epoch = request.producer_id != _NONE, request.producer_epoch != _NONE
    if has_id != has_epoch or request.transactional_id == "":
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is not None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.NONE


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
