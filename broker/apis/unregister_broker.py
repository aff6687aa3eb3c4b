"""UnregisterBroker: there is one, and it is in use.

Behavior: as ``ClusterControlManager.unregisterBroker`` for brokers that are not here.
This one cannot be forgotten by itself: Kafka would do it, and would have to be started
anew to serve.
"""

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


@serves(ApiKey.UNREGISTER_BROKER, versions=(0, 0))
def unregister_broker(
    request: UnregisterBrokerRequest, context: Context
) -> UnregisterBrokerResponse:
    if request.broker_id == context.broker.node_id:
        return UnregisterBrokerResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=f"Broker ID {request.broker_id} is the one that answers: "
            "it is in use.",
        )
    return UnregisterBrokerResponse(
        error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
        error_message=f"Broker ID {request.broker_id} is not currently registered",
    )
