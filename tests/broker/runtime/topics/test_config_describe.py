"""Each key with its value, and with every place that the value could come from."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from broker.runtime.configs.layers import Layers
from broker.runtime.topics.config_describe import (
    Described,
    describe_broker_configs,
    describe_common_configs,
    describe_kept_configs,
    describe_topic_configs,
    join_host_port,
    topic_config,
)
from broker.settings import (
    BrokerSettings,
    GroupSettings,
    LakeSettings,
    NetworkSettings,
    Settings,
    TopicSettings,
    TransactionSettings,
)
from broker.topics.broker_alter import DYNAMIC
from broker.topics.broker_configs import BROKER_CONFIGS
from broker.topics.config_keys import ConfigSource
from broker.topics.configs import TOPIC_CONFIGS
from broker.topics.topic import Topic

OWN, HERE, DEFAULT = (
    ConfigSource.TOPIC_CONFIG,
    ConfigSource.STATIC_BROKER_CONFIG,
    ConfigSource.DEFAULT_CONFIG,
)
NONE: Mapping[str, str] = MappingProxyType({})
SET = Settings(
    data_dir=Path("/the/data"),
    listener="[::]:19092",
    node_id=41,
    broker=BrokerSettings(
        num_partitions=42, auto_create_topics=False, message_max_bytes=43,
        fetch_max_bytes=44, producer_id_expiration_ms=45,
        max_incremental_fetch_session_cache_slots=59,
    ),
    network=NetworkSettings(
        frame_bytes_max=1046, idle_ms=47, connections_max=48,
        connections_per_host_max=49,
    ),
    lake=LakeSettings(retention_check_ms=150, flush_max_ms=60_001),
    groups=GroupSettings(
        initial_rebalance_delay_ms=51, min_session_timeout_ms=52,
        max_session_timeout_ms=53, max_size=54, offset_metadata_max_bytes=55,
        offsets_retention_ms=56 * 60_000 + 59_999, offsets_retention_check_ms=159,
    ),
    transactions=TransactionSettings(max_timeout_ms=57, id_expiration_ms=58),
)  # fmt: skip


def of_broker(
    settings: Settings, own: Mapping[str, str] = NONE, common: Mapping[str, str] = NONE
) -> dict[str, Described]:
    found = describe_broker_configs(Layers(settings, own, common), ("a.host", 9))
    return {one.name: one for one in found}


def of_topic(settings: Settings, **configs: str) -> dict[str, Described]:
    own = {key.replace("_", "."): value for key, value in configs.items()}
    return {one.name: one for one in describe_topic_configs(own, Layers(settings))}


def test_each_setting_is_shown_under_kafkas_name_for_it() -> None:
    shown = {
        name: one.value for name, one in of_broker(SET).items() if one.source == HERE
    }
    assert shown == {
        "node.id": "41", "broker.id": "41", "log.dir": "/the/data", "log.dirs":
        "/the/data", "num.partitions": "42", "auto.create.topics.enable": "false",
        "message.max.bytes": "43", "fetch.max.bytes": "44",
        "max.incremental.fetch.session.cache.slots": "59", "producer.id.expiration.ms":
        "45", "socket.request.max.bytes": "1046", "connections.max.idle.ms": "47",
        "max.connections": "48", "max.connections.per.ip": "49",
        "log.retention.check.interval.ms": "150", "lake.flush.max.ms": "60001",
        "log.cleaner.enable": "true",
        "group.initial.rebalance.delay.ms": "51", "group.min.session.timeout.ms": "52",
        "group.max.session.timeout.ms": "53", "group.max.size": "54",
        "offset.metadata.max.bytes": "55", "offsets.retention.minutes": "56",
        "offsets.retention.check.interval.ms": "159", "telemetry.max.bytes": "1048576",
        "transaction.max.timeout.ms": "57", "transactional.id.expiration.ms": "58",
        "listeners": "PLAINTEXT://[::]:19092", "advertised.listeners":
        "PLAINTEXT://a.host:9",
    }  # fmt: skip


def test_a_key_of_the_broker_says_what_it_would_be_without_the_setting() -> None:
    found = of_broker(SET)
    assert found.keys() == BROKER_CONFIGS.keys()
    changed = {name for name, one in found.items() if not one.read_only}
    assert changed == DYNAMIC
    partitions = found["num.partitions"]
    assert [tuple(one) for one in partitions.synonyms] == [
        ("num.partitions", "42", HERE),
        ("num.partitions", "1", DEFAULT),
    ]
    threads = found["log.cleaner.threads"]
    assert (threads.value, threads.source) == ("1", DEFAULT)
    assert [tuple(one) for one in threads.synonyms] == [
        ("log.cleaner.threads", "1", DEFAULT)
    ]
    assert (threads.type, threads.documentation) == (
        BROKER_CONFIGS["log.cleaner.threads"].type,
        BROKER_CONFIGS["log.cleaner.threads"].documentation,
    )


def test_a_key_that_nothing_says_anything_of_has_no_value_and_no_synonym() -> None:
    rack = of_broker(SET)["broker.rack"]
    assert (rack.value, rack.source, rack.synonyms) == (None, DEFAULT, ())


def test_a_topics_own_value_is_before_the_brokers_and_that_before_kafkas() -> None:
    key = "max.message.bytes"
    limits = [
        of_topic(SET, max_message_bytes="7")[key],
        of_topic(SET)[key],
        of_topic(Settings())[key],
    ]
    chain = [
        (key, "7", OWN),
        ("message.max.bytes", "43", HERE),
        ("message.max.bytes", "1048588", DEFAULT),
    ]
    for number, limit in enumerate(limits):
        assert [tuple(one) for one in limit.synonyms] == chain[number:]
        assert (limit.value, limit.source) == chain[number][1:]


def test_a_topic_has_every_key_and_all_can_be_changed() -> None:
    found = of_topic(SET, retention_ms="5")
    assert found.keys() == TOPIC_CONFIGS.keys()
    assert not any(one.read_only for one in found.values())
    assert [name for name, one in found.items() if one.source == OWN] == [
        "retention.ms"
    ]
    for name, one in found.items():
        key = TOPIC_CONFIGS[name]
        assert (one.type, one.documentation) == (key.type, key.documentation)


def test_what_holds_for_a_topic_is_its_own_value_or_the_brokers() -> None:
    for configs, limit in (({}, 43), ({"max.message.bytes": "7"}, 7)):
        topic = Topic(1, b"i" * 16, "t", 1, configs)
        assert topic_config(topic, Layers(SET)).max_message_bytes == limit


def test_a_topics_table_is_as_fresh_as_the_broker_says_or_the_topic_itself() -> None:
    shown = of_topic(SET)["lake.flush.max.ms"]
    assert (shown.value, shown.source) == ("60001", HERE)
    own = of_topic(SET, lake_flush_max_ms="7")["lake.flush.max.ms"]
    assert (own.value, own.source) == ("7", OWN)
    slow = Settings(lake=LakeSettings(flush_ms=90_000))
    assert of_topic(slow)["lake.flush.max.ms"].value == "90000"


@pytest.mark.parametrize(
    ("host", "text"), [("h", "h:9"), ("1.2.3.4", "1.2.3.4:9"), ("::1", "[::1]:9")]
)
def test_an_address_is_written_so_that_its_port_can_be_told(
    host: str, text: str
) -> None:
    assert join_host_port(host, 9) == text


def test_what_clients_have_set_is_before_all_else_and_says_of_whom() -> None:
    key = "message.max.bytes"
    chain = [
        (key, "1", ConfigSource.DYNAMIC_BROKER_CONFIG),
        (key, "2", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (key, "43", HERE),
        (key, "1048588", DEFAULT),
    ]
    for own, common, first in (({key: "1"}, {key: "2"}, 0), ({}, {key: "2"}, 1)):
        found = of_broker(SET, own, common)[key]
        assert [tuple(one) for one in found.synonyms] == chain[first:]
        assert (found.value, found.source) == chain[first][1:]
        layers = Layers(SET, own, common)
        of_topics = {one.name: one for one in describe_topic_configs({}, layers)}
        shown = of_topics["max.message.bytes"].synonyms
        assert [tuple(one) for one in shown] == chain[first:]


def test_of_what_nobody_knows_the_value_is_not_shown() -> None:
    secret = of_broker(SET, {"no.such": "x"}, {"no.such": "y"})["no.such"]
    assert (secret.value, secret.sensitive, secret.read_only) == (None, True, True)
    assert [one.value for one in secret.synonyms] == [None, None]
    [common] = describe_common_configs(Layers(SET, {}, {"no.such": "y"}))
    assert (common.value, common.sensitive) == (None, True)


def test_of_all_brokers_that_alone_is_told_that_was_set() -> None:
    assert describe_common_configs(Layers(SET, {"max.connections": "1"}, {})) == []
    [one] = describe_common_configs(Layers(SET, {}, {"max.connections": "9"}))
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    assert (one.name, one.value, one.source) == ("max.connections", "9", source)


def test_groups_and_client_metrics_have_their_keys_whether_they_are_or_not() -> None:
    found = {one.name: one for one in describe_kept_configs(16, {"metrics": "a"})}
    assert found["interval.ms"].value == "300000"
    assert found["metrics"].source is ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG
    key = "consumer.session.timeout.ms"
    of_group = {one.name: one for one in describe_kept_configs(32, {key: "50000"})}
    assert [tuple(one) for one in of_group[key].synonyms] == [
        (key, "50000", ConfigSource.DYNAMIC_GROUP_CONFIG),
        (f"group.{key}", "45000", DEFAULT),
    ]


def test_what_the_settings_say_for_topics_is_shown_where_it_is_not_kafkas() -> None:
    settings = Settings(topics=TopicSettings(retention_ms=7, retention_bytes=-1))
    shown = of_broker(settings)
    assert (shown["log.retention.ms"].value, shown["log.retention.ms"].source) == (
        "7",
        HERE,
    )
    assert shown["log.retention.bytes"].source == DEFAULT
    kept = of_topic(settings)["retention.ms"]
    assert [tuple(one) for one in kept.synonyms] == [
        ("log.retention.ms", "7", HERE),
        ("log.retention.ms", "604800000", DEFAULT),
    ]
    topic = Topic(1, b"i" * 16, "t", 1, {})
    assert topic_config(topic, Layers(settings)).retention_ms == 7
