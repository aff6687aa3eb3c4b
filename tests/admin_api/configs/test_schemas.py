"""Configurations have the fields of Confluent's published document."""

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigSource

from admin_api.configs.schemas import (
    Alteration,
    BrokerConfig,
    ClusterConfig,
    Config,
    TopicConfig,
    _synonyms,
    value_fields,
)
from admin_api.problems import Problem

COMMON = {
    "kind",
    "metadata",
    "cluster_id",
    "name",
    "value",
    "is_default",
    "is_read_only",
    "is_sensitive",
    "source",
    "synonyms",
}


def test_each_owner_adds_its_name():
    assert set(Config.model_fields) == COMMON
    assert set(TopicConfig.model_fields) == COMMON | {"topic_name"}
    assert set(BrokerConfig.model_fields) == COMMON | {"broker_id"}
    assert set(ClusterConfig.model_fields) == COMMON | {"config_type"}


def test_an_entry_tells_its_source_and_its_synonyms():
    own = ConfigEntry("x", "2", ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
    default = ConfigEntry("log.x", "1", ConfigSource.DEFAULT_CONFIG.value)
    entry = ConfigEntry(
        "x",
        "2",
        ConfigSource.DYNAMIC_TOPIC_CONFIG.value,
        is_read_only=True,
        synonyms={"x": own, "log.x": default},
    )
    found = value_fields(entry)
    _, synonym = found.pop("synonyms")
    assert found == {
        "name": "x",
        "value": "2",
        "is_default": False,
        "is_read_only": True,
        "is_sensitive": False,
        "source": "DYNAMIC_TOPIC_CONFIG",
    }
    assert synonym.model_dump() == {
        "name": "log.x",
        "value": "1",
        "source": "DEFAULT_CONFIG",
    }


@pytest.mark.parametrize(
    ("asked", "source", "named"),
    [
        ("log.x", ConfigSource.DYNAMIC_BROKER_CONFIG, "log.x"),
        ("x", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, "log.x"),
        ("x", ConfigSource.DYNAMIC_TOPIC_CONFIG, "x"),
    ],
)
def test_the_source_that_counts_is_a_synonym_where_another_took_its_name(
    asked, source, named
):
    """As librdkafka's client gives them, by name."""
    default = ConfigEntry("log.x", "1", ConfigSource.DEFAULT_CONFIG.value)
    entry = ConfigEntry(asked, "2", source.value, synonyms={"log.x": default})
    found = [(one.name, one.value, one.source) for one in _synonyms(entry)]
    assert found == [(named, "2", source.name), ("log.x", "1", "DEFAULT_CONFIG")]


def test_a_source_that_nobody_knows_is_unknown():
    assert value_fields(ConfigEntry("x", "2"))["source"] == "UNKNOWN"


@pytest.mark.parametrize(
    ("said", "operation"),
    [
        ({"value": "1"}, AlterConfigOpType.SET),
        ({"value": "1", "operation": None}, AlterConfigOpType.SET),
        ({"operation": "DELETE"}, AlterConfigOpType.DELETE),
    ],
)
def test_an_alteration_sets_unless_it_deletes(said, operation):
    entry = Alteration.model_validate({"name": "x", **said}).entry()
    assert (entry.name, entry.incremental_operation) == ("x", operation)
    assert entry.value == said.get("value")


@pytest.mark.parametrize("said", [{}, {"value": None}, {"operation": "SET"}])
def test_nothing_is_set_to_null(said):
    with pytest.raises(Problem, match="Null value not supported for x"):
        Alteration.model_validate({"name": "x", **said}).entry()
