"""Settings: what there is, and that it stays."""

from pathlib import Path

import pytest
from annotated_types import Ge
from pydantic import BeforeValidator

from broker import settings
from broker.configuration.kafka_names import plain
from broker.configuration.loading import load
from broker.setting_values import SettingsError
from broker.topics.configs import TOPIC_CONFIGS

NOWHERE: dict[str, str] = {}


def test_no_two_settings_differ_in_dots_alone() -> None:
    known = settings.keys()
    assert len({plain(key) for key in known}) == len(known)


def test_settings_do_not_change() -> None:
    found = load(environment=NOWHERE)
    with pytest.raises(ValueError):
        found.node_id = 2


def test_every_setting_says_what_it_is_for() -> None:
    rows = settings.schema()
    assert all(row["description"] for row in rows)
    described = settings.describe(load({"node_id": 5}, environment=NOWHERE))
    assert list(described) == [row["key"] for row in rows]
    assert described["node_id"] == 5


def test_what_holds_for_topics_is_kafkas_default_of_each_configuration() -> None:
    configs = settings.TopicSettings().configs
    assert configs == {name: TOPIC_CONFIGS[name].default for name in configs}


@pytest.mark.parametrize(
    ("name", "largest"),
    [
        ("node_id", 2**31 - 1),
        ("message.max.bytes", 2**31 - 1),
        ("lake.flush.max.ms", 2**63 - 1),
        ("lake.flush_ms", 2**63 - 1),
    ],
)
def test_what_no_answer_to_a_client_can_hold_is_refused(
    name: str, largest: int
) -> None:
    load({name: str(largest)}, environment=NOWHERE)
    with pytest.raises(SettingsError, match=name):
        load({name: str(largest + 1)}, environment=NOWHERE)


@pytest.mark.parametrize("name", ["node_id", "node.id", "broker.id"])
def test_a_brokers_number_is_not_negative(name: str) -> None:
    assert load({name: "0"}, environment=NOWHERE).node_id == 0
    with pytest.raises(SettingsError, match="greater than or equal to 0"):
        load({name: "-1"}, environment=NOWHERE)


@pytest.mark.parametrize(
    ("key", "least"),
    [
        ("network.idle_ms", 1),  # Kafka does not start with 0 either
        ("lake.follow_ms", 10),
        ("lake.retention_check_ms", 100),
        ("groups.offsets_retention_check_ms", 100),
    ],
)
def test_what_is_done_again_and_again_is_done_after_a_pause(
    key: str, least: int
) -> None:
    assert load({key: least}, environment=NOWHERE)
    with pytest.raises(SettingsError, match=f"greater than or equal to {least}"):
        load({key: least - 1}, environment=NOWHERE)


def test_no_setting_has_two_lowest_values() -> None:
    """Of two that pydantic is given at once it takes one, and not the higher."""
    groups = [field.annotation for field in settings.Settings.model_fields.values()]
    models = [one for one in groups if isinstance(one, type)]
    fields = [
        field
        for model in models
        for field in getattr(model, "model_fields", {}).values()
    ]
    assert len(fields) > 50
    for field in fields:
        plain_bounds = [one for one in field.metadata if isinstance(one, Ge)]
        is_checked_before = any(isinstance(o, BeforeValidator) for o in field.metadata)
        assert len(plain_bounds) < 2 or is_checked_before, field


def test_further_warehouses_have_names() -> None:
    given = {"lake.warehouses": "fast=/mnt/a b, slow=/mnt/c"}
    found = load(given, environment=NOWHERE).lake
    assert found.further == {"fast": Path("/mnt/a b"), "slow": Path("/mnt/c")}
    assert load({}, environment=NOWHERE).lake.further == {}
