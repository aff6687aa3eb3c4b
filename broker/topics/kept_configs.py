"""The configurations of groups and of client metrics: every key, and what is allowed.

Source: Kafka's ``GroupConfig`` (KIP-848, KIP-932, KIP-1071) and
``ClientMetricsConfigs`` (KIP-714). What a group's keys are about is served by no group
here; they are kept, with Kafka's bounds, for clients that set them beforehand.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from broker.protocol.errors import ErrorCode, KafkaError
from broker.topics.config_alter import Alteration, Operation
from broker.topics.config_keys import (
    Check,
    ConfigKey,
    ConfigType,
    Value,
    at_least,
    one_of,
)
from broker.topics.spellings import split_list, trimmed

INTERVAL_MS, METRICS, MATCH = "interval.ms", "metrics", "match"
INTERVAL_MS_MIN, INTERVAL_MS_MAX = 100, 3_600_000
MATCHED: Final = (
    "client_instance_id", "client_id", "client_software_name",
    "client_software_version", "client_source_address", "client_source_port",
)  # fmt: skip
"""What a pattern of ``match`` may look at."""

_GROUPS: Final = """
consumer.assignment.interval.ms | int | 1000 | 0 | 15000
consumer.heartbeat.interval.ms | int | 5000 | 5000 | 15000
consumer.session.timeout.ms | int | 45000 | 45000 | 60000
share.assignment.interval.ms | int | 1000 | 0 | 15000
share.auto.offset.reset | string | latest | |
share.delivery.count.limit | int | 5 | 2 | 10
share.heartbeat.interval.ms | int | 5000 | 5000 | 15000
share.isolation.level | string | read_uncommitted | |
share.partition.max.record.locks | int | 2000 | 100 | 4000
share.record.lock.duration.ms | int | 30000 | 15000 | 60000
share.renew.acknowledge.enable | boolean | true | |
share.session.timeout.ms | int | 45000 | 45000 | 60000
streams.assignment.interval.ms | int | 1000 | 0 | 15000
streams.heartbeat.interval.ms | int | 5000 | 5000 | 15000
streams.initial.rebalance.delay.ms | int | 3000 | 0 |
streams.num.standby.replicas | int | 0 | 0 | 2
streams.session.timeout.ms | int | 45000 | 45000 | 60000
"""
"""Key, type, default, and the bounds that Kafka's brokers have by default."""


def _reset(value: Value) -> str | None:
    text = str(value)
    if text in ("earliest", "latest") or text.startswith("by_duration:P"):
        return None
    return (
        f"Invalid value `{text}` for configuration share.auto.offset.reset. The value "
        "must be either 'earliest', 'latest' or of the format "
        "'by_duration:<PnDTnHnMn.nS>'."
    )


_CHECKS: Final[Mapping[str, Check]] = {
    "share.auto.offset.reset": _reset,
    "share.isolation.level": one_of("read_committed", "read_uncommitted"),
    "share.record.lock.duration.ms": at_least(1000),
}


def _groups() -> tuple[dict[str, ConfigKey], dict[str, tuple[int, int | None]]]:
    keys, bounds = dict[str, ConfigKey](), dict[str, tuple[int, int | None]]()
    for line in _GROUPS.strip().splitlines():
        name, kind, default, low, high = (part.strip() for part in line.split("|"))
        type_ = ConfigType[kind.upper()]
        of_broker = f"group.{name}" if type_ is ConfigType.INT else name
        doc = f"What {name.partition('.')[0]} groups are told of {name}."
        check = _CHECKS.get(name, at_least(0) if type_ is ConfigType.INT else None)
        keys[name] = ConfigKey(name, type_, default, doc, check, (of_broker,))
        if low:
            bounds[name] = int(low), int(high) if high else None
    return keys, bounds


_keys, _bounds = _groups()
GROUP_CONFIGS: Final[Mapping[str, ConfigKey]] = MappingProxyType(_keys)
"""Every key of a group, by name, in the order of names."""

