"""Changing configurations for the two APIs that do: the rules that they share.

Only topics can be altered. The broker's settings come from its flags, its environment
and its file, and are read-only for clients: an alteration is refused in words. Source:
Kafka's ``ConfigAdminManager``.
"""

from collections.abc import Callable
from typing import Protocol

from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.topics.topics import Topics
from broker.topics import names
from broker.topics.topic import Topic

TOPIC, BROKER = 2, 4


class Resource(Protocol):
    """What a configuration belongs to, in any of the requests."""

    resource_type: int
    resource_name: str


def check_broker_name(name: str, node_id: int) -> None:
    """Raise INVALID_REQUEST unless ``name`` is this node's, or "" for all nodes."""
    if name not in ("", str(node_id)):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node_id} or empty string, but received "
            f"{name}",
        )


def topic_to_alter(
    resource: Resource, topics: Topics, node_id: int, check: Callable[[], object]
) -> Topic:
    """The topic that is meant. Raises INVALID_REQUEST for what cannot be altered,
    INVALID_TOPIC_EXCEPTION for what is no name, UNKNOWN_TOPIC_OR_PARTITION; before
    that what ``check`` raises for what it is to be altered to, as in Kafka."""
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
    if not resource.resource_name:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed."
        )
    names.validate(resource.resource_name)
    topic = topics.get(resource.resource_name)
    if topic is not None and not topic.stored:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{topic.name}' is internal: it cannot be changed.",
        )
    if topic is None:
        check()
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"The topic '{resource.resource_name}' does not exist.",
        )
    return topic
