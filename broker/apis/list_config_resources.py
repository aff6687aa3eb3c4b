"""ListConfigResources: what has a configuration, by kind and name.

Behavior: brokers and their loggers are this node; topics are all; groups and
subscriptions to client metrics are those of which something is configured. A kind that
is none is UNSUPPORTED_VERSION, as in Kafka.
Version notes: v0 subscriptions to client metrics alone (KIP-714, when the API was
called so); v1 kinds, all of them if none is named (KIP-1142).
"""

from collections.abc import Awaitable, Iterator

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import Steps, in_turns, listed_in_turns
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from broker.runtime.configs.layers import Kind
from broker.runtime.services import Broker


@serves(ApiKey.LIST_CONFIG_RESOURCES, versions=(0, 1))
def list_config_resources(
    request: ListConfigResourcesRequest, context: Context
) -> ListConfigResourcesResponse | Awaitable[ListConfigResourcesResponse]:
    kinds = {Kind.CLIENT_METRICS.value}
    if context.version >= 1:
        known = {kind.value for kind in Kind}
        kinds = set(request.resource_types) or known
        if not kinds <= known:
            unsupported = ErrorCode.UNSUPPORTED_VERSION
            return ListConfigResourcesResponse(error_code=unsupported)
    return in_turns(_listed(kinds, context.broker))


def _listed(kinds: set[int], broker: Broker) -> Steps[ListConfigResourcesResponse]:
    resources = yield from listed_in_turns(
        ConfigResource(name, kind)
        for kind in sorted(kinds)
        for name in _names(kind, broker)
    )
    return ListConfigResourcesResponse(config_resources=resources)


def _names(kind: int, broker: Broker) -> Iterator[str]:
    if kind in (Kind.BROKER, Kind.BROKER_LOGGER):
        yield str(broker.node_id)
    elif kind == Kind.TOPIC:
        for topic in broker.topics.all():
            yield topic.name
    else:
        yield from broker.configs.names(kind)
