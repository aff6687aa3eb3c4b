"""Which client an instance is, and which subscriptions match it.

Source: Kafka's ``ClientMetricsInstanceMetadata`` and ``ClientMetricsManager``. The port
of a client is not known to a handler: a pattern of it matches nothing.
"""

import asyncio
import base64
from collections.abc import Mapping

from broker.apis._patterns import matching
from broker.dispatch.context import Context
from broker.runtime.configs.layers import Kind
from broker.runtime.process.telemetry import Instance, Subscription, subscription_of
from broker.topics.kept_configs import patterns


async def instance_of(instance_id: bytes, context: Context) -> Instance:
    """The instance, with the subscription that is configured now."""
    telemetry, configs = context.broker.telemetry, context.broker.configs
    known = telemetry.known(instance_id)
    if known is not None:
        return known
    version = telemetry.version
    names = configs.names(Kind.CLIENT_METRICS)
    each = [dict(configs.of(Kind.CLIENT_METRICS, name)) for name in names]
    facts = _facts(instance_id, context)
    loop = asyncio.get_running_loop()
    subscription = await loop.run_in_executor(
        None, _subscription, instance_id, each, facts
    )
    return telemetry.put(instance_id, facts["client_id"], subscription, version)


def _facts(instance_id: bytes, context: Context) -> dict[str, str]:
    return {
        "client_instance_id": base64.urlsafe_b64encode(instance_id)[:22].decode(),
        "client_id": context.client_id or "",
        "client_software_name": context.software.name,
        "client_software_version": context.software.version,
        "client_source_address": context.peer_host,
    }


def _subscription(
    instance_id: bytes, each: list[dict[str, str]], facts: Mapping[str, str]
) -> Subscription:
    """What is asked by those whose patterns all match. Blocks."""
    return subscription_of(
        instance_id,
        (
            configs
            for configs in each
            if all(
                name in facts and matching(expression, [facts[name]])[0]
                for name, expression in patterns(configs).items()
            )
        ),
    )
