"""Changing configurations for the two APIs that do: the rules that they share.

Only topics can be altered. The broker's settings come from its flags, its environment
and its file, and are read-only for clients: an alteration is refused in words. Source:
Kafka's ``ConfigAdminManager``.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.topics.topics import Topics
from broker.topics.topic import Topic

TOPIC, BROKER = 2, 4
RESOURCES_A_TURN = 100
"""So many are looked at before others have their turn on the loop."""


class Resource(Protocol):
    """What a configuration belongs to, in any of the requests."""

    resource_type: int
    resource_name: str


R = TypeVar("R", bound=Resource)


def check_broker_name(name: str, node_id: int) -> None:
    """Raise INVALID_REQUEST unless ``name`` is this node's, or "" for all nodes."""
    if name not in ("", str(node_id)):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node_id} or empty string, but received "
            f"{name}",
        )


def named_once(resources: Sequence[R]) -> Iterable[tuple[R, KafkaError | None]]:
    """Each resource once, with the error if it was named several times."""
    times = Counter((one.resource_type, one.resource_name) for one in resources)
    for one in resources:
        count = times.pop((one.resource_type, one.resource_name), 0)
        if count == 1:
            yield one, None
        elif count > 1:
            yield (
                one,
                KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "Each resource must appear at most once.",
                ),
            )


class Result(Protocol):
    """How it went for one resource, in any of the responses."""

    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str


T = TypeVar("T", bound=Result)


async def alter_each(
    resources: Sequence[R],
    result_type: Callable[[], T],
    change: Callable[[R], Awaitable[object]],
) -> list[T]:
    """Change each resource by itself; the results.

    A KafkaError of ``change``, or that a resource was named twice, goes into one.
    """
    results: list[T] = []
    for resource, error in named_once(resources):
        result = result_type()
        result.resource_type = resource.resource_type
        result.resource_name = resource.resource_name
        result.error_message = None
        results.append(result)
        if len(results) % RESOURCES_A_TURN == 0:
            await asyncio.sleep(0)
        try:
            if error is not None:
                raise error
            await change(resource)
        except KafkaError as refused:
            result.error_code, result.error_message = refused.code, refused.message
    return results


def topic_to_alter(resource: Resource, topics: Topics, node_id: int) -> Topic:
    """The topic that is meant. Raises INVALID_REQUEST for what cannot be altered,
    UNKNOWN_TOPIC_OR_PARTITION."""
    if resource.resource_type == BROKER:
        check_broker_name(resource.resource_name, node_id)
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "The broker's settings are read-only for clients: set them by flag, "
            "environment or file.",
        )
    if resource.resource_type != TOPIC:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unsupported resource type: {resource.resource_type}",
        )
    topic = topics.get(resource.resource_name)
    if topic is not None and not topic.stored:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{topic.name}' is internal: it cannot be changed.",
        )
    if topic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"The topic '{resource.resource_name}' does not exist.",
        )
    return topic
