"""Topics in the Confluent v3 shape."""

from collections.abc import Mapping
from typing import Any

from confluent_kafka.admin import NewTopic, TopicMetadata
from pydantic import Field

from admin_api.dependencies import ID_MAX, Text
from admin_api.problems import Problem
from admin_api.resources import Body, Collection, Place, Related, Resource
from broker.topics.topic import INTERNAL

PARTITIONS_MAX = 100_000
REPLICAS_MAX = 10_000
"""librdkafka takes no more."""


class Topic(Resource):
    kind: str = "KafkaTopic"
    topic_name: str
    is_internal: bool
    replication_factor: int
    partitions_count: int
    partitions: Related
    configs: Related
    partition_reassignments: Related
    authorized_operations: list[str] = Field(default_factory=list)


class TopicList(Collection):
    kind: str = "KafkaTopicList"
    data: list[Topic]


class NewConfig(Body):
    name: Text
    value: Text | None = None


class ReplicasAssignment(Body):
    """On which brokers a partition is, its leader first."""

    partition_id: int = Field(ge=0, le=PARTITIONS_MAX)
    broker_ids: list[int] = Field(max_length=REPLICAS_MAX)


class CreateTopic(Body):
    """A topic to make; what is left out is the broker's default."""

    topic_name: Text = Field(examples=["orders"])
    partitions_count: int | None = Field(default=None, ge=1, le=PARTITIONS_MAX)
    replication_factor: int | None = Field(default=None, ge=1, le=REPLICAS_MAX)
    replicas_assignments: list[ReplicasAssignment] | None = None
    configs: list[NewConfig] | None = None
    validate_only: bool | None = None

    def wanted(self) -> NewTopic:
        """What the broker is asked for. Raises Problem for assignments with gaps."""
        more: dict[str, Any] = {"replication_factor": self.replication_factor or -1}
        count = self.partitions_count or -1
        if self.replicas_assignments:
            if self.partitions_count or self.replication_factor:
                raise Problem(40002, "Say counts or replicas_assignments, not both.")
            more = {"replica_assignment": _in_order(self.replicas_assignments)}
            count = len(self.replicas_assignments)
        configs = {entry.name: entry.value for entry in self.configs or ()}
        return NewTopic(self.topic_name, num_partitions=count, config=configs, **more)


class UpdateTopic(Body):
    """How many partitions a topic shall have; never fewer than it has."""

    partitions_count: int = Field(ge=1, le=PARTITIONS_MAX)


def _in_order(assignments: list[ReplicasAssignment]) -> list[list[int]]:
    by_id = {one.partition_id: one.broker_ids for one in assignments}
    if sorted(by_id) != list(range(len(assignments))):
        raise Problem(
            40002, "replicas_assignments: partition ids run from 0, each of them once."
        )
    if any(not 0 <= broker <= ID_MAX for ids in by_id.values() for broker in ids):
        raise Problem(40002, "replicas_assignments: a broker's id is an int32 from 0.")
    return [by_id[number] for number in range(len(assignments))]


def render(place: Place, cluster_id: str, name: str, factors: list[int]) -> Topic:
    """A topic with its links; ``factors`` are the replicas of each partition."""
    own = place.at("topics", name)
    return Topic(
        metadata=own.metadata(),
        cluster_id=cluster_id,
        topic_name=name,
        is_internal=name in INTERNAL,
        replication_factor=max(factors, default=1),
        partitions_count=len(factors),
        partitions=own.link("partitions"),
        configs=own.link("configs"),
        partition_reassignments=own.link("partitions/-/reassignment"),
    )


def of_metadata(
    place: Place, cluster_id: str, name: str, found: TopicMetadata
) -> Topic:
    """A topic as Metadata lists it."""
    factors = [len(part.replicas) for part in found.partitions.values()]
    return render(place, cluster_id, name, factors)


def of_description(place: Place, cluster_id: str, found: Any) -> Topic:
    """A topic as librdkafka's TopicDescription has it, with what one may do."""
    factors = [len(part.replicas) for part in found.partitions]
    topic = render(place, cluster_id, found.name, factors)
    operations = found.authorized_operations or ()
    topic.authorized_operations = sorted(one.name for one in operations)
    return topic


def proposed(
    place: Place, cluster_id: str, body: CreateTopic, broker: Mapping[str, Any]
) -> Topic:
    """What a topic would be that was only validated; ``broker`` are the configurations
    of who would make it, as librdkafka's ConfigEntry, by name."""
    if body.replicas_assignments:
        factors = [len(one.broker_ids) for one in body.replicas_assignments]
    else:
        count = body.partitions_count or int(broker["num.partitions"].value)
        factor = body.replication_factor or int(
            broker["default.replication.factor"].value
        )
        factors = [factor] * count
    return render(place, cluster_id, body.topic_name, factors)
