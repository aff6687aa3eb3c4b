"""Changing a topic's configuration, for the two APIs that do: the rules they share.

Source: Kafka's ``ConfigAdminManager`` and ``ControllerConfigurationValidator``.
"""

from collections.abc import Callable
from typing import Protocol

from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.topics.topics import Topics
from broker.topics import names
from broker.topics.topic import Topic


class Resource(Protocol):
    """What a configuration belongs to, in any of the requests."""

    resource_type: int
    resource_name: str


def topic_to_alter(
    resource: Resource, topics: Topics, check: Callable[[], object]
) -> Topic:
    """The topic that is meant. Raises INVALID_REQUEST for topics in general,
    INVALID_TOPIC_EXCEPTION for what is no name, UNKNOWN_TOPIC_OR_PARTITION; before
    that what ``check`` raises for what it is to be altered to, as in Kafka."""
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
