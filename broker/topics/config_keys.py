"""Configuration keys: what a value must be, said once, in Kafka's words.

Source: Kafka's ``ConfigDef`` (types, parsing, the wording of refusals), KIP-133 and
KIP-226 (what DescribeConfigs tells about a key).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from broker.protocol.errors import ErrorCode, KafkaError
from broker.topics.spellings import boolean, double, integer, split_list, trimmed
from lakehouse.warehouse_names import NAME

Value = bool | int | float | str | tuple[str, ...]
Check = Callable[[Value], str | None]
"""What is wrong with a value of the right type, None when nothing is."""

LONG_MAX: Final = 2**63 - 1


class ConfigType(IntEnum):
    """Types as DescribeConfigs encodes them (``ConfigEntry.ConfigType``)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_BITS: Final = {ConfigType.SHORT: 15, ConfigType.INT: 31, ConfigType.LONG: 63}


class ConfigSource(IntEnum):
    """Where a value comes from (``DescribeConfigsResponse.ConfigSource``)."""

    UNKNOWN = 0
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key.

    ``default`` is text, None where Kafka has none. ``synonyms`` are the broker's keys
    that give a topic's default, the strongest first. ``effective``: whether anything
    here acts on it; a key that is not is stored and returned all the same. ``is_set``:
    a list in which what comes twice counts once, and nothing is empty.
    """

    name: str
    type: ConfigType
    default: str | None
    doc: str
    check: Check | None = None
    synonyms: tuple[str, ...] = ()
    effective: bool = False
    is_set: bool = False

    @property
    def documentation(self) -> str:
        """The text for clients, honest about what has no effect."""
        return self.doc if self.effective else f"{self.doc} Kept, without effect here."

    def parse(self, text: str) -> Value:
        """The value. Raises KafkaError INVALID_CONFIG, naming key and value."""
        value = _read(self.type, trimmed(text))
        if value is None:
            raise self._refused(text, _not_of(self.type))
        if self.is_set:
            value = self._without_twins(value)
        fault = self.check(value) if self.check else None
        if fault is not None:
            raise self._refused(text, fault)
        return value

    def _without_twins(self, value: Value) -> tuple[str, ...]:
        assert isinstance(value, tuple)
        if "" in value:
            why = f"Configuration '{self.name}' values must not be empty."
            raise KafkaError(ErrorCode.INVALID_CONFIG, why)
        return tuple(dict.fromkeys(value))

    def _refused(self, text: str, why: str) -> KafkaError:
        shown = text if len(text) <= 100 else f"{text[:100]}..."
        return KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Invalid value {shown} for configuration {self.name}: {why}",
        )


def _not_of(kind: ConfigType) -> str:
    if kind is ConfigType.BOOLEAN:
        return "Expected value to be either true or false"
    return f"Not a number of type {kind.name}"


def _read(kind: ConfigType, text: str) -> Value | None:
    if kind is ConfigType.BOOLEAN:
        return boolean(text)
    if kind is ConfigType.LIST:
        return split_list(text)
    if kind is ConfigType.DOUBLE:
        return double(text)
    bits = _BITS.get(kind)
    if bits is None:
        return text
    number = integer(text)
    if number is None or not -(1 << bits) <= number < 1 << bits:
        return None
    return number


def at_least(low: float) -> Check:
    """A number of ``low`` or more."""

    def check(value: Value) -> str | None:
        assert isinstance(value, int | float)
        return f"Value must be at least {low}" if value < low else None

    return check


def between(low: float, high: float, also: float | None = None) -> Check:
    """A number from ``low`` to ``high``, or the one exception ``also``."""

    def check(value: Value) -> str | None:
        assert isinstance(value, int | float)
        if not (value < low or value > high) or value == also:  # NaN is let through
            return None
        return f"Value must be between {low} and {high}" + (
            "" if also is None else f", or {also}"
        )

    return check


def one_of(*allowed: str) -> Check:
    """One of these texts, exactly."""

    def check(value: Value) -> str | None:
        return (
            None if value in allowed else f"String must be one of: {', '.join(allowed)}"
        )

    return check


def some_of(*allowed: str) -> Check:
    """A list of these; it may be empty."""

    def check(value: Value) -> str | None:
        assert isinstance(value, tuple)
        if any(element not in allowed for element in value):
            return f"List must hold nothing but: {', '.join(allowed)}"
        return None

    return check


def throttled_replicas(value: Value) -> str | None:
    """``*``, or a list of ``partition:broker`` (``ThrottledReplicaListValidator``)."""
    assert isinstance(value, tuple)
    if value == ("*",) or all(re.fullmatch(r"([0-9]+:[0-9]+)?", one) for one in value):
        return None
    return "Must be the literal '*' or a list of partition:broker"


def warehouse_name(value: Value) -> str | None:
    """How an operator may call a further warehouse; or nothing."""
    if value == "" or NAME.fullmatch(str(value)):
        return None
    return "Must be the name of a warehouse, of a-z, 0-9 and -, or nothing"
