"""Configurations as clients see them: value, source, synonyms, type, documentation.

The problem: tools want the complete list of keys with defaults, and where each value
comes from (Connect refuses to start without ``cleanup.policy``; consoles draw the
rest). The idea: a topic's value is its own setting, or the broker's, or Kafka's
default, and the chain of these is what KIP-226 calls synonyms. The broker's is what
clients have made it, or what it was started with (``Layers``).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from broker.configuration.kafka_names import SETTING_OF
from broker.configuration.kafka_values import MINUTE_MS
from broker.runtime.configs.layers import Kind, Layers
from broker.settings import Settings, describe
from broker.topics.broker_alter import DYNAMIC
from broker.topics.broker_configs import BROKER_CONFIGS
from broker.topics.config_keys import ConfigKey, ConfigSource, ConfigType
from broker.topics.configs import TOPIC_CONFIGS, TopicConfig
from broker.topics.kept_configs import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS
from broker.topics.topic import Topic


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
    sensitive: bool = False


def topic_config(topic: Topic, layers: Layers) -> TopicConfig:
    """What holds for a topic."""
    return TopicConfig.of(topic.configs, layers.topic_defaults)


def describe_topic_configs(
    configs: Mapping[str, str], layers: Layers
) -> list[Described]:
    """Every key of a topic whose own settings are ``configs``."""
    static = Layers(layers.given).topic_defaults
    return [_topic_key(key, configs, layers, static) for key in TOPIC_CONFIGS.values()]


def describe_broker_configs(
    layers: Layers, advertised: tuple[str, int]
) -> list[Described]:
    """Every key of the broker, in the order of names; then what clients have set of
    which nobody knows what it is.

    ``advertised`` is where clients are told to connect to, with the port in use.
    """
    set_here = _set_here(layers.given) | {
        "listeners": f"PLAINTEXT://{layers.given.listener}",
        "advertised.listeners": f"PLAINTEXT://{join_host_port(*advertised)}",
    }
    known = [_broker_key(key, set_here, layers) for key in _BROKER_KEYS]
    unknown = sorted(layers.dynamic.keys() - BROKER_CONFIGS.keys())
    return known + [
        _unknown_key(name, _dynamic_chain(name, layers)) for name in unknown
    ]


def describe_common_configs(layers: Layers) -> list[Described]:
    """What clients have configured of all brokers, and nothing else."""
    found = []
    for name, value in sorted(layers.common.items()):
        chain = [Synonym(name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)]
        key = BROKER_CONFIGS.get(name)
        found.append(_described(key, chain) if key else _unknown_key(name, chain))
    return found


_BROKER_KEYS = tuple(BROKER_CONFIGS.values())


def join_host_port(host: str, port: int) -> str:
    """Return an address as people write it: a colon in the host needs brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def describe_kept_configs(kind: int, configs: Mapping[str, str]) -> list[Described]:
    """Every key of a group, or of a subscription to client metrics, so configured."""
    keys, source = _KEPT[Kind(kind)]
    return [_kept_key(key, configs, source) for key in keys.values()]


_KEPT: Final = {
    Kind.CLIENT_METRICS: (
        CLIENT_METRICS_CONFIGS,
        ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG,
    ),
    Kind.GROUP: (GROUP_CONFIGS, ConfigSource.DYNAMIC_GROUP_CONFIG),
}


def _kept_key(
    key: ConfigKey, configs: Mapping[str, str], source: ConfigSource
) -> Described:
    default = ConfigSource.DEFAULT_CONFIG
    chain = [Synonym(name, key.default, default) for name in key.synonyms]
    if key.name in configs:
        chain.insert(0, Synonym(key.name, configs[key.name], source))
    return Described(
        key.name,
        configs.get(key.name, key.default),
        source if key.name in configs else default,
        read_only=False,
        type=key.type,
        documentation=key.documentation,
        synonyms=tuple(chain),
    )


def _broker_key(
    key: ConfigKey, set_here: Mapping[str, str], layers: Layers
) -> Described:
    chain = _dynamic_chain(key.name, layers)
    if key.name in set_here:
        static = ConfigSource.STATIC_BROKER_CONFIG
        chain.append(Synonym(key.name, set_here[key.name], static))
    if key.default is not None:
        chain.append(Synonym(key.name, key.default, ConfigSource.DEFAULT_CONFIG))
    return _described(key, chain)


def _described(key: ConfigKey, chain: Sequence[Synonym]) -> Described:
    return Described(
        key.name,
        chain[0].value if chain else None,
        chain[0].source if chain else ConfigSource.DEFAULT_CONFIG,
        read_only=key.name not in DYNAMIC,
        type=key.type,
        documentation=key.documentation,
        synonyms=tuple(chain),
    )


def _unknown_key(name: str, chain: Sequence[Synonym]) -> Described:
    """It may be secret, so it is shown without its value, as in Kafka."""
    return Described(
        name,
        None,
        chain[0].source,
        read_only=True,
        type=ConfigType.UNKNOWN,
        documentation="",
        synonyms=tuple(one._replace(value=None) for one in chain),
        sensitive=True,
    )


def _dynamic_chain(name: str, layers: Layers) -> list[Synonym]:
    """What clients have made it: of this broker, then of all."""
    places = (
        (layers.own, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (layers.common, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
    )
    return [
        Synonym(name, configs[name], source)
        for configs, source in places
        if name in configs
    ]


def _topic_key(
    key: ConfigKey,
    configs: Mapping[str, str],
    layers: Layers,
    static: Mapping[str, str],
) -> Described:
    chain = []
    if key.name in configs:
        own = Synonym(key.name, configs[key.name], ConfigSource.TOPIC_CONFIG)
        chain.append(own)
    chain.extend(_broker_chain(key, layers, static))
    return Described(
        key.name,
        chain[0].value,
        chain[0].source,
        read_only=False,
        type=key.type,
        documentation=key.documentation,
        synonyms=tuple(chain),
    )


def _broker_chain(
    key: ConfigKey, layers: Layers, static: Mapping[str, str]
) -> Iterable[Synonym]:
    """What the broker says, if it does, and Kafka's default."""
    name = key.synonyms[0] if key.synonyms else key.name
    assert key.default is not None
    if key.synonyms:
        yield from _dynamic_chain(name, layers)
    set_here = static.get(key.name, key.default)
    if set_here != key.default:
        yield Synonym(name, set_here, ConfigSource.STATIC_BROKER_CONFIG)
    yield Synonym(name, key.default, ConfigSource.DEFAULT_CONFIG)


def _set_here(settings: Settings) -> dict[str, str]:
    """What this broker's settings say, by Kafka's keys; of what they say for topics
    only what differs from Kafka's default, which minutes or hours may stand for."""
    values = describe(settings)
    return {
        name: _text(name, values[key])
        for name, key in SETTING_OF.items()
        if not key.startswith("topics.") or values[key] != _DEFAULTS[key]
    }


_DEFAULTS: Final = describe(Settings())


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if name.endswith(".minutes"):
        return str(int(str(value)) // MINUTE_MS)
    return str(value)
