"""Configuration values: what is read, and how a refusal reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.protocol.errors import ErrorCode, KafkaError
from broker.topics.config_keys import (
    ConfigKey,
    ConfigType,
    Value,
    at_least,
    between,
    some_of,
    throttled_replicas,
)


def a(kind: ConfigType) -> ConfigKey:
    return ConfigKey("some.key", kind, None, "A key.")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.BOOLEAN, " TRUE ", True),
        (ConfigType.BOOLEAN, "false", False),
        (ConfigType.INT, "-2147483648", -(2**31)),
        (ConfigType.INT, " +5 ", 5),
        (ConfigType.LONG, "9223372036854775807", 2**63 - 1),
        (ConfigType.SHORT, "32767", 32767),
        (ConfigType.DOUBLE, "0.5", 0.5),
        (ConfigType.DOUBLE, "1e-3", 0.001),
        (ConfigType.LIST, "a, b ,c", ("a", "b", "c")),
        (ConfigType.LIST, " ", ()),
        (ConfigType.STRING, " x ", "x"),
    ],
)
def test_values_are_read_as_their_type(
    kind: ConfigType, text: str, value: Value
) -> None:
    assert a(kind).parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ConfigType.BOOLEAN, "yes"),
        (ConfigType.BOOLEAN, "1"),
        (ConfigType.INT, "2147483648"),
        (ConfigType.INT, "1_000"),
        (ConfigType.INT, "1.0"),
        (ConfigType.INT, ""),
        (ConfigType.LONG, "9223372036854775808"),
        (ConfigType.LONG, "9" * 10_000),
        (ConfigType.SHORT, "32768"),
        (ConfigType.DOUBLE, "nan"),
        (ConfigType.DOUBLE, "inf"),
    ],
)
def test_what_is_not_of_the_type_is_refused(kind: ConfigType, text: str) -> None:
    with pytest.raises(
        KafkaError, match=r"Not a number of type|either true or false"
    ) as caught:
        a(kind).parse(text)
    assert caught.value.code == ErrorCode.INVALID_CONFIG
    assert "some.key" in caught.value.message
    assert len(caught.value.message) < 300


@given(st.text(), st.sampled_from(ConfigType))
def test_any_text_is_read_or_refused(text: str, kind: ConfigType) -> None:
    try:
        a(kind).parse(text)
    except KafkaError as error:
        assert error.code == ErrorCode.INVALID_CONFIG  # noqa: PT017


def test_ranges_and_lists_say_what_is_allowed() -> None:
    assert at_least(0)(-1) == "Value must be at least 0"
    assert between(1, 9, also=-1)(-1) is None
    assert between(1, 9, also=-1)(0) == "Value must be between 1 and 9, or -1"
    assert some_of("a", "b")(()) is None
    assert some_of("a", "b")(("a", "a")) is None
    assert "a, b" in str(some_of("a", "b")(("c",)))


@pytest.mark.parametrize("value", [(), ("*",), ("0:1",), ("0:1", "12:3")])
def test_throttled_replicas(value: tuple[str, ...]) -> None:
    assert throttled_replicas(value) is None


@pytest.mark.parametrize("value", [("x",), ("0:1", "*"), ("0",), ("0:1:2",)])
def test_what_is_no_throttled_replica(value: tuple[str, ...]) -> None:
    assert throttled_replicas(value) is not None


def test_documentation_tells_what_has_no_effect() -> None:
    assert a(ConfigType.INT).documentation == "A key. Kept, without effect here."
    assert ConfigKey("k", ConfigType.INT, None, "A.", effective=True).documentation == (
        "A."
    )
