"""ConsumerGroupHeartbeat: refused, in the way that clients tell their user.

Behavior: UNSUPPORTED_VERSION, as an Apache Kafka answers whose
``group.coordinator.rebalance.protocols`` are ``classic`` alone. It is listed for that:
who was told to use the group protocol of Kafka 4 (KIP-848) and does not find the key
listed looks for another coordinator for ever, and says nothing (librdkafka 2.16). With
this answer librdkafka raises a fatal error, Java says to set ``group.protocol`` to
``classic``, and franz-go goes on as a classic member. Nobody asks who was not told to.
"""

from typing import Final

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

_WHY: Final = (
    "groups of the consumer protocol are not served: set group.protocol=classic"
)


@serves(ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=(0, 1), keeps_alive=True)
def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, context: Context
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=_WHY
    )
