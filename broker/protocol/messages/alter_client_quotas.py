"""Generated from definitions/alter_client_quotas.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class EntityData:
    entity_type: str = ""
    entity_name: str | None = ""


@dataclass(slots=True)
class OpData:
    key: str = ""
    value: float = 0.0
    remove: bool = False


@dataclass(slots=True)
class EntryData:
    entity: list[EntityData] = field(default_factory=list)
    ops: list[OpData] = field(default_factory=list)


@dataclass(slots=True)
class AlterClientQuotasRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.ALTER_CLIENT_QUOTAS

    entries: list[EntryData] = field(default_factory=list)
    validate_only: bool = False


@dataclass(slots=True)
class EntryDataResponse:
    error_code: int = 0
    error_message: str | None = ""
    entity: list[EntityData] = field(default_factory=list)


@dataclass(slots=True)
class AlterClientQuotasResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.ALTER_CLIENT_QUOTAS

    throttle_time_ms: int = 0
    entries: list[EntryDataResponse] = field(default_factory=list)
