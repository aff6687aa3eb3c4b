"""A cluster in the Confluent v3 shape."""

from pydantic import BaseModel


class Related(BaseModel):
    """A link."""

    related: str


class Metadata(BaseModel):
    """Where a resource is, and its name."""

    self: str
    resource_name: str | None = None


class CollectionMetadata(BaseModel):
    """Where a collection is; we answer in one page."""

    self: str
    next: str | None = None


class Cluster(BaseModel):
    kind: str = "KafkaCluster"
    metadata: Metadata
    cluster_id: str
    controller: Related | None
    acls: Related
    brokers: Related
    broker_configs: Related
    consumer_groups: Related
    topics: Related
    partition_reassignments: Related


class ClusterList(BaseModel):
    kind: str = "KafkaClusterList"
    metadata: CollectionMetadata
    data: list[Cluster]
