"""Generated from definitions/api_versions.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class ApiVersionsRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.API_VERSIONS

    client_software_name: str = ""
    client_software_version: str = ""


@dataclass(slots=True)
class ApiVersion:
    api_key: int = 0
    min_version: int = 0
    max_version: int = 0


@dataclass(slots=True)
class SupportedFeatureKey:
    name: str = ""
    min_version: int = 0
    max_version: int = 0


@dataclass(slots=True)
class FinalizedFeatureKey:
    name: str = ""
    max_version_level: int = 0
    min_version_level: int = 0


@dataclass(slots=True)
class ApiVersionsResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.API_VERSIONS

    error_code: int = 0
    api_keys: list[ApiVersion] = field(default_factory=list)
    throttle_time_ms: int = 0
    supported_features: list[SupportedFeatureKey] = field(default_factory=list)
    finalized_features_epoch: int = -1
    finalized_features: list[FinalizedFeatureKey] = field(default_factory=list)
    zk_migration_ready: bool = False
