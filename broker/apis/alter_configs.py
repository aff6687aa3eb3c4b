"""AlterConfigs: a resource's configuration, replaced as a whole.

Behavior: what is not named goes back to its default; the change is durable in the
catalog and effective before the answer. Loggers cannot be configured so. Deprecated in
favour of the incremental form, and still what older clients send.
Version notes: none that changes behavior.
"""

from collections.abc import Awaitable

from broker.apis._alter_each import alter_each
from broker.apis._resources import replace_configs
from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import COUNTED_A_TURN, Steps, completed, while_heard
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from broker.runtime.configs.layers import Kind
from broker.runtime.services import Broker
from broker.runtime.topics.config_alter import topic_to_alter
from broker.topics.configs import validate
from broker.topics.warehouses import check_kept


@serves(ApiKey.ALTER_CONFIGS, versions=(0, 2))
def alter_configs(
    request: AlterConfigsRequest, context: Context
) -> Awaitable[AlterConfigsResponse]:
    return while_heard(_alter_all(request, context), len(request.resources))


async def _alter_all(
    request: AlterConfigsRequest, context: Context
) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=await alter_each(
            request.resources,
            AlterConfigsResourceResponse,
            lambda one: _alter(one, request.validate_only, context.broker),
        )
    )


async def _alter(
    resource: AlterConfigsResource, validate_only: bool, broker: Broker
) -> None:
    given = await completed(_given(resource))  # a twin or a null is refused first
    if resource.resource_type != Kind.TOPIC:
        await replace_configs(resource, given, broker, validate_only=validate_only)
        return
    defaults = broker.configs.layers.topic_defaults
    topic = topic_to_alter(resource, broker.topics, lambda: validate(given, defaults))
    configs = validate(given, defaults)
    if validate_only:
        check_kept(topic.configs, configs)
    else:
        await broker.topics.alter_configs(topic, lambda _: configs)


def _given(resource: AlterConfigsResource) -> Steps[dict[str, str]]:
    """Gather the new values by key.

    Raises INVALID_REQUEST for a key that is named twice, else for a null.
    """
    given, null = dict[str, str](), None
    for count, config in enumerate(resource.configs, 1):
        if config.name in given:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "Error due to duplicate config keys",
            )
        if config.value is None:
            null = null or config
        given[config.name] = config.value or ""
        if count % COUNTED_A_TURN == 0:
            yield
    if null is not None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {null.name}"
        )
    return given
