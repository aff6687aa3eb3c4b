"""Generated from definitions/list_config_resources.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class ListConfigResourcesRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.LIST_CONFIG_RESOURCES

    resource_types: list[int] = field(default_factory=list)


@dataclass(slots=True)
class ConfigResource:
    resource_name: str = ""
    resource_type: int = 16


@dataclass(slots=True)
class ListConfigResourcesResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.LIST_CONFIG_RESOURCES

    throttle_time_ms: int = 0
    error_code: int = 0
    config_resources: list[ConfigResource] = field(default_factory=list)
