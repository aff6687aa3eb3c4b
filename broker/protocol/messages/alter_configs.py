"""Generated from definitions/alter_configs.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class AlterableConfig:
    name: str = ""
    value: str | None = ""


@dataclass(slots=True)
class AlterConfigsResource:
    resource_type: int = 0
    resource_name: str = ""
    configs: list[AlterableConfig] = field(default_factory=list)


@dataclass(slots=True)
class AlterConfigsRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.ALTER_CONFIGS

    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: bool = False


@dataclass(slots=True)
class AlterConfigsResourceResponse:
    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""


@dataclass(slots=True)
class AlterConfigsResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.ALTER_CONFIGS

    throttle_time_ms: int = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)
