"""Configurations as clients see them: value, source, synonyms, type, documentation.

The problem: tools want the complete list of keys with defaults, and where each value
comes from (Connect refuses to start without ``cleanup.policy``; consoles draw the
rest). The idea: a topic's value is its own setting, or the broker's, or Kafka's
default, and the chain of these is what KIP-226 calls synonyms. Broker keys are those
that the settings or the topics' defaults answer; nothing of a broker can be altered by
a client here, so all of them are read-only.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from broker.settings import Settings
from broker.topics.config_keys import ConfigKey, ConfigSource, ConfigType
from broker.topics.configs import TOPIC_CONFIGS, TopicConfig
from broker.topics.topic import Topic

MINUTE_MS = 60_000


class Synonym(NamedTuple):
    """One place where a value could come from; the strongest comes first."""

    name: str
    value: str
    source: ConfigSource


class Described(NamedTuple):
    """One key of a topic or of the broker."""

    name: str
    value: str
    source: ConfigSource
    read_only: bool
    type: ConfigType
    documentation: str
    synonyms: tuple[Synonym, ...]


def topic_defaults(settings: Settings) -> dict[str, str]:
    """What this broker's settings say for topics that do not say it themselves."""
    return {"max.message.bytes": str(settings.broker.message_max_bytes)}


def topic_config(topic: Topic, settings: Settings) -> TopicConfig:
    """What holds for a topic."""
    return TopicConfig.of(topic.configs, topic_defaults(settings))


def described_topic_configs(
    configs: Mapping[str, str], settings: Settings
) -> list[Described]:
    """Every key of a topic whose own settings are ``configs``."""
    defaults = topic_defaults(settings)
    return [_topic_key(key, configs, defaults) for key in TOPIC_CONFIGS.values()]


def described_broker_configs(settings: Settings) -> list[Described]:
    """Every key of the broker, in the order of names."""
    listed = {key.name: key for key in (*_of_settings(settings), *_of_topics(settings))}
    return [listed[name] for name in sorted(listed)]


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


def _of_topics(settings: Settings) -> Iterable[Described]:
    defaults = topic_defaults(settings)
    for key in TOPIC_CONFIGS.values():
        if key.synonyms:
            chain = tuple(_broker_chain(key, defaults))
            yield Described(
                chain[0].name,
                chain[0].value,
                chain[0].source,
                read_only=True,
                type=key.type,
                documentation=f"Default of the topics' {key.name}.",
                synonyms=chain,
            )


def _of_settings(settings: Settings) -> Iterable[Described]:
    advertised = settings.advertised or settings.listener
    groups, network = settings.groups, settings.network
    rows: tuple[tuple[str, object, ConfigType, str], ...] = (
        ("node.id", settings.node_id, ConfigType.INT, "This node's number."),
        ("broker.id", settings.node_id, ConfigType.INT, "This node's number."),
        ("listeners", f"PLAINTEXT://{settings.listener}", ConfigType.LIST,
         "Where Kafka clients are listened to."),
        ("advertised.listeners", f"PLAINTEXT://{advertised}", ConfigType.LIST,
         "What clients are told to connect to."),
        ("log.dirs", settings.data_dir, ConfigType.LIST, "Where all data lives."),
        ("num.partitions", settings.broker.num_partitions, ConfigType.INT,
         "Partitions of a topic that does not say how many."),
        ("default.replication.factor", 1, ConfigType.INT, "There is one node."),
        ("auto.create.topics.enable", settings.broker.auto_create_topics,
         ConfigType.BOOLEAN, "Whether asking for a topic creates it."),
        ("delete.topic.enable", True, ConfigType.BOOLEAN,
         "Whether topics can be deleted."),
        ("fetch.max.bytes", settings.broker.fetch_max_bytes, ConfigType.INT,
         "The largest answer to a fetch."),
        ("producer.id.expiration.ms", settings.broker.producer_id_expiration_ms,
         ConfigType.INT, "After what silence a producer's sequences are forgotten."),
        ("socket.request.max.bytes", network.frame_bytes_max, ConfigType.INT,
         "The largest request."),
        ("connections.max.idle.ms", network.idle_ms, ConfigType.LONG,
         "After what silence a connection is closed."),
        ("max.connections", network.connections_max, ConfigType.INT,
         "How many connections may be open."),
        ("group.initial.rebalance.delay.ms", groups.initial_rebalance_delay_ms,
         ConfigType.INT, "How long an empty group waits for more members."),
        ("group.min.session.timeout.ms", groups.min_session_timeout_ms,
         ConfigType.INT, "The shortest session of a group's member."),
        ("group.max.session.timeout.ms", groups.max_session_timeout_ms,
         ConfigType.INT, "The longest session of a group's member."),
        ("group.max.size", groups.max_size, ConfigType.INT,
         "How many members a group may have."),
        ("offsets.retention.minutes", groups.offsets_retention_ms // MINUTE_MS,
         ConfigType.INT, "How long offsets of an empty group are kept."),
    )  # fmt: skip
    for name, value, kind, documentation in rows:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        synonym = Synonym(name, text, ConfigSource.STATIC_BROKER_CONFIG)
        yield Described(
            name, text, synonym.source, True, kind, documentation, (synonym,)
        )
