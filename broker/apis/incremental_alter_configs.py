"""IncrementalAlterConfigs: single settings of a resource, set, deleted or edited.

Behavior: DELETE restores the default; APPEND and SUBTRACT are for lists, and start from
what holds now, defaults included. The change is durable in the catalog and effective
before the answer; that of a logger's level holds as long as the process lives.
Version notes: none that changes behavior (KIP-339).
"""

from collections.abc import Awaitable, Mapping

from broker.apis._alter_each import alter_each
from broker.apis._resources import alter_resource
from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import completed, while_heard
from broker.protocol.api_keys import ApiKey
from broker.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from broker.runtime.configs.layers import Kind
from broker.runtime.services import Broker
from broker.runtime.topics.config_alter import topic_to_alter
from broker.topics.config_alter import Alteration, alter, that_matter
from broker.topics.configs import TOPIC_CONFIGS
from broker.topics.warehouses import check_kept


@serves(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1))
def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, context: Context
) -> Awaitable[IncrementalAlterConfigsResponse]:
    return while_heard(_alter_all(request, context), len(request.resources))


async def _alter_all(
    request: IncrementalAlterConfigsRequest, context: Context
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=await alter_each(
            request.resources,
            AlterConfigsResourceResponse,
            lambda one: _alter(one, request.validate_only, context.broker),
        )
    )


async def _alter(
    resource: AlterConfigsResource, validate_only: bool, broker: Broker
) -> None:
    alterations = await completed(  # a twin or a null is refused first
        that_matter(
            (
                Alteration(config.name, config.config_operation, config.value)
                for config in resource.configs
            ),
            TOPIC_CONFIGS if resource.resource_type == Kind.TOPIC else None,
        )
    )
    if resource.resource_type != Kind.TOPIC:
        await alter_resource(resource, alterations, broker, validate_only=validate_only)
        return
    defaults = broker.configs.layers.topic_defaults

    def altered(configs: Mapping[str, str]) -> dict[str, str]:
        return alter(configs, alterations, defaults)

    topic = topic_to_alter(resource, broker.topics, lambda: altered({}))
    if validate_only:
        check_kept(topic.configs, altered(topic.configs))
    else:
        await broker.topics.alter_configs(topic, altered)
