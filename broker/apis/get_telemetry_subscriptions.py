"""GetTelemetrySubscriptions: what a client is asked to push of its metrics (KIP-714).

Behavior: only where ``telemetry.enabled`` is set; else it is neither listed nor served,
as by a Kafka without a receiver: a client that sees it listed begins to send. An
instance without an id gets one. Who comes before its next push is due is
THROTTLING_QUOTA_EXCEEDED.
Version notes: there is one version.
"""

from broker.apis._telemetry import instance_of
from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import KafkaError
from broker.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from broker.runtime.process.telemetry import CODECS

NO_ID = bytes(16)


@serves(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions=(0, 0), switch="telemetry")
async def get_telemetry_subscriptions(
    request: GetTelemetrySubscriptionsRequest, context: Context
) -> GetTelemetrySubscriptionsResponse:
    broker = context.broker
    instance_id = request.client_instance_id
    if instance_id == NO_ID:
        instance_id = broker.telemetry.new_id()
    instance = await instance_of(instance_id, context)
    try:
        broker.telemetry.ask(instance, broker.clock.now_ms())
    except KafkaError as error:
        return GetTelemetrySubscriptionsResponse(error_code=error.code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=instance.subscription.id,
        accepted_compression_types=list(CODECS),
        push_interval_ms=instance.subscription.push_interval_ms,
        telemetry_max_bytes=broker.settings.telemetry.bytes_max,
        delta_temporality=True,
        requested_metrics=list(instance.subscription.metrics),
    )
