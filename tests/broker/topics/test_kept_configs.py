"""Configurations of groups and of client metrics; Kafka's own answers are in
clients/."""

import pytest

from broker.protocol.errors import KafkaError
from broker.topics.config_alter import Alteration, Operation
from broker.topics.kept_configs import (
    CLIENT_METRICS_CONFIGS,
    GROUP_CONFIGS,
    alter_kept,
    patterns,
    validate_client_metrics,
    validate_group,
)


def test_every_default_is_allowed():
    for keys, validate in (
        (CLIENT_METRICS_CONFIGS, validate_client_metrics),
        (GROUP_CONFIGS, validate_group),
    ):
        defaults = {key.name: key.default or "" for key in keys.values()}
        assert validate(defaults) == defaults


@pytest.mark.parametrize(
    ("configs", "code"),
    [
        ({"interval.ms": "99"}, 42),
        ({"interval.ms": "3600001"}, 42),
        ({"interval.ms": "9" * 30_000}, 40),
        ({"metrics": "a,,b"}, 40),
        ({"match": "nobody=a"}, 40),
        ({"match": "client_id"}, 40),
        ({"match": "client_id=" + "=" * 30_000}, 40),
        ({"x" * 30_000: "1"}, 42),
    ],
)
def test_a_subscription_that_cannot_be_is_refused(configs, code):
    with pytest.raises(KafkaError) as refused:
        validate_client_metrics(configs)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("configs", "why"),
    [
        ({"nope": "1"}, "Unknown group config name"),
        ({"consumer.session.timeout.ms": "1"}, "greater than or equal to group"),
        ({"consumer.session.timeout.ms": "60001"}, "less than or equal to group"),
        ({"share.auto.offset.reset": "never"}, "must be either"),
        ({"streams.num.standby.replicas": "9"}, "group.streams.max.standby.replicas"),
    ],
)
def test_a_group_that_cannot_be_is_refused(configs, why):
    with pytest.raises(KafkaError, match=why) as refused:
        validate_group(configs)
    assert refused.value.code == 40


def test_patterns_are_told_by_what_they_look_at():
    match = "client_id= a.* ,client_software_name=x"
    assert patterns({"match": match}) == {
        "client_id": "a.*",
        "client_software_name": "x",
    }
    assert patterns({}) == {}


def test_values_are_set_and_deleted_and_nothing_is_appended_to():
    set_one = Alteration("metrics", Operation.SET, "a")
    assert alter_kept({"match": "m"}, [set_one]) == {"match": "m", "metrics": "a"}
    assert alter_kept({"a": "1"}, [Alteration("a", Operation.DELETE, None)]) == {}
    for operation, code in ((Operation.APPEND, 40), (Operation.SUBTRACT, 40), (9, 42)):
        with pytest.raises(KafkaError) as refused:
            alter_kept({}, [Alteration("metrics", operation, "b")])
        assert refused.value.code == code