CLIENT_METRICS_CONFIGS: Final[Mapping[str, ConfigKey]] = MappingProxyType(
    {
        INTERVAL_MS: ConfigKey(
            INTERVAL_MS, ConfigType.INT, "300000",
            "How often a client pushes its metrics.", effective=True,
        ),
        MATCH: ConfigKey(
            MATCH, ConfigType.LIST, "",
            "Which clients are asked: name=expression, of all of them each must match.",
            effective=True,
        ),
        METRICS: ConfigKey(
            METRICS, ConfigType.LIST, "",
            "Which metrics a client is asked for, by the beginnings of their names; * "
            "is all of them.", effective=True,
        ),
    }
)  # fmt: skip
"""Every key of a subscription to client metrics."""


def alter_kept(
    present: Mapping[str, str], alterations: Iterable[Alteration]
) -> dict[str, str]:
    """The configuration after all changes. Nothing can be appended to here, as in
    Kafka, not even to lists: KafkaError INVALID_CONFIG."""
    altered = dict(present)
    for name, operation, value in alterations:
        if operation == Operation.DELETE:
            altered.pop(name, None)
        elif operation == Operation.SET:
            assert value is not None
            altered[name] = trimmed(value)
        elif operation in tuple(Operation):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Can't {Operation(operation).name} to key {name} because its type is "
                "not LIST.",
            )
        else:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unknown operations type {operation}"
            )
    return altered


def validate_group(configs: Mapping[str, str]) -> dict[str, str]:
    """The same, each a key, of its type and within bounds. Raises INVALID_CONFIG."""
    for name, text in configs.items():
        key = GROUP_CONFIGS.get(name)
        if key is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}"
            )
        value = key.parse(text)
        low, high = _bounds.get(name, (None, None))
        if not isinstance(value, int):
            continue
        if low is not None and value < low:
            raise _out_of_bounds(name, "greater", "min")
        if high is not None and value > high:
            raise _out_of_bounds(name, "less", "max")
    return dict(configs)


def _out_of_bounds(name: str, word: str, end: str) -> KafkaError:
    kind, _, rest = name.replace("num.", "").partition(".")
    return KafkaError(
        ErrorCode.INVALID_CONFIG,
        f"{name} must be {word} than or equal to group.{kind}.{end}.{rest}",
    )


def validate_client_metrics(configs: Mapping[str, str]) -> dict[str, str]:
    """The same, each a key and allowed.

    Raises KafkaError INVALID_REQUEST or INVALID_CONFIG, as ``ClientMetricsConfigs``
    does. Whether an expression is one is looked at by whoever has an engine for it.
    """
    for name, text in configs.items():
        key = CLIENT_METRICS_CONFIGS.get(name)
        if key is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unknown client metrics configuration: {name}",
            )
        value = key.parse(text)
        if key.type is ConfigType.LIST and not all(split_list(text)):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Configuration '{name}' values must not be empty.",
            )
        if name == INTERVAL_MS and not (
            isinstance(value, int) and INTERVAL_MS_MIN <= value <= INTERVAL_MS_MAX
        ):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Invalid value {text} for {name}, interval must be between "
                f"{INTERVAL_MS_MIN} and {INTERVAL_MS_MAX} (1 hour)",
            )
    patterns(configs)
    return dict(configs)


def patterns(configs: Mapping[str, str]) -> dict[str, str]:
    """What ``match`` looks at -> its expression. Raises INVALID_CONFIG."""
    found = dict[str, str]()
    for pattern in split_list(configs.get(MATCH, "")):
        name, _, expression = pattern.partition("=")
        if name.strip() not in MATCHED or not expression or "=" in expression:
            raise illegal(pattern)
        found[name.strip()] = expression.strip()
    return found


def illegal(pattern: str) -> KafkaError:
    """Return the error for a pattern that is none."""
    return KafkaError(
        ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {pattern[:250]}"
    )
