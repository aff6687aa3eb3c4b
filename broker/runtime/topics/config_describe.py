"""Configurations as clients see them: value, source, synonyms, type, documentation.

The problem: tools want the complete list of keys with defaults, and where each value
comes from (Connect refuses to start without ``cleanup.policy``; consoles draw the
rest). The idea: a topic's value is its own setting, or the broker's, or Kafka's
default, and the chain of these is what KIP-226 calls synonyms. Nothing of a broker can
be altered by a client here, so all of its keys are read-only.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from broker.settings import Settings, describe
from broker.topics.broker_configs import BROKER_CONFIGS, effective_values
from broker.topics.config_keys import ConfigKey, ConfigSource, ConfigType
from broker.topics.configs import LAKE_FLUSH_MAX_MS, TOPIC_CONFIGS, TopicConfig
from broker.topics.topic import Topic

MINUTE_MS = 60_000

SETTING_OF: Final[Mapping[str, str]] = MappingProxyType(
    {
        "node.id": "node_id",
        "broker.id": "node_id",
        "log.dir": "data_dir",
        "log.dirs": "data_dir",
        "num.partitions": "broker.num_partitions",
        "auto.create.topics.enable": "broker.auto_create_topics",
        "message.max.bytes": "broker.message_max_bytes",
        "fetch.max.bytes": "broker.fetch_max_bytes",
        "max.incremental.fetch.session.cache.slots": (
            "broker.max_incremental_fetch_session_cache_slots"
        ),
        "producer.id.expiration.ms": "broker.producer_id_expiration_ms",
        "socket.request.max.bytes": "network.frame_bytes_max",
        "connections.max.idle.ms": "network.idle_ms",
        "max.connections": "network.connections_max",
        "max.connections.per.ip": "network.connections_per_host_max",
        "log.retention.check.interval.ms": "lake.retention_check_ms",
        LAKE_FLUSH_MAX_MS: "lake.flush_max_ms",
        "group.initial.rebalance.delay.ms": "groups.initial_rebalance_delay_ms",
        "group.min.session.timeout.ms": "groups.min_session_timeout_ms",
        "group.max.session.timeout.ms": "groups.max_session_timeout_ms",
        "group.max.size": "groups.max_size",
        "offset.metadata.max.bytes": "groups.offset_metadata_max_bytes",
        "offsets.retention.check.interval.ms": "groups.offsets_retention_check_ms",
        "offsets.retention.minutes": "groups.offsets_retention_ms",
        "transaction.max.timeout.ms": "transactions.max_timeout_ms",
        "transactional.id.expiration.ms": "transactions.id_expiration_ms",
    }
)
"""Kafka's key -> the setting that it shows."""


class Synonym(NamedTuple):
    """One place where a value could come from; the strongest comes first."""

    name: str
    value: str | None
    source: ConfigSource


class Described(NamedTuple):
    """One key of a topic or of the broker."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    type: ConfigType
    documentation: str
    synonyms: tuple[Synonym, ...]


def topic_defaults(settings: Settings) -> dict[str, str]:
    """What this broker's settings say for topics that do not say it themselves."""
    return {
        "max.message.bytes": str(settings.broker.message_max_bytes),
        LAKE_FLUSH_MAX_MS: str(settings.lake.flush_bound_ms),
    }


def topic_config(topic: Topic, settings: Settings) -> TopicConfig:
    """What holds for a topic."""
    return TopicConfig.of(topic.configs, topic_defaults(settings))


def describe_topic_configs(
    configs: Mapping[str, str], settings: Settings
) -> list[Described]:
    """Every key of a topic whose own settings are ``configs``."""
    defaults = topic_defaults(settings)
    return [_topic_key(key, configs, defaults) for key in TOPIC_CONFIGS.values()]


def describe_broker_configs(
    settings: Settings, advertised: tuple[str, int]
) -> list[Described]:
    """Every key of the broker, in the order of names.

    ``advertised`` is where clients are told to connect to, with the port in use.
    """
    set_here = _set_here(settings) | {
        "listeners": f"PLAINTEXT://{settings.listener}",
        "advertised.listeners": f"PLAINTEXT://{join_host_port(*advertised)}",
    }
    values = effective_values(set_here)
    return [_broker_key(key, values[key.name], set_here) for key in _BROKER_KEYS]


_BROKER_KEYS = tuple(BROKER_CONFIGS.values())


def join_host_port(host: str, port: int) -> str:
    """Return an address as people write it: a colon in the host needs brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _broker_key(
    key: ConfigKey, value: str | None, set_here: Mapping[str, str]
) -> Described:
    chain = []
    if key.name in set_here:
        own = Synonym(key.name, value, ConfigSource.STATIC_BROKER_CONFIG)
        chain.append(own)
    if key.default is not None:
        chain.append(Synonym(key.name, key.default, ConfigSource.DEFAULT_CONFIG))
    return Described(
        key.name,
        value,
        chain[0].source if chain else ConfigSource.DEFAULT_CONFIG,
        read_only=True,
        type=key.type,
        documentation=key.documentation,
        synonyms=tuple(chain),
    )


def _topic_key(
    key: ConfigKey, configs: Mapping[str, str], defaults: Mapping[str, str]
) -> Described:
    chain = []
    if key.name in configs:
        own = Synonym(key.name, configs[key.name], ConfigSource.TOPIC_CONFIG)
        chain.append(own)
    chain.extend(_broker_chain(key, defaults))
    return Described(
        key.name,
        chain[0].value,
        chain[0].source,
        read_only=False,
        type=key.type,
        documentation=key.documentation,
        synonyms=tuple(chain),
    )


def _broker_chain(key: ConfigKey, defaults: Mapping[str, str]) -> Iterable[Synonym]:
    """What the broker says, if it does, and Kafka's default."""
    name = key.synonyms[0] if key.synonyms else key.name
    assert key.default is not None
    set_here = defaults.get(key.name, key.default)
    if set_here != key.default:
        yield Synonym(name, set_here, ConfigSource.STATIC_BROKER_CONFIG)
    yield Synonym(name, key.default, ConfigSource.DEFAULT_CONFIG)


def _set_here(settings: Settings) -> dict[str, str]:
    """What this broker's settings say, by Kafka's keys."""
    values = describe(settings)
    return {name: _text(name, values[key]) for name, key in SETTING_OF.items()}


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if name.endswith(".minutes"):
        return str(int(str(value)) // MINUTE_MS)
    return str(value)
