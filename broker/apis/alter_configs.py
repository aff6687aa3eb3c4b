"""AlterConfigs: a topic's settings, replaced as a whole.

Behavior: what is not named goes back to its default; the change is durable in the
catalog and effective before the answer. Deprecated in favour of the incremental form,
and still what older clients send.
Version notes: none that changes behavior.
"""

from collections.abc import Awaitable

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import KafkaError
from broker.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from broker.runtime.alterations import named_once, topic_to_alter
from broker.runtime.services import Broker
from broker.topics.configs import validate


@serves(ApiKey.ALTER_CONFIGS, versions=(0, 2))
def alter_configs(
    request: AlterConfigsRequest, context: Context
) -> Awaitable[AlterConfigsResponse]:
    return _alter_all(request, context.broker)


async def _alter_all(
    request: AlterConfigsRequest, broker: Broker
) -> AlterConfigsResponse:
    answer = AlterConfigsResponse()
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
    configs = validate({config.name: config.value for config in resource.configs})
    if not validate_only:
        await broker.topics.alter_configs(topic, lambda _: configs)
