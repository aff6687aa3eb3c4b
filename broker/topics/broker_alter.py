"""Changing a broker's configuration while it runs.

Source: ``DynamicBrokerConfig`` and ``ConfigAdminManager``, whose words the refusals
are. A key that Kafka does not change while it runs is refused; one that nobody knows is
kept for whoever may (a plugin of Kafka's), and shown without its value, which may be
secret.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from broker.configuration.kafka_names import OF_BROKER
from broker.protocol.errors import ErrorCode, KafkaError
from broker.topics import names
from broker.topics.broker_configs import BROKER_CONFIGS
from broker.topics.config_alter import Alteration, Operation
from broker.topics.config_keys import ConfigType
from broker.topics.configs import LAKE_FLUSH_MAX_MS, TOPIC_CONFIGS
from broker.topics.spellings import integer, split_list, trimmed

_NONE: Final[Mapping[str, str]] = MappingProxyType({})

OF_TOPICS: Final[Mapping[str, str]] = {
    key.synonyms[0]: key.name
    for key in TOPIC_CONFIGS.values()
    if key.synonyms and key.name != LAKE_FLUSH_MAX_MS
}
"""A broker's key -> the topics' key of which it is the default. The compactor goes by
one of them as well, and knows what it was started with alone."""

DYNAMIC: Final = frozenset(OF_TOPICS) | {
    "log.cleaner.backoff.ms",
    "log.cleaner.threads",
    "max.connection.creation.rate",
    "max.connections",
    "max.connections.per.ip",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "producer.id.expiration.ms",
}
"""The keys that can be changed while a broker runs."""

_KEPT: Final = """
background.threads config.providers cordoned.log.dirs
follower.fetch.last.tiered.offset.enable group.consumer.assignment.interval.ms
group.coordinator.cached.buffer.max.bytes group.share.assignment.interval.ms
group.streams.assignment.interval.ms
log.cleaner.dedupe.buffer.size log.cleaner.io.buffer.load.factor
log.cleaner.io.buffer.size log.cleaner.io.max.bytes.per.second
max.connections.per.ip.overrides metric.reporters principal.builder.class
remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms
remote.log.index.file.cache.total.size.bytes remote.log.manager.copier.thread.pool.size
remote.log.manager.copy.max.bytes.per.second
remote.log.manager.expiration.thread.pool.size
remote.log.manager.fetch.max.bytes.per.second
remote.log.manager.follower.thread.pool.size remote.log.reader.threads
sasl.enabled.mechanisms sasl.jaas.config sasl.kerberos.kinit.cmd
sasl.kerberos.min.time.before.relogin sasl.kerberos.principal.to.local.rules
sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
sasl.kerberos.ticket.renew.window.factor sasl.login.refresh.buffer.seconds
sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
sasl.login.refresh.window.jitter sasl.mechanism.inter.broker.protocol
share.coordinator.cached.buffer.max.bytes ssl.cipher.suites ssl.client.auth
ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.engine.factory.class
ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain
ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.keystore.type
ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
ssl.truststore.certificates ssl.truststore.location ssl.truststore.password
ssl.truststore.type transaction.partition.verification.enable
"""
_DYNAMIC_IN_KAFKA: Final = frozenset(_KEPT.split())
"""What Kafka's brokers change beside these, and what means nothing here: kept as what
nobody knows is."""

_NO_RETENTION: Final = (
    "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or "
    "equal to 1"
)
"""So Kafka's brokers say; of itself a topic may say 0."""

_VERBS: Final = {Operation.APPEND: "append", Operation.SUBTRACT: "subtract"}


def alter_broker(
    present: Mapping[str, str],
    alterations: Sequence[Alteration],
    holds: Mapping[str, str | None],
) -> dict[str, str]:
    """The configuration after all changes; ``holds`` is what lists start from.

    Raises KafkaError as ``validate_broker``, or for a verb that a key does not have.
    """
    altered = dict(present)
    for name, operation, value in alterations:
        if operation == Operation.DELETE:
            altered.pop(name, None)
        elif operation == Operation.SET:
            assert value is not None
            altered[name] = value
        else:
            altered[name] = _edited(name, operation, value or "", altered, holds)
    return validate_broker(altered, present)


def _edited(
    name: str,
    operation: int,
    value: str,
    present: Mapping[str, str],
    holds: Mapping[str, str | None],
) -> str:
    """The list after APPEND or SUBTRACT."""
    verb = _VERBS.get(Operation(operation)) if operation in tuple(Operation) else None
    if verb is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unknown operations type {operation}"
        )
    key = BROKER_CONFIGS.get(name)
    if key is None:
        why = f"Unknown config name: {names.shown(name)}"
        raise KafkaError(ErrorCode.INVALID_CONFIG, why)
    if key.type is not ConfigType.LIST:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Config value {verb} is not allowed for config key: {name}",
        )
    kept = dict.fromkeys(split_list(present.get(name) or holds.get(name) or ""))
    for one in split_list(value):
        kept.pop(one, None) if verb == "subtract" else kept.setdefault(one)
    return ",".join(kept)


def validate_broker(
    configs: Mapping[str, str], present: Mapping[str, str] = _NONE
) -> dict[str, str]:
    """The same, each a key that can be changed, of its type and allowed.

    Raises KafkaError INVALID_REQUEST naming what is not; what is ``present`` and stays
    was taken once.
    """
    fixed = [
        name
        for name, text in configs.items()
        if _is_fixed(name) and present.get(name) != text
    ]
    if fixed:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Cannot update these configs dynamically: [{', '.join(fixed)}]",
        )
    for name, text in configs.items():
        if name in DYNAMIC:
            try:
                BROKER_CONFIGS[name].parse(text)
            except KafkaError as refused:
                raise KafkaError(ErrorCode.INVALID_REQUEST, refused.message) from None
    if _is_zero(configs.get("log.retention.ms", "")):
        raise KafkaError(ErrorCode.INVALID_REQUEST, _NO_RETENTION)
    return {name: trimmed(text) for name, text in configs.items()}


def _is_zero(text: str) -> bool:
    return integer(trimmed(text)) == 0


def _is_fixed(name: str) -> bool:
    """Whether Kafka knows it and does not change it while a broker runs."""
    if name in BROKER_CONFIGS:
        return name not in DYNAMIC
    return name in OF_BROKER and name not in _DYNAMIC_IN_KAFKA


def topic_overrides(configs: Mapping[str, str]) -> dict[str, str]:
    """What a broker's configuration says for topics that do not say it themselves."""
    return {
        of_topic: configs[name]
        for name, of_topic in OF_TOPICS.items()
        if name in configs
    }
