"""The broker's loggers as configuration: their levels, in Kafka's words (KIP-412).

A level that a client sets holds until the process ends, as in Kafka. Every logger that
there is is named in ``levels.py``; ``root`` is all of them.
"""

from collections.abc import Iterable
from typing import Final

from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.process.levels import OF_BROKER, ROOT, Levels
from broker.runtime.topics.config_describe import Described
from broker.topics.config_alter import Alteration, Operation
from broker.topics.config_keys import ConfigSource, ConfigType

ROOT_LOGGER: Final = "root"
_OURS: Final = {
    "DEBUG": "debug", "ERROR": "error", "FATAL": "error", "INFO": "info",
    "TRACE": "debug", "WARN": "warning",
}  # fmt: skip
"""Kafka's level -> ours that comes nearest."""
_SHOWN: Final = {"debug": "DEBUG", "info": "INFO", "warning": "WARN", "error": "ERROR"}


def describe_loggers(levels: Levels) -> list[Described]:
    """Every logger with its level."""
    return [
        Described(
            name,
            _SHOWN[levels.name_of(_own(name))],
            ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
            read_only=False,
            type=ConfigType.UNKNOWN,
            documentation="",
            synonyms=(),
        )
        for name in (ROOT_LOGGER, *OF_BROKER)
    ]


def alter_loggers(
    alterations: Iterable[Alteration], levels: Levels, *, validate_only: bool
) -> None:
    """Set and reset levels: all of them, or none if one is refused.

    Raises KafkaError INVALID_REQUEST or INVALID_CONFIG, as ``RuntimeLoggerManager``.
    """
    kept = list(alterations)
    for one in kept:
        _check(one)
    if validate_only:
        return
    for name, operation, level in kept:
        if operation == Operation.DELETE:
            levels.reset(_own(name))
        elif level is not None:
            levels.change(_own(name), _OURS[level])


def _own(name: str) -> str:
    return ROOT if name == ROOT_LOGGER else name


def _check(alteration: Alteration) -> None:
    name, operation, level = alteration
    if operation not in (Operation.SET, Operation.DELETE):
        verb = Operation(operation).name if operation in tuple(Operation) else operation
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{verb} operation is not allowed for the BROKER_LOGGER resource",
        )
    if name != ROOT_LOGGER and name not in OF_BROKER:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"Logger {name[:250]} does not exist!"
        )
    if operation == Operation.DELETE:
        if name == ROOT_LOGGER:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "Removing the log level of the root logger is not allowed",
            )
    elif level not in _OURS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {str(level)[:250]} as it is not a "
            f"supported log level. Valid log levels are {', '.join(_OURS)}",
        )
