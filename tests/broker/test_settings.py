"""Settings: what there is, and that it stays."""

import pytest

from broker import settings
from broker.configuration.kafka_names import plain
from broker.configuration.loading import load
from broker.configuration.values import SettingsError
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


def test_a_connection_may_be_silent_for_some_time() -> None:
    """Kafka does not start with 0 either."""
    assert load({"network.idle_ms": 1}, environment=NOWHERE).network.idle_ms == 1
    with pytest.raises(SettingsError, match="greater than or equal to 1"):
        load({"connections.max.idle.ms": "0"}, environment=NOWHERE)
