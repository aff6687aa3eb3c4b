"""The names: each leads to a setting that there is, and none means two things."""

from broker.configuration.kafka_names import (
    KNOWN,
    READ_WITH_LISTENERS,
    SETTING_OF,
    TAKEN,
    name_in_kafka,
    plain,
)
from broker.settings import keys
from broker.topics.broker_configs import BROKER_CONFIGS


def test_each_name_that_is_taken_sets_a_setting_that_there_is() -> None:
    assert set(TAKEN.values()) <= set(keys())
    assert SETTING_OF.items() <= TAKEN.items()


def test_no_name_of_kafkas_is_one_of_ours_that_means_something_else() -> None:
    ours = {plain(key): key for key in keys()}
    same = {KNOWN[name]: ours[name] for name in KNOWN.keys() & ours.keys()}
    assert same == {name: TAKEN[name] for name in same}


def test_every_key_that_clients_are_shown_is_known() -> None:
    shown = {name for name in BROKER_CONFIGS if not name.startswith("lake.")}
    assert {name for name in shown if name_in_kafka(name) != name} == {
        "metadata.version"
    }
    assert name_in_kafka("num.replica.fetchers") == "num.replica.fetchers"
    assert set(KNOWN.values()) >= READ_WITH_LISTENERS


def test_kafkas_spelling_is_told_whatever_was_written() -> None:
    assert name_in_kafka("NUM_PARTITIONS") == "num.partitions"
    assert name_in_kafka("listener.name.x.y") == "listener.name.x.y"
    assert name_in_kafka("num.partition") is None
