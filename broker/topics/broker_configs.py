"""The configuration of a broker, as clients ask for it.

Consoles and tools describe a broker to learn its limits and its version: they look for
``message.max.bytes``, ``log.retention.hours``, ``inter.broker.protocol.version``. This
is the list of what they may look for, with the types and defaults of Apache Kafka 4.3,
or with what is true here where Kafka's default would not be (one replica). What is
really set here is laid over it by whoever knows the settings, and what clients have
changed over that (``broker_alter.py``). Keys of what this broker has not (controllers,
replicas, TLS, SASL, quotas) are left out, apart from those that tools read anyway.

The keys that give topics their defaults (``log.retention.ms`` and so on) follow from
the topics' own table.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from broker.topics.config_keys import LONG_MAX, ConfigKey, ConfigType, at_least
from broker.topics.configs import TOPIC_CONFIGS

METADATA_VERSION: Final = "4.3"
"""The release of Kafka whose behaviour is followed: tools print it as the version."""

_TEXT: Final = """
advertised.listeners | list | | Where clients are told to connect to.
authorizer.class.name | string | | Who decides what a client may: nobody.
auto.create.topics.enable | boolean | true | Whether asking for a topic creates it.
broker.id | int | -1 | This node's number.
broker.rack | string | | Where this node stands.
connections.max.idle.ms | long | 600000 | After what silence a connection is closed.
connections.max.reauth.ms | long | 0 | After what time a client authenticates again.
default.replication.factor | int | 1 | Replicas of a new topic.
delete.topic.enable | boolean | true | Whether topics can be deleted.
fetch.max.bytes | int | 57671680 | The largest answer to a fetch.
group.coordinator.rebalance.protocols | list | classic | Group protocols served.
group.initial.rebalance.delay.ms | int | 3000 | How long an empty group waits.
group.max.session.timeout.ms | int | 1800000 | The longest session of a member.
group.max.size | int | 2147483647 | How many members a group may have.
group.min.session.timeout.ms | int | 6000 | The shortest session of a member.
inter.broker.listener.name | string | PLAINTEXT | The listener of other brokers.
inter.broker.protocol.version | string | {version} | Whose behaviour is followed.
listener.security.protocol.map | string | PLAINTEXT:PLAINTEXT | Their security.
listeners | list | PLAINTEXT://:9092 | Where connections are accepted.
log.cleaner.backoff.ms | long | 15000 | How long an idle cleaner waits: kept alone.
log.cleaner.enable | boolean | true | Whether topics are compacted.
log.cleaner.threads | int | 1 | Threads that compact.
log.dir | string | | Where all data lives.
log.dirs | list | | Where all data lives.
log.flush.offset.checkpoint.interval.ms | int | 60000 | How often ends are kept.
log.flush.start.offset.checkpoint.interval.ms | int | 60000 | How often starts are kept.
log.message.format.version | string | {version} | Stored batches have magic 2.
log.retention.check.interval.ms | long | 300000 | How often retention is applied.
log.retention.hours | int | 168 | Default of retention.ms, in hours.
log.retention.minutes | int | | Default of retention.ms, in minutes.
log.roll.hours | int | 168 | Default of segment.ms, in hours.
log.roll.jitter.hours | int | 0 | Default of segment.jitter.ms, in hours.
max.connection.creation.rate | int | 2147483647 | Connections accepted in a second.
max.connections | int | 2147483647 | How many connections may be open.
max.connections.per.ip | int | 2147483647 | How many of one address.
max.incremental.fetch.session.cache.slots | int | 1000 | How many fetch sessions.
max.request.partition.size.limit | int | 2000 | Partitions in one description.
metadata.version | string | {version} | Whose behaviour is followed.
node.id | int | 1 | This node's number.
num.io.threads | int | 1 | Threads that answer requests: one event loop.
num.network.threads | int | 1 | Threads that serve connections: the same one.
num.partitions | int | 1 | Partitions of a topic that does not say how many.
num.recovery.threads.per.data.dir | int | 1 | Threads that recover at start.
num.replica.fetchers | int | 1 | Threads that replicate.
offset.metadata.max.bytes | int | 4096 | The longest metadata of a committed offset.
offsets.retention.check.interval.ms | long | 600000 | How often offsets are looked over.
offsets.retention.minutes | int | 10080 | How long an empty group's offsets are kept.
offsets.topic.num.partitions | int | 50 | Offsets are in the catalog, in no topic.
offsets.topic.replication.factor | short | 1 | Offsets are in the catalog, in no topic.
process.roles | list | broker,controller | What this process is.
producer.id.expiration.ms | int | 86400000 | When an idle producer is forgotten.
queued.max.requests | int | 500 | Requests that may wait.
replica.fetch.max.bytes | int | 1048576 | What a replica fetches at once.
replica.lag.time.max.ms | long | 30000 | When a replica is behind.
request.timeout.ms | int | 30000 | How long a request may take.
security.inter.broker.protocol | string | PLAINTEXT | Security between brokers.
socket.listen.backlog.size | int | 50 | Connections that may wait to be accepted.
socket.receive.buffer.bytes | int | 102400 | A socket's receive buffer.
socket.request.max.bytes | int | 104857600 | The largest request.
socket.send.buffer.bytes | int | 102400 | A socket's send buffer.
telemetry.max.bytes | int | 1048576 | The largest push of a client's metrics.
transaction.max.timeout.ms | int | 900000 | The longest transaction.
transaction.state.log.min.isr | int | 1 | Transactions are in no topic.
transaction.state.log.num.partitions | int | 50 | Transactions are in no topic.
transaction.state.log.replication.factor | short | 1 | Transactions are in no topic.
transactional.id.expiration.ms | int | 604800000 | When an idle transactional id ends.
"""

_UNSET_BY_TIME: Final = frozenset(
    {
        "log.retention.ms",
        "log.roll.ms",
        "log.roll.jitter.ms",
        "log.flush.interval.ms",
    }
)
"""Keys without a default of their own in Kafka: hours or a scheduler stand in."""


_CHECKS: Final = {
    name: at_least(1)
    for name in (
        "log.cleaner.threads", "max.connection.creation.rate", "max.connections",
        "max.connections.per.ip",
        "num.io.threads", "num.network.threads", "num.recovery.threads.per.data.dir",
        "num.replica.fetchers", "producer.id.expiration.ms",
    )
} | {"log.cleaner.backoff.ms": at_least(0)}  # fmt: skip
"""Of keys that clients can change. Kafka takes 0 for ``max.connections.per.ip``, which
locks everybody out here: there are no addresses that are excepted. Of
``log.cleaner.threads`` it says of 0 that it cannot divide by zero."""


def _table() -> dict[str, ConfigKey]:
    keys: dict[str, ConfigKey] = {}
    for line in _TEXT.strip().splitlines():
        name, kind, default, doc = (part.strip() for part in line.split("|"))
        keys[name] = ConfigKey(
            name,
            ConfigType[kind.upper()],
            default.format(version=METADATA_VERSION) or None,
            doc,
            _CHECKS.get(name),
            effective=True,
        )
    return keys


def _of_topics() -> dict[str, ConfigKey]:
    """The keys that give topics their defaults, in the type of the topic's key."""
    keys: dict[str, ConfigKey] = {}
    for key in TOPIC_CONFIGS.values():
        if key.synonyms:
            name = key.synonyms[0]
            default = None if name in _UNSET_BY_TIME else key.default
            keys[name] = ConfigKey(
                name, key.type, default, f"Default of the topics' {key.name}.",
                key.check, effective=key.effective, is_set=key.is_set,
            )  # fmt: skip
    keys["log.flush.scheduler.interval.ms"] = ConfigKey(
        "log.flush.scheduler.interval.ms",
        ConfigType.LONG,
        str(LONG_MAX),
        "Default of the topics' flush.ms.",
    )
    return keys


BROKER_CONFIGS: Final[Mapping[str, ConfigKey]] = MappingProxyType(
    dict(sorted({**_table(), **_of_topics()}.items()))
)
"""Every key of a broker that is told to clients, by name, in the order of names."""
