"""IncrementalAlterConfigs: single settings of a topic, set, deleted or edited.

Behavior: DELETE restores the default; APPEND and SUBTRACT are for lists, and start from
what holds now, defaults included. The change is durable in the catalog and effective
before the answer.
Version notes: none that changes behavior (KIP-339).
"""

from collections.abc import Awaitable, Mapping

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import KafkaError
from broker.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from broker.runtime.alterations import named_once, topic_to_alter
from broker.runtime.described import topic_defaults
from broker.runtime.services import Broker
from broker.topics.alterations import Alteration, alter


@serves(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1))
def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, context: Context
) -> Awaitable[IncrementalAlterConfigsResponse]:
    return _alter_all(request, context.broker)


async def _alter_all(
    request: IncrementalAlterConfigsRequest, broker: Broker
) -> IncrementalAlterConfigsResponse:
    answer = IncrementalAlterConfigsResponse()
    for resource, error in named_once(request.resources):
        result = AlterConfigsResourceResponse(
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        try:
            if error is not None:
                raise error
            await _alter(resource, request.validate_only, broker)
        except KafkaError as refused:
            result.error_code, result.error_message = refused.code, refused.message
        answer.responses.append(result)
    return answer


async def _alter(
    resource: AlterConfigsResource, validate_only: bool, broker: Broker
) -> None:
    topic = topic_to_alter(resource, broker.topics, broker.node_id)
    alterations = [
        Alteration(config.name, config.config_operation, config.value)
        for config in resource.configs
    ]
    defaults = topic_defaults(broker.settings)

    def altered(configs: Mapping[str, str]) -> dict[str, str]:
        return alter(configs, alterations, defaults)

    if validate_only:
        altered(topic.configs)
    else:
        await broker.topics.alter_configs(topic, altered)
