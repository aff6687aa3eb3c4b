"""The configuration of a topic: one table, every key of Kafka's.

The problem. Tools read and write topic configurations by name: Connect refuses to start
unless ``cleanup.policy`` is there, consoles draw ``retention.ms``, scripts set keys of
replication that mean nothing here. A key that is missing breaks them; a key that is
silently ignored misleads people.

The idea. One table with all keys of Apache Kafka 4.3 (``LogConfig``, ``TopicConfig``)
and those of a topic's table, which begin with ``lake.``: name, type, default, what is
allowed, which broker keys give the default. Everything is validated and stored as in
Kafka. ``effective`` says what has an effect here, and the documentation that clients
see says so too.

A new key is one row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from broker.protocol.errors import ErrorCode, KafkaError
from broker.topics import names
from broker.topics.config_keys import (
    LONG_MAX,
    ConfigKey,
    ConfigType,
    Value,
    at_least,
    between,
    one_of,
    some_of,
    throttled_replicas,
    warehouse_name,
)
from broker.topics.spellings import shown
from lakehouse import warehouse_names

_BOOLEAN, _STRING, _LIST = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.LIST
_INT, _LONG, _DOUBLE = ConfigType.INT, ConfigType.LONG, ConfigType.DOUBLE
_NONE: Final[Mapping[str, str]] = MappingProxyType({})

LAKE_FLUSH_MAX_MS: Final = "lake.flush.max.ms"
LAKE_RETENTION_MS: Final = "lake.retention.ms"
LAKE_WAREHOUSE: Final = warehouse_names.CONFIG
AS_THE_LOG: Final = -2
FOR_EVER: Final = -1

PRODUCER: Final = "producer"
CODECS: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", PRODUCER)

_TABLE: Final = (
    ConfigKey(
        "cleanup.policy", _LIST, "delete",
        "What becomes of old records: 'delete' removes them by retention.ms and "
        "retention.bytes, 'compact' keeps the last of each key, an empty list keeps "
        "everything. What was compacted is so in the topic's table.",
        some_of("compact", "delete"), ("log.cleanup.policy",), effective=True,
        is_set=True,
    ),
    ConfigKey(
        "compression.gzip.level", _INT, "-1",
        "The level when the broker compresses with gzip.",
        between(1, 9, also=-1), ("compression.gzip.level",), effective=True,
    ),
    ConfigKey(
        "compression.lz4.level", _INT, "9",
        "The level when the broker compresses with lz4.",
        between(1, 17), ("compression.lz4.level",), effective=True,
    ),
    ConfigKey(
        "compression.type", _STRING, PRODUCER,
        "The codec of stored batches. 'producer' keeps them as they came; any other "
        "compresses what comes in another codec anew.",
        one_of(*CODECS), ("compression.type",), effective=True,
    ),
    ConfigKey(
        "compression.zstd.level", _INT, "3",
        "The level when the broker compresses with zstd.",
        between(-131_072, 22), ("compression.zstd.level",), effective=True,
    ),
    ConfigKey(
        "delete.retention.ms", _LONG, "86400000",
        "How long a tombstone stays in a compacted topic, from the time on when it was "
        "first compacted; up to an eighth longer.",
        at_least(0), ("log.cleaner.delete.retention.ms",), effective=True,
    ),
    ConfigKey(
        "file.delete.delay.ms", _LONG, "60000",
        "How long a deleted file stays in the file system.",
        at_least(0), ("log.segment.delete.delay.ms",),
    ),
    ConfigKey(
        "flush.messages", _LONG, str(LONG_MAX),
        "After how many records to force an fsync. Every acknowledged batch is on "
        "disk in any case.",
        at_least(1), ("log.flush.interval.messages",),
    ),
    ConfigKey(
        "flush.ms", _LONG, str(LONG_MAX),
        "After what time to force an fsync. Every acknowledged batch is on disk in "
        "any case.",
        at_least(0), ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ),
    ConfigKey(
        "follower.replication.throttled.replicas", _LIST, "",
        "Replicas whose following is throttled.", throttled_replicas,
    ),
    ConfigKey(
        "index.interval.bytes", _INT, "4096",
        "How often an entry is added to the offset index; here every batch is in it.",
        at_least(0), ("log.index.interval.bytes",),
    ),
    ConfigKey(
        LAKE_FLUSH_MAX_MS, _LONG, "60000",
        "At what age records go to the topic's table at the latest. What flows goes "
        "sooner; what trickles waits so long, since each time makes a file of each "
        "partition.",
        at_least(0), (LAKE_FLUSH_MAX_MS,), effective=True,
    ),
    ConfigKey(
        LAKE_RETENTION_MS, _LONG, str(AS_THE_LOG),
        "How long a record's row stays in the topic's table, from its timestamp on; "
        "never shorter than consumers can read it. -1 is for ever, -2 is as long as "
        "they can.",
        at_least(AS_THE_LOG), effective=True,
    ),
    ConfigKey(
        LAKE_WAREHOUSE, _STRING, "",
        "Which of the broker's lake.warehouses the topic's table lies in, by its name; "
        "where the others lie if it names none. Set when the topic is created, and "
        "never changed.",
        warehouse_name, effective=True,
    ),
    ConfigKey(
        "leader.replication.throttled.replicas", _LIST, "",
        "Replicas whose leading is throttled.", throttled_replicas,
    ),
    ConfigKey(
        "local.retention.bytes", _LONG, "-2",
        "Bytes kept locally of a topic with remote storage; -2 is retention.bytes.",
        at_least(-2), ("log.local.retention.bytes",),
    ),
    ConfigKey(
        "local.retention.ms", _LONG, "-2",
        "Time kept locally of a topic with remote storage; -2 is retention.ms.",
        at_least(-2), ("log.local.retention.ms",),
    ),
    ConfigKey(
        "max.compaction.lag.ms", _LONG, str(LONG_MAX),
        "After what time a record must be compacted.",
        at_least(1), ("log.cleaner.max.compaction.lag.ms",), effective=True,
    ),
    ConfigKey(
        "max.message.bytes", _INT, "1048588",
        "The largest record batch that is accepted, as it is sent: after compression "
        "and with its header.",
        at_least(0), ("message.max.bytes",), effective=True,
    ),
    ConfigKey(
        "message.timestamp.after.max.ms", _LONG, "3600000",
        "How far a producer's timestamp may lie after the broker's time.",
        at_least(0), ("log.message.timestamp.after.max.ms",), effective=True,
    ),
    ConfigKey(
        "message.timestamp.before.max.ms", _LONG, str(LONG_MAX),
        "How far a producer's timestamp may lie before the broker's time.",
        at_least(0), ("log.message.timestamp.before.max.ms",), effective=True,
    ),
    ConfigKey(
        "message.timestamp.type", _STRING, "CreateTime",
        "Whose time a record bears: the producer's (CreateTime) or the broker's "
        "(LogAppendTime).",
        one_of("CreateTime", "LogAppendTime"), ("log.message.timestamp.type",),
        effective=True,
    ),
    ConfigKey(
        "min.cleanable.dirty.ratio", _DOUBLE, "0.5",
        "What share of a log must be dirty before it is compacted; here, of the bytes "
        "of its table.",
        between(0, 1), ("log.cleaner.min.cleanable.ratio",), effective=True,
    ),
    ConfigKey(
        "min.compaction.lag.ms", _LONG, "0",
        "Before what time a record is not compacted.",
        at_least(0), ("log.cleaner.min.compaction.lag.ms",), effective=True,
    ),
    ConfigKey(
        "min.insync.replicas", _INT, "1",
        "How many replicas must have a batch before it is acknowledged with acks=all. "
        "There is one replica, and it syncs its disk.",
        at_least(1), ("min.insync.replicas",),
    ),
    ConfigKey(
        "preallocate", _BOOLEAN, "false",
        "Whether segment files are written out ahead; here they always are.",
        synonyms=("log.preallocate",),
    ),
    ConfigKey(
        "remote.log.copy.disable", _BOOLEAN, "false",
        "Whether segments are no longer copied to remote storage.",
    ),
    ConfigKey(
        "remote.log.delete.on.disable", _BOOLEAN, "false",
        "Whether remote segments are deleted when remote storage is switched off.",
    ),
    ConfigKey(
        "remote.storage.enable", _BOOLEAN, "false",
        "Kafka's tiered storage. It cannot be switched on: a topic's table is where "
        "its old records are.",
    ),
    ConfigKey(
        "retention.bytes", _LONG, "-1",
        "How many bytes a partition keeps before its oldest records are deleted; -1 "
        "is no limit.",
        synonyms=("log.retention.bytes",), effective=True,
    ),
    ConfigKey(
        "retention.ms", _LONG, "604800000",
        "How long a record is kept; -1 is for ever.",
        at_least(-1),
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        effective=True,
    ),
    ConfigKey(
        "segment.bytes", _INT, "1073741824",
        "The size of a segment file; here all topics share the write-ahead segments.",
        at_least(1 << 20), ("log.segment.bytes",),
    ),
    ConfigKey(
        "segment.index.bytes", _INT, "10485760",
        "The size of a segment's offset index.",
        at_least(4), ("log.index.size.max.bytes",),
    ),
    ConfigKey(
        "segment.jitter.ms", _LONG, "0",
        "By how much the rolling of segments is scattered.",
        at_least(0), ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ),
    ConfigKey(
        "segment.ms", _LONG, "604800000",
        "After what time a segment is rolled; here the write-ahead segments are.",
        at_least(1), ("log.roll.ms", "log.roll.hours"),
    ),
    ConfigKey(
        "unclean.leader.election.enable", _BOOLEAN, "false",
        "Whether a replica that is behind may lead.",
        synonyms=("unclean.leader.election.enable",),
    ),
)  # fmt: skip

TOPIC_CONFIGS: Final[Mapping[str, ConfigKey]] = MappingProxyType(
    {key.name: key for key in _TABLE}
)
"""Every key of a topic, by name, in the order of names."""


def key(name: str) -> ConfigKey:
    """The key of that name. Raises KafkaError INVALID_CONFIG if there is none."""
    found = TOPIC_CONFIGS.get(name)
    if found is None:
        why = f"Unknown topic config name: {names.shown(name)}"
        raise KafkaError(ErrorCode.INVALID_CONFIG, why)
    return found


def validate(
    configs: Mapping[str, str | None], defaults: Mapping[str, str] = _NONE
) -> dict[str, str]:
    """The same settings, every one of them known, of its type and allowed; as Kafka
    would show them. ``defaults``: the broker's, for what they do not say.

    Raises KafkaError INVALID_CONFIG naming the first that is not, or two that do not
    go together (``LogConfig.validate``).
    """
    checked: dict[str, str] = {}
    for name, text in configs.items():
        known = key(name)
        if text is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Null value not supported for topic configs: {name}",
            )
        checked[name] = shown(known.parse(text))
    _validate_together(checked, defaults)
    return checked


def _validate_together(configs: Mapping[str, str], defaults: Mapping[str, str]) -> None:
    low, high = (
        value(f"{end}.compaction.lag.ms", configs, defaults) for end in ("min", "max")
    )
    assert isinstance(low, int)
    assert isinstance(high, int)
    if low > high:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({low}) > "
            f"max.compaction.lag.ms ({high})",
        )
    if value("remote.storage.enable", configs):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        )


def text_of(
    name: str, configs: Mapping[str, str], defaults: Mapping[str, str] = _NONE
) -> str:
    """What holds for a topic: its own setting, the broker's default, Kafka's."""
    known = TOPIC_CONFIGS[name]
    assert known.default is not None, "every key of a topic has a default"
    return configs.get(name, defaults.get(name, known.default))


def value(
    name: str, configs: Mapping[str, str], defaults: Mapping[str, str] = _NONE
) -> Value:
    """``text_of``, parsed. The settings are ours, and valid."""
    return TOPIC_CONFIGS[name].parse(text_of(name, configs, defaults))


def waits_for_table(configs: Mapping[str, str]) -> bool:
    """Whether a topic's table keeps what the log does not: it has to go there first."""
    return value(LAKE_RETENTION_MS, configs) != AS_THE_LOG


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """What holds for a topic, typed, for code that acts on it."""

    retention_ms: int
    retention_bytes: int
    max_message_bytes: int
    message_timestamp_type: str
    message_timestamp_before_max_ms: int
    message_timestamp_after_max_ms: int
    cleanup_policy: tuple[str, ...]
    file_delete_delay_ms: int
    lake_flush_max_ms: int
    lake_retention_ms: int = AS_THE_LOG
    compression_type: str = PRODUCER
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3

    @classmethod
    def of(
        cls, configs: Mapping[str, str], defaults: Mapping[str, str] = _NONE
    ) -> "TopicConfig":
        """From a topic's own settings and the broker's defaults, both by topic key."""
        values: dict[str, Any] = {
            field: value(field.replace("_", "."), configs, defaults)
            for field in cls.__dataclass_fields__
        }
        return cls(**values)

    @property
    def log_append_time(self) -> bool:
        """Whether the broker stamps records."""
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def compacted(self) -> bool:
        """Whether records need a key."""
        return "compact" in self.cleanup_policy

    @property
    def waits_for_table(self) -> bool:
        """As `waits_for_table`."""
        return self.lake_retention_ms != AS_THE_LOG

    @property
    def compression_level(self) -> int | None:
        """The level of the codec in ``compression_type``; None: it has none."""
        levels = {
            "gzip": self.compression_gzip_level,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }
        return levels.get(self.compression_type)

    @property
    def deleted(self) -> bool:
        """Whether retention deletes records."""
        return "delete" in self.cleanup_policy
