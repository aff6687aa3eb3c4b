"""DescribeConfigs: every key of a topic, a broker, a group..., with value and source.

Behavior: the complete list, defaults included; a list of keys narrows it. A broker is
named by its node id, or "" for what clients have set of all brokers, and no more. What
is named again is not described again: an answer is no larger than all that there is. A
group or a subscription to client metrics need not be there.
Version notes: v0 whether a value is the default; v1 synonyms and sources (KIP-226); v3
types and documentation (KIP-569).
"""

from collections.abc import Awaitable

from broker.apis._resources import check_described
from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import (
    Steps,
    counted_in_turns,
    drained,
    grouped_in_turns,
    in_turns,
)
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import KafkaError
from broker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from broker.runtime.configs.layers import ALL_BROKERS, Kind
from broker.runtime.configs.loggers import describe_loggers
from broker.runtime.process.logging import levels
from broker.runtime.services import Broker
from broker.runtime.topics.config_describe import (
    Described,
    describe_broker_configs,
    describe_common_configs,
    describe_kept_configs,
    describe_topic_configs,
)
from broker.topics.config_keys import ConfigSource
from broker.topics.names import validate

RESOURCES_A_TURN = 10
"""Each has some thirty keys, which take a tenth of a millisecond."""


@serves(ApiKey.DESCRIBE_CONFIGS, versions=(0, 4))
def describe_configs(
    request: DescribeConfigsRequest, context: Context
) -> DescribeConfigsResponse | Awaitable[DescribeConfigsResponse]:
    return in_turns(_resources(request, context.broker))


def _resources(
    request: DescribeConfigsRequest, broker: Broker
) -> Steps[DescribeConfigsResponse]:
    results: list[DescribeConfigsResult] = []
    each = yield from grouped_in_turns(
        request.resources, lambda one: (one.resource_type, one.resource_name)
    )
    for count, (one, _) in enumerate(drained(each), 1):
        result = yield from _resource(one, request, broker)
        results.append(result)
        if count % RESOURCES_A_TURN == 0:
            yield
    return DescribeConfigsResponse(results=results)


def _resource(
    asked: DescribeConfigsResource, request: DescribeConfigsRequest, broker: Broker
) -> Steps[DescribeConfigsResult]:
    result = DescribeConfigsResult(
        error_message=None,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )
    try:
        keys = _keys(asked, broker)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
        return result
    wanted = yield from counted_in_turns(asked.configuration_keys or ())
    # of none: all, as of null
    result.configs = [
        _entry(key, request) for key in keys if not wanted or key.name in wanted
    ]
    return result


def _keys(asked: DescribeConfigsResource, broker: Broker) -> list[Described]:
    kind, name = asked.resource_type, asked.resource_name
    layers = broker.configs.layers
    if kind == Kind.TOPIC:
        validate(name)
        return describe_topic_configs(broker.topics.named(name).configs, layers)
    check_described(kind, name, broker.node_id)
    if kind == Kind.BROKER_LOGGER:
        return describe_loggers(levels)
    if kind != Kind.BROKER:
        return describe_kept_configs(kind, broker.configs.of(kind, name))
    if name == ALL_BROKERS:
        return describe_common_configs(layers)
    return describe_broker_configs(layers, broker.advertised)


def _entry(
    key: Described, request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    synonyms = key.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=key.name,
        value=key.value,
        read_only=key.read_only,
        config_source=key.source,
        is_default=key.source is ConfigSource.DEFAULT_CONFIG,
        is_sensitive=key.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=one.name, value=one.value, source=one.source)
            for one in synonyms
        ],
        config_type=key.type,
        documentation=key.documentation if request.include_documentation else None,
    )
