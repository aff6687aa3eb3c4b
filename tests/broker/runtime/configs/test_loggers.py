"""Loggers as configuration."""

import pytest

from broker.protocol.errors import KafkaError
from broker.runtime.configs.loggers import alter_loggers, describe_loggers
from broker.runtime.process.levels import OF_BROKER, Levels
from broker.topics.config_alter import Alteration, Operation
from broker.topics.config_keys import ConfigSource

SET, DELETE = Operation.SET, Operation.DELETE
NETWORK = "lakelog.network"


def shown(levels):
    return {one.name: one.value for one in describe_loggers(levels)}


def alter(levels, *changes, validate_only=False):
    alterations = [Alteration(*one) for one in changes]
    alter_loggers(alterations, levels, validate_only=validate_only)


def test_each_logger_is_told_with_its_level():
    levels = Levels("warning")
    assert shown(levels) == dict.fromkeys(("root", *OF_BROKER), "WARN")
    source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    assert {one.source for one in describe_loggers(levels)} == {source}


def test_a_level_is_set_and_reset():
    levels = Levels("info")
    for level, told in (
        ("TRACE", "DEBUG"), ("DEBUG", "DEBUG"), ("WARN", "WARN"), ("FATAL", "ERROR"),
    ):  # fmt: skip
        alter(levels, (NETWORK, SET, level))
        assert (shown(levels)[NETWORK], shown(levels)["root"]) == (told, "INFO")
    alter(levels, (NETWORK, DELETE, None))
    assert shown(levels)[NETWORK] == "INFO"
    alter(levels, ("root", SET, "ERROR"))
    assert shown(levels)[NETWORK] == "ERROR"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ((NETWORK, SET, "debug"), 40),
        ((NETWORK, SET, "x" * 32_767), 40),
        (("x" * 32_767, SET, "INFO"), 40),
        (("lakelog", SET, "INFO"), 40),
        (("root", DELETE, None), 42),
        ((NETWORK, Operation.APPEND, "INFO"), 42),
        ((NETWORK, 9, "INFO"), 42),
    ],
)
def test_what_is_refused_changes_nothing(change, code):
    levels = Levels("info")
    with pytest.raises(KafkaError) as refused:
        alter(levels, (NETWORK, SET, "DEBUG"), change)
    assert (refused.value.code, len(refused.value.message) < 700) == (code, True)
    alter(levels, (NETWORK, SET, "DEBUG"), validate_only=True)
    assert shown(levels)[NETWORK] == "INFO"
