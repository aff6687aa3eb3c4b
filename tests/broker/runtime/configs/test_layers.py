"""This broker's dynamic values before those of all, those before the start's."""

import pytest

from broker.runtime.configs.layers import SETTINGS_CHANGED, Layers
from broker.settings import BrokerSettings, Settings, TopicSettings
from broker.topics.broker_alter import DYNAMIC

GIVEN = Settings(broker=BrokerSettings(message_max_bytes=43))


@pytest.mark.parametrize("name", SETTINGS_CHANGED)
def test_a_dynamic_value_replaces_the_setting(name):
    group, field = SETTINGS_CHANGED[name]
    assert name in DYNAMIC
    for layers, value in (
        (Layers(GIVEN, {name: "5"}, {name: "6"}), 5),
        (Layers(GIVEN, {}, {name: "6"}), 6),
        (Layers(GIVEN), getattr(getattr(GIVEN, group), field)),
    ):
        assert getattr(getattr(layers.settings, group), field) == value
    assert layers.given is GIVEN


def test_topics_get_what_the_broker_says():
    key = "max.message.bytes"
    assert Layers(GIVEN).topic_defaults[key] == "43"
    changed = Layers(GIVEN, {"message.max.bytes": "7"}, {"log.retention.ms": "8"})
    assert changed.topic_defaults[key] == "7"
    assert changed.topic_defaults["retention.ms"] == "8"


def test_topics_get_what_the_settings_say_unless_clients_have_changed_it():
    given = Settings(topics=TopicSettings(retention_ms=5, cleanup_policy="compact"))
    started = Layers(given).topic_defaults
    assert (started["retention.ms"], started["cleanup.policy"]) == ("5", "compact")
    changed = Layers(given, {"log.retention.ms": "8"}).topic_defaults
    assert (changed["retention.ms"], changed["cleanup.policy"]) == ("8", "compact")
