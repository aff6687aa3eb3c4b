"""The configurations that a topic would have if it were made now, and said none itself.

A broker answers for topics that are there. What it answers for a new one follows from
its own configurations, by the names that each key of a topic has in a broker, and from
Kafka's defaults (``KafkaConfig.extractLogConfigMap``).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka.admin import ConfigEntry, ConfigSource

from broker.topics.config_keys import ConfigKey
from broker.topics.configs import TOPIC_CONFIGS

_DEFAULT = ConfigSource.DEFAULT_CONFIG.value
_STATIC = ConfigSource.STATIC_BROKER_CONFIG.value


def topic_defaults(broker: Mapping[str, Any]) -> dict[str, ConfigEntry]:
    """By the topic's key, in the order of names; ``broker`` are a broker's
    configurations by name, as librdkafka's ConfigEntry."""
    return {key.name: _of_key(key, broker) for key in TOPIC_CONFIGS.values()}


def _of_key(key: ConfigKey, broker: Mapping[str, Any]) -> ConfigEntry:
    name = key.synonyms[0] if key.synonyms else key.name
    chain = list(_chain(key, name, broker.get(name)))
    value, source = chain[0]
    found = ConfigEntry(key.name, value)
    found.source = source
    found.is_default = source == _DEFAULT
    found.is_read_only = found.is_sensitive = False
    # those that share a name stand as librdkafka keeps them: the last
    found.synonyms = {name: _synonym(name, *chain[-1])}
    return found


def _chain(key: ConfigKey, name: str, said: Any) -> Iterator[tuple[str | None, int]]:
    """Values and where they come from, the one that counts first."""
    if key.synonyms and said is not None and _is_set(key, said):
        yield said.value, said.source
    yield key.default, _DEFAULT


def _is_set(key: ConfigKey, said: Any) -> bool:
    """Whether the broker says it; what it was started with may be Kafka's default."""
    if said.source == _STATIC:
        return bool(said.value != key.default)
    return bool(said.source != _DEFAULT)


def _synonym(name: str, value: str | None, source: int) -> ConfigEntry:
    found = ConfigEntry(name, value)
    found.source = source
    return found
