"""The configurations of brokers, loggers, groups and client metrics: named and changed.

What differs from one kind to the next is which names there are, which keys, and where a
change goes; the two APIs that change them and the one that tells them share this. The
refusals are those of Kafka's ``ConfigAdminManager``, in its order.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from broker.apis._patterns import matching
from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.configs.dynamic_configs import KEYS_MAX, Edit
from broker.runtime.configs.layers import ALL_BROKERS, Kind
from broker.runtime.configs.loggers import alter_loggers
from broker.runtime.process.logging import levels
from broker.runtime.services import Broker
from broker.runtime.topics.config_alter import Resource
from broker.topics.broker_alter import alter_broker, validate_broker
from broker.topics.config_alter import Alteration
from broker.topics.kept_configs import (
    alter_kept,
    illegal,
    patterns,
    validate_client_metrics,
    validate_group,
)
from broker.topics.names import shown

Validate = Callable[[Mapping[str, str]], dict[str, str]]

VALIDATED: Final[Mapping[int, Validate]] = {
    Kind.BROKER: validate_broker,
    Kind.CLIENT_METRICS: validate_client_metrics,
    Kind.GROUP: validate_group,
}


async def alter_resource(
    resource: Resource,
    alterations: Sequence[Alteration],
    broker: Broker,
    *,
    validate_only: bool,
) -> None:
    """Change single settings of what is no topic. Raises KafkaError."""
    kind = _known(resource.resource_type)
    _check_count(len(alterations))
    if kind == Kind.BROKER_LOGGER:
        _check_node(resource.resource_name, broker.node_id)
        alter_loggers(alterations, levels, validate_only=validate_only)
        return
    if kind == Kind.BROKER:
        holds = broker.configs.layers.dynamic
        edit: Edit = partial(alter_broker, alterations=alterations, holds=holds)
    else:
        alter_kept({}, alterations)  # a verb that is none comes before a bad name
        validate = VALIDATED[kind]

        def edit(present: Mapping[str, str]) -> dict[str, str]:
            return validate(alter_kept(present, alterations))

    await _alter(kind, resource.resource_name, edit, broker, validate_only)


async def replace_configs(
    resource: Resource, given: Mapping[str, str], broker: Broker, *, validate_only: bool
) -> None:
    """Change all settings of what is no topic. Raises KafkaError."""
    kind = _known(resource.resource_type)
    _check_count(len(given))
    validate = VALIDATED.get(kind)
    if validate is None:
        raise _unknown(kind)

    def edit(_: Mapping[str, str]) -> dict[str, str]:
        return validate(given)

    await _alter(kind, resource.resource_name, edit, broker, validate_only)


async def _alter(
    kind: Kind, name: str, edit: Edit, broker: Broker, validate_only: bool
) -> None:
    name = _checked_name(kind, name, broker.node_id)
    kept = broker.configs.check((kind, name), edit)
    if kind == Kind.CLIENT_METRICS:
        await _check_expressions(kept)
    if not validate_only:
        await broker.configs.alter((kind, name), edit)


async def _check_expressions(configs: Mapping[str, str]) -> None:
    loop = asyncio.get_running_loop()
    for name, expression in patterns(configs).items():
        try:
            await loop.run_in_executor(None, matching, expression, ())
        except KafkaError:
            raise illegal(f"{name}={expression}") from None


def _known(kind: int) -> Kind:
    try:
        return Kind(kind)
    except ValueError:
        raise _unknown(kind) from None


def _unknown(kind: int) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {int(kind)}")


def _check_count(keys: int) -> None:
    if keys > KEYS_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, f"No more than {KEYS_MAX} keys can be changed."
        )


def _checked_name(kind: Kind, name: str, node_id: int) -> str:
    """The name as it is kept. Raises INVALID_REQUEST for one that cannot be altered."""
    if kind == Kind.CLIENT_METRICS and not name:
        raise _bad_name("Subscription name can't be empty")
    if kind == Kind.GROUP and not name:
        raise _bad_name("Default group resources are not allowed.")
    if kind == Kind.BROKER and name != ALL_BROKERS:
        number = _number(name, "Node")
        if number != node_id:
            raise _bad_name(
                f"Unexpected broker id, expected {node_id}, but received {number}"
            )
        return str(number)
    return name


def _check_node(name: str, node_id: int) -> None:
    number = _number(name, "Node")
    if number != node_id:
        raise _bad_name(
            f"Unexpected node id. Expected {node_id}, but received {number}"
        )


def check_described(kind: int, name: str, node_id: int) -> None:
    """Raise INVALID_REQUEST for what has no configuration to be told."""
    known = _known(kind)
    if known == Kind.CLIENT_METRICS and not name:
        raise _bad_name("Client metrics subscription name must not be empty")
    if known == Kind.GROUP and not name:
        raise _bad_name("Group name must not be empty")
    if known == Kind.BROKER and name != ALL_BROKERS:
        number = _number(name, "Broker")
        if number != node_id:
            raise _bad_name(
                f"Unexpected broker id, expected {node_id} or empty string, but "
                f"received {name}"
            )
    if known == Kind.BROKER_LOGGER:
        if not name:
            raise _bad_name("Broker id must not be empty")
        if _number(name, "Broker") != node_id:
            raise _bad_name(
                f"Unexpected broker id, expected {node_id} but received {name}"
            )


def _number(name: str, what: str) -> int:
    if not (name.isascii() and name.removeprefix("-").isdigit() and len(name) <= 11):
        raise _bad_name(f"{what} id must be an integer, but it is: {shown(name)}")
    return int(name)


def _bad_name(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, why)
