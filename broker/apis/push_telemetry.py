"""PushTelemetry: a client's metrics, kept for whoever wants them (KIP-714).

Behavior: only where ``telemetry.enabled`` is set. What is larger than
``telemetry.bytes_max``, as it came, is TELEMETRY_TOO_LARGE; what would become larger is
INVALID_RECORD, as is what is damaged: it is decompressed on a thread, and never beyond
that. What the metrics say is not looked at.
Version notes: there is one version.
"""

import asyncio

from broker.apis._telemetry import instance_of
from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.push_telemetry import (
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from broker.records.compression import decompress
from broker.runtime.process.telemetry import NOBODY


@serves(ApiKey.PUSH_TELEMETRY, versions=(0, 0), switch="telemetry")
async def push_telemetry(
    request: PushTelemetryRequest, context: Context
) -> PushTelemetryResponse:
    try:
        await _push(request, context)
    except KafkaError as error:
        return PushTelemetryResponse(error_code=error.code)
    return PushTelemetryResponse()


async def _push(request: PushTelemetryRequest, context: Context) -> None:
    if request.client_instance_id in NOBODY:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    broker, codec = context.broker, request.compression_type
    bytes_max, data = broker.settings.telemetry.bytes_max, bytes(request.metrics)
    instance = await instance_of(request.client_instance_id, context)
    broker.telemetry.check_push(
        instance,
        request.subscription_id,
        codec,
        len(data),
        bytes_max,
        ends=request.terminating,
        now_ms=broker.clock.now_ms(),
    )
    if not data:
        return
    loop = asyncio.get_running_loop()
    try:
        metrics = await loop.run_in_executor(None, decompress, codec, data, bytes_max)
    except KafkaError:
        raise KafkaError(ErrorCode.INVALID_RECORD) from None
    broker.telemetry.keep(instance, bytes(metrics))
