"""Topics in the Confluent v3 shape."""

from pydantic import BaseModel, ConfigDict, Field

from admin_api.clusters.schemas import CollectionMetadata, Metadata, Related


class Topic(BaseModel):
    kind: str = "KafkaTopic"
    metadata: Metadata
    cluster_id: str
    topic_name: str
    is_internal: bool
    replication_factor: int
    partitions_count: int
    partitions: Related
    configs: Related
    partition_reassignments: Related
    authorized_operations: list[str] = Field(default_factory=list)


class TopicList(BaseModel):
    kind: str = "KafkaTopicList"
    metadata: CollectionMetadata
    data: list[Topic]


class ConfigEntry(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    value: str | None = None


class CreateTopic(BaseModel):
    """The body of ``POST .../topics``; what is left out is the broker's default."""

    model_config = ConfigDict(extra="forbid")

    topic_name: str
    partitions_count: int | None = Field(default=None, ge=1, le=100_000)
    replication_factor: int | None = Field(default=None, ge=1)
    configs: list[ConfigEntry] = Field(default_factory=list)
    validate_only: bool = False
