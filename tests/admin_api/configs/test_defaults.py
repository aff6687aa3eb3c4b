"""The configurations of a topic to be follow from those of its broker."""

import pytest
from confluent_kafka.admin import ConfigEntry, ConfigSource

from admin_api.configs.defaults import topic_defaults
from broker.topics.configs import TOPIC_CONFIGS

DEFAULT = ConfigSource.DEFAULT_CONFIG.value
STATIC = ConfigSource.STATIC_BROKER_CONFIG.value
DYNAMIC = ConfigSource.DYNAMIC_BROKER_CONFIG.value


def said(name, value, source):
    found = ConfigEntry(name, value)
    found.source = source
    return {name: found}


def test_of_a_broker_that_says_nothing_they_are_kafkas():
    found = topic_defaults({})
    assert list(found) == list(TOPIC_CONFIGS)
    for name, entry in found.items():
        assert entry.value == TOPIC_CONFIGS[name].default
        assert (entry.source, entry.is_default) == (DEFAULT, True)
        assert not entry.is_read_only
        assert not entry.is_sensitive


@pytest.mark.parametrize("source", [STATIC, DYNAMIC])
def test_what_the_broker_says_by_its_own_name_counts(source):
    found = topic_defaults(said("log.retention.ms", "5", source))["retention.ms"]
    assert (found.value, found.source, found.is_default) == ("5", source, False)
    [last] = found.synonyms.values()
    assert (last.name, last.value) == ("log.retention.ms", "604800000")


def test_what_a_broker_was_started_with_may_be_the_default_all_the_same():
    same = said("message.max.bytes", "1048588", STATIC)
    assert topic_defaults(same)["max.message.bytes"].source == DEFAULT


def test_a_key_without_a_name_in_the_broker_is_not_the_brokers_to_say():
    odd = said("lake.retention.ms", "5", STATIC)
    assert topic_defaults(odd)["lake.retention.ms"].value == "-2"
