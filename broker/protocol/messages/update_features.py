"""Generated from definitions/update_features.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class FeatureUpdateKey:
    feature: str = ""
    max_version_level: int = 0
    allow_downgrade: bool = False
    upgrade_type: int = 1


@dataclass(slots=True)
class UpdateFeaturesRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.UPDATE_FEATURES

    timeout_ms: int = 60000
    feature_updates: list[FeatureUpdateKey] = field(default_factory=list)
    validate_only: bool = False


@dataclass(slots=True)
class UpdatableFeatureResult:
    feature: str = ""
    error_code: int = 0
    error_message: str | None = ""


@dataclass(slots=True)
class UpdateFeaturesResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.UPDATE_FEATURES

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: list[UpdatableFeatureResult] = field(default_factory=list)
