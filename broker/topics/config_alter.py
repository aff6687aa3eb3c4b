"""Changing a topic's configuration: the four verbs of IncrementalAlterConfigs.

Source: KIP-339; Kafka's ``ConfigurationControlManager.incrementalAlterConfig``.
"""

from collections.abc import Container, Generator, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from broker.protocol.errors import ErrorCode, KafkaError
from broker.topics.config_keys import ConfigType
from broker.topics.configs import key, text_of, validate
from broker.topics.spellings import split_list

CHECKED_A_TURN = 5_000


class Operation(IntEnum):
    """``AlterConfigOp.OpType``."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(NamedTuple):
    """One change; ``operation`` is the number from the request."""

    name: str
    operation: int
    value: str | None


def that_matter(
    alterations: Iterable[Alteration], known: Container[str] | None = None
) -> Generator[None, None, list[Alteration]]:
    """Return those that change something or are refused; yields now and then.

    To delete what is no key (of the ``known`` ones, if there is nothing else that could
    be set) changes nothing, as in Kafka. Raises KafkaError
    INVALID_REQUEST for a key named twice, else for a missing value, before anything
    else is looked at.
    """
    kept, named, null = list[Alteration](), set[str](), None
    for count, alteration in enumerate(alterations, 1):
        if alteration.name in named:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "Error due to duplicate config keys",
            )
        named.add(alteration.name)
        if (
            alteration.operation != Operation.DELETE
            or known is None
            or alteration.name in known
        ):
            kept.append(alteration)
        if alteration.value is None and alteration.operation != Operation.DELETE:
            null = null or alteration
        if count % CHECKED_A_TURN == 0:
            yield
    if null is not None:
        raise _without_value(null.name)
    return kept


def alter(
    configs: Mapping[str, str],
    alterations: Iterable[Alteration],
    defaults: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The configuration after all changes, valid as a whole; see ``that_matter``.

    Raises KafkaError: INVALID_REQUEST for an unknown verb or a missing value;
    INVALID_CONFIG for an unknown key (unless it is deleted, as in Kafka), a value that
    is not allowed, or APPEND and SUBTRACT on what is no list.
    """
    altered = dict(configs)
    for alteration in alterations:
        _apply(altered, alteration, defaults or {})
    return validate(altered, defaults or {})


def _apply(
    configs: dict[str, str], alteration: Alteration, defaults: Mapping[str, str]
) -> None:
    name, operation, value = alteration
    if operation == Operation.DELETE:  # also of what is no key: it is not set
        configs.pop(name, None)
        return
    known = key(name)
    if operation not in tuple(Operation):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unknown config operation {operation}"
        )
    if value is None:
        raise _without_value(name)
    if operation == Operation.SET:
        configs[name] = value
        return
    if known.type is not ConfigType.LIST:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {Operation(operation).name} to key {name} because its type is "
            "not LIST.",
        )
    present = split_list(text_of(name, configs, defaults))
    changed = split_list(value)
    if operation == Operation.APPEND:
        there = set(present)
        kept = [*present, *(one for one in changed if one not in there)]
    else:
        gone = set(changed)
        kept = [one for one in present if one not in gone]
    configs[name] = ",".join(kept)


def _without_value(name: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}"
    )
