"""Changing a broker while it runs: what can be, in Kafka's words."""

import re

import pytest

from broker.protocol.errors import ErrorCode, KafkaError
from broker.topics.broker_alter import (
    DYNAMIC,
    OF_TOPICS,
    alter_broker,
    topic_overrides,
    validate_broker,
)
from broker.topics.broker_configs import BROKER_CONFIGS
from broker.topics.config_alter import Alteration, Operation

SET, DELETE = Operation.SET, Operation.DELETE
APPEND, SUBTRACT = Operation.APPEND, Operation.SUBTRACT
RETENTION, POLICY = "log.retention.ms", "log.cleanup.policy"


def altered(present, *changes, holds=None):
    alterations = [Alteration(*one) for one in changes]
    return alter_broker(present, alterations, holds or {})


def test_what_can_be_changed_is_a_key_and_so_is_what_it_is_the_default_of():
    assert BROKER_CONFIGS.keys() >= DYNAMIC
    assert OF_TOPICS["message.max.bytes"] == "max.message.bytes"
    assert topic_overrides({RETENTION: "5", "max.connections": "6"}) == {
        "retention.ms": "5"
    }


def test_values_are_set_deleted_and_edited():
    assert altered({}, (RETENTION, SET, " 5 ")) == {RETENTION: "5"}
    assert altered({RETENTION: "5"}, (RETENTION, DELETE, None)) == {}
    assert altered({}, ("num.partitions", DELETE, None)) == {}
    assert altered({}, (POLICY, APPEND, "compact"), holds={POLICY: "delete"}) == {
        POLICY: "delete,compact"
    }
    assert altered({POLICY: "compact,delete"}, (POLICY, SUBTRACT, "delete")) == {
        POLICY: "compact"
    }
    assert altered({}, (POLICY, SUBTRACT, "delete"), holds={POLICY: "delete"}) == {
        POLICY: ""
    }


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        (
            RETENTION,
            "0",
            "requirement failed: log.retention.ms must be unlimited (-1) or, greater "
            "than or equal to 1",
        ),
        ("log.cleaner.threads", "0", "Invalid value 0 for configuration"),
        ("log.cleaner.backoff.ms", "-1", "Value must be at least 0"),
        (POLICY, "delete,", f"Configuration '{POLICY}' values must not be empty."),
    ],
)
def test_what_kafka_refuses_is_refused(name, value, why):
    """Asked of Apache Kafka 4.3.1; of no threads it says that it cannot divide."""
    with pytest.raises(KafkaError, match=re.escape(why)) as refused:
        altered({}, (name, SET, value))
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_what_kafka_takes_is_taken():
    taken = {
        RETENTION: "-1",
        "log.cleaner.backoff.ms": "0",
        POLICY: "delete,delete",
        "log.cleaner.min.compaction.lag.ms": "10",
        "log.cleaner.max.compaction.lag.ms": "5",
    }
    assert altered({}, *((name, SET, value) for name, value in taken.items())) == taken


def test_what_nobody_knows_is_kept():
    assert altered({}, ("no.such", SET, "x"), ("", SET, "y")) == {
        "no.such": "x",
        "": "y",
    }


def test_what_was_taken_once_is_in_nobodys_way():
    fixed = "group.coordinator.threads"
    assert altered({fixed: "5"}, (RETENTION, SET, "7")) == {fixed: "5", RETENTION: "7"}
    assert altered({fixed: "5"}, (fixed, DELETE, None)) == {}


@pytest.mark.parametrize(
    "name", ["max.connections.per.ip.overrides", "ssl.keystore.location", "super.users"]
)
def test_what_kafka_changes_and_means_nothing_here_is_kept(name):
    assert altered({}, (name, SET, "x")) == {name: "x"}


@pytest.mark.parametrize(
    ("change", "code", "why"),
    [
        (("group.coordinator.threads", SET, "3"), 42, r"\[group.coordinator.threads\]"),
        (("sasl.login.class", SET, "x"), 42, r"dynamically: \[sasl.login.class\]"),
        (("num.partitions", SET, "3"), 42, r"dynamically: \[num.partitions\]"),
        ((RETENTION, SET, "soon"), 42, "Not a number of type LONG"),
        ((RETENTION, SET, "9" * 40), 42, "Not a number of type LONG"),
        (("max.connections.per.ip", SET, "0"), 42, "at least 1"),
        (("producer.id.expiration.ms", SET, "0"), 42, "at least 1"),
        (("message.max.bytes", SET, "-1"), 42, "at least 0"),
        ((RETENTION, APPEND, "1"), 40, "append is not allowed for config key"),
        ((RETENTION, SUBTRACT, "1"), 40, "subtract is not allowed for config key"),
        (("no.such", APPEND, "1"), 40, "Unknown config name: no.such"),
        (("x" * 32_767, APPEND, "1"), 40, r"Unknown config name: x{249}\.{3}$"),
        ((RETENTION, 7, "1"), 42, "Unknown operations type 7"),
        ((POLICY, SET, "shred"), 42, "must hold nothing but"),
    ],
)
def test_what_cannot_be_is_refused(change, code, why):
    with pytest.raises(KafkaError, match=why) as refused:
        altered({"max.connections": "5"}, ("max.connections", SET, "6"), change)
    assert refused.value.code == code


def test_one_that_is_fixed_spoils_all():
    with pytest.raises(KafkaError) as refused:
        validate_broker({RETENTION: "5", "node.id": "1", "broker.id": "1"})
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert refused.value.message.endswith("[node.id, broker.id]")
