"""The table of topic configurations."""

import pytest

from broker.protocol.errors import ErrorCode, KafkaError
from broker.topics.configs import (
    TOPIC_CONFIGS,
    TopicConfig,
    text_of,
    validate,
)

KAFKA_4_3 = """
cleanup.policy=delete compression.gzip.level=-1 compression.lz4.level=9
compression.type=producer compression.zstd.level=3 delete.retention.ms=86400000
file.delete.delay.ms=60000 flush.messages=9223372036854775807
flush.ms=9223372036854775807 follower.replication.throttled.replicas=
index.interval.bytes=4096 leader.replication.throttled.replicas=
local.retention.bytes=-2 local.retention.ms=-2
max.compaction.lag.ms=9223372036854775807 max.message.bytes=1048588
message.timestamp.after.max.ms=3600000
message.timestamp.before.max.ms=9223372036854775807 message.timestamp.type=CreateTime
min.cleanable.dirty.ratio=0.5 min.compaction.lag.ms=0 min.insync.replicas=1
preallocate=false remote.log.copy.disable=false remote.log.delete.on.disable=false
remote.storage.enable=false retention.bytes=-1 retention.ms=604800000
segment.bytes=1073741824 segment.index.bytes=10485760 segment.jitter.ms=0
segment.ms=604800000 unclean.leader.election.enable=false
"""


def test_keys_and_defaults_are_those_of_kafka() -> None:
    """As printed by Apache Kafka 4.3.1 (``LogConfig.main``)."""
    wanted = dict(pair.split("=") for pair in KAFKA_4_3.split())
    found = {name: key.default for name, key in TOPIC_CONFIGS.items()}
    ours = {name for name in found if name.startswith("lake.")}
    assert ours == {"lake.flush.max.ms", "lake.retention.ms", "lake.warehouse"}
    assert {name: found[name] for name in found.keys() - ours} == wanted
    assert list(TOPIC_CONFIGS) == sorted(TOPIC_CONFIGS)


def test_every_default_is_allowed() -> None:
    validate({name: key.default for name, key in TOPIC_CONFIGS.items()})


def test_a_policy_that_is_named_twice_counts_once() -> None:
    """As Apache Kafka 4.3.1 shows it afterwards."""
    for given, kept in (
        ("delete,delete", "delete"),
        ("compact,delete,compact", "compact,delete"),
        ("", ""),
    ):
        assert validate({"cleanup.policy": given}) == {"cleanup.policy": kept}
    with pytest.raises(KafkaError, match=r"'cleanup.policy' values must not be empty"):
        validate({"cleanup.policy": "delete,"})


def test_a_topic_may_keep_records_for_no_time() -> None:
    assert validate({"retention.ms": "0"}) == {"retention.ms": "0"}


def test_what_the_broker_says_must_go_together_with_what_the_topic_says() -> None:
    defaults = {"max.compaction.lag.ms": "5"}
    assert validate({"min.compaction.lag.ms": "3"}, defaults)
    with pytest.raises(KafkaError) as refused:
        validate({"min.compaction.lag.ms": "10"}, defaults)
    assert refused.value.code == ErrorCode.INVALID_CONFIG
    assert refused.value.message == (
        "conflict topic config setting min.compaction.lag.ms (10) > "
        "max.compaction.lag.ms (5)"
    )


def test_every_key_is_explained() -> None:
    assert all(key.doc.endswith(".") for key in TOPIC_CONFIGS.values())


def test_the_effective_keys() -> None:
    assert {key.name for key in TOPIC_CONFIGS.values() if key.effective} == {
        "cleanup.policy",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "delete.retention.ms",
        "lake.flush.max.ms",
        "lake.retention.ms",
        "lake.warehouse",
        "max.compaction.lag.ms",
        "max.message.bytes",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "retention.bytes",
        "retention.ms",
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cleanup.policy", "compact,delete"),
        ("cleanup.policy", ""),
        ("retention.ms", "-1"),
        ("retention.bytes", "-1"),
        ("compression.type", "zstd"),
        ("compression.zstd.level", "-131072"),
        ("max.message.bytes", "0"),
        ("message.timestamp.type", "LogAppendTime"),
        ("min.cleanable.dirty.ratio", "1.0"),
        ("leader.replication.throttled.replicas", "*"),
    ],
)
def test_what_kafka_takes_is_taken(name: str, text: str) -> None:
    assert validate({name: f" {text} "}) == {name: text}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cleanup.policy", "compress"),
        ("retention.ms", "-2"),
        ("retention.ms", "1 week"),
        ("compression.type", "brotli"),
        ("compression.type", "ZSTD"),
        ("compression.gzip.level", "0"),
        ("max.message.bytes", "-1"),
        ("max.message.bytes", "2147483648"),
        ("message.timestamp.type", "createtime"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("min.insync.replicas", "0"),
        ("preallocate", "maybe"),
        ("segment.bytes", "1048575"),
        ("leader.replication.throttled.replicas", "a:b"),
        ("remote.storage.enable", "true"),
        ("no.such.key", "1"),
        ("retention.ms", None),
    ],
)
def test_what_kafka_refuses_is_refused(name: str, text: str | None) -> None:
    with pytest.raises(KafkaError) as caught:
        validate({name: text})
    assert caught.value.code == ErrorCode.INVALID_CONFIG


def test_an_unknown_key_is_named() -> None:
    with pytest.raises(KafkaError, match=r"Unknown topic config name: no\.such\.key"):
        validate({"no.such.key": "1"})


def test_an_unknown_key_that_is_long_is_named_in_short() -> None:
    """The answer that names it is a Kafka string as well."""
    with pytest.raises(KafkaError) as caught:
        validate({"x" * 32_767: "1"})
    assert len(caught.value.message) < 300


def test_lags_that_contradict_each_other_are_refused() -> None:
    validate({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"})
    with pytest.raises(KafkaError, match=r"min\.compaction\.lag\.ms \(6\)"):
        validate({"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"})


def test_a_topics_own_setting_is_stronger_than_the_brokers() -> None:
    defaults = {"retention.ms": "7"}
    assert text_of("retention.ms", {"retention.ms": "5"}, defaults) == "5"
    assert text_of("retention.ms", {}, defaults) == "7"
    assert text_of("retention.ms", {}) == "604800000"


def test_the_typed_view() -> None:
    plain = TopicConfig.of({})
    assert (plain.retention_ms, plain.retention_bytes) == (604_800_000, -1)
    assert plain.max_message_bytes == 1_048_588
    assert plain.deleted
    assert not plain.compacted
    assert not plain.log_append_time
    own = TopicConfig.of(
        {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"},
        {"max.message.bytes": "10"},
    )
    assert own.compacted
    assert own.log_append_time
    assert not own.deleted
    assert own.max_message_bytes == 10
