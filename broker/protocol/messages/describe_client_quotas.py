"""Generated from definitions/describe_client_quotas.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class ComponentData:
    entity_type: str = ""
    match_type: int = 0
    match: str | None = ""


@dataclass(slots=True)
class DescribeClientQuotasRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_CLIENT_QUOTAS

    components: list[ComponentData] = field(default_factory=list)
    strict: bool = False


@dataclass(slots=True)
class EntityData:
    entity_type: str = ""
    entity_name: str | None = ""


@dataclass(slots=True)
class ValueData:
    key: str = ""
    value: float = 0.0


@dataclass(slots=True)
class EntryData:
    entity: list[EntityData] = field(default_factory=list)
    values: list[ValueData] = field(default_factory=list)


@dataclass(slots=True)
class DescribeClientQuotasResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_CLIENT_QUOTAS

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    entries: list[EntryData] | None = field(default_factory=list)
