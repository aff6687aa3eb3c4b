"""The broker, as the admin plane sees it: through a Kafka client like any other.

Every method blocks for at most ``timeout_s``; FastAPI runs the endpoints that call
them on its thread pool.
"""

from collections.abc import Mapping
from typing import Any

from confluent_kafka.admin import (
    AdminClient,
    ClusterMetadata,
    ConfigResource,
    NewTopic,
    ResourceType,
    TopicMetadata,
)

TIMEOUT_S = 10.0


class Kafka:
    """A thin face over librdkafka's admin client. Raises KafkaException."""

    def __init__(self, bootstrap: str, timeout_s: float = TIMEOUT_S) -> None:
        self.bootstrap = bootstrap
        self._timeout_s = timeout_s
        self._client = AdminClient(
            {
                "bootstrap.servers": bootstrap,
                "socket.connection.setup.timeout.ms": 3000,
                "log_level": 2,
                "error_cb": lambda _error: None,
            }
        )

    def metadata(self, timeout_s: float | None = None) -> ClusterMetadata:
        return self._client.list_topics(timeout=timeout_s or self._timeout_s)

    def topic(self, name: str) -> TopicMetadata | None:
        """One topic's metadata, None where there is no such topic."""
        found = self._client.list_topics(timeout=self._timeout_s).topics
        return found.get(name)

    def create(self, topic: NewTopic, validate_only: bool) -> None:
        futures = self._client.create_topics(
            [topic], operation_timeout=self._timeout_s, validate_only=validate_only
        )
        futures[topic.topic].result(timeout=self._timeout_s)

    def delete(self, name: str) -> None:
        futures = self._client.delete_topics([name], operation_timeout=self._timeout_s)
        futures[name].result(timeout=self._timeout_s)

    def configs(self, name: str) -> Mapping[str, Any]:
        """The topic's configurations by name, as librdkafka's ConfigEntry."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        [future] = self._client.describe_configs([resource]).values()
        found: Mapping[str, Any] = future.result(timeout=self._timeout_s)
        return found
