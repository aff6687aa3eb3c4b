"""The configuration of a broker, as tools ask for it."""

import pytest

from broker.topics.broker_configs import BROKER_CONFIGS
from broker.topics.config_keys import ConfigType
from broker.topics.configs import TOPIC_CONFIGS


@pytest.mark.parametrize(
    "name",
    [
        "message.max.bytes",
        "log.retention.ms",
        "log.retention.hours",
        "log.retention.bytes",
        "log.segment.bytes",
        "log.cleanup.policy",
        "num.partitions",
        "default.replication.factor",
        "auto.create.topics.enable",
        "delete.topic.enable",
        "inter.broker.protocol.version",
        "metadata.version",
        "compression.type",
        "min.insync.replicas",
        "log.dirs",
    ],
)
def test_what_tools_look_for_is_there(name: str) -> None:
    assert name in BROKER_CONFIGS


def test_every_default_is_of_its_type() -> None:
    for key in BROKER_CONFIGS.values():
        if key.default is not None:
            key.parse(key.default)
        assert key.doc.endswith(".")


def test_every_source_of_a_topics_default_is_a_key() -> None:
    named = {name for key in TOPIC_CONFIGS.values() for name in key.synonyms}
    assert named <= BROKER_CONFIGS.keys()
    assert list(BROKER_CONFIGS) == sorted(BROKER_CONFIGS)


def test_types_are_those_of_kafka() -> None:
    assert BROKER_CONFIGS["log.retention.ms"].type is ConfigType.LONG
    assert BROKER_CONFIGS["log.cleanup.policy"].type is ConfigType.LIST
    assert BROKER_CONFIGS["log.retention.hours"].default == "168"
    assert BROKER_CONFIGS["log.retention.ms"].default is None
