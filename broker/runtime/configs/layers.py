"""Where a broker's values come from, the strongest first.

This broker's dynamic configuration, that of all brokers, the settings that the process
was started with (flag, environment, file: ``broker/settings.py``), Kafka's defaults.
What acts on a setting reads ``Layers.settings``, where a dynamic value has replaced the
one of the start; what acts on a topic's configuration gets it through
``topic_defaults``.
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from broker.settings import Settings
from broker.topics.broker_alter import topic_overrides
from broker.topics.broker_configs import BROKER_CONFIGS
from broker.topics.configs import LAKE_FLUSH_MAX_MS

ALL_BROKERS: Final = ""

SETTINGS_CHANGED: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "max.connections": ("network", "connections_max"),
        "max.connections.per.ip": ("network", "connections_per_host_max"),
        "message.max.bytes": ("broker", "message_max_bytes"),
        "producer.id.expiration.ms": ("broker", "producer_id_expiration_ms"),
    }
)
"""Kafka's key -> the setting that it changes while the broker runs."""


class Kind(IntEnum):
    """What has a configuration (``ConfigResource.Type``)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Layers(NamedTuple):
    """``given``: the settings of the start. ``own`` and ``common``: what clients have
    configured of this broker, and of all."""

    given: Settings
    own: Mapping[str, str] = MappingProxyType({})
    common: Mapping[str, str] = MappingProxyType({})

    @property
    def dynamic(self) -> dict[str, str]:
        """What clients have configured, this broker's before that of all."""
        return {**self.common, **self.own}

    @property
    def settings(self) -> Settings:
        """The settings that hold now."""
        dynamic, settings = self.dynamic, self.given
        for name, (group, field) in SETTINGS_CHANGED.items():
            if name in dynamic:
                value = BROKER_CONFIGS[name].parse(dynamic[name])
                changed = getattr(settings, group).model_copy(update={field: value})
                settings = settings.model_copy(update={group: changed})
        return settings

    @property
    def topic_defaults(self) -> dict[str, str]:
        """What holds for topics that do not say it themselves, by topic key."""
        given = self.given.topics.configs | {
            "max.message.bytes": str(self.given.broker.message_max_bytes),
            LAKE_FLUSH_MAX_MS: str(self.given.lake.flush_bound_ms),
        }
        return given | topic_overrides(self.dynamic)
