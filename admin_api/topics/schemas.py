"""Topics in the Confluent v3 shape."""

from collections.abc import Mapping
from typing import Annotated, Any

from confluent_kafka.admin import NewTopic, TopicMetadata
from pydantic import Field

from admin_api.dependencies import ID_MAX, ConfigText, Text
from admin_api.fields import (
    TOPIC,
    KindField,
    TopicNameField,
    ValidateOnlyField,
    shown_as,
)
from admin_api.integers import NUMBER
from admin_api.problems import Problem
from admin_api.resources import Body, Collection, Place, Related, Resource
from broker.topics.topic import INTERNAL

PARTITIONS_MAX = 100_000
REPLICAS_MAX = 10_000
"""librdkafka takes no more."""
_Partitions = Annotated[int, Field(ge=1, le=PARTITIONS_MAX), NUMBER]


class Topic(Resource):
    """A topic; its table is `/v1/tables/{topic_name}`."""

    kind: KindField = "KafkaTopic"
    topic_name: TopicNameField
    is_internal: bool = Field(
        description="Whether Kafka keeps its own state in it, as in "
        "`__consumer_offsets`."
    )
    replication_factor: int = Field(
        description="On how many brokers each partition is.", examples=[1]
    )
    partitions_count: int = Field(
        description="How many partitions it has.", examples=[3]
    )
    partitions: Related = Field(description="Its partitions.")
    configs: Related = Field(description="Its configurations.")
    partition_reassignments: Related = Field(
        description="Reassignments of its partitions that are under way."
    )
    authorized_operations: list[str] = Field(
        default_factory=list,
        description="What the caller may do with it; empty unless it was asked for.",
        examples=[["ALTER", "DESCRIBE", "READ", "WRITE"]],
    )


class TopicList(Collection):
    """The topics of a cluster."""

    kind: KindField = "KafkaTopicList"
    data: list[Topic] = Field(description="Sorted by name.")


class NewConfig(Body):
    """A configuration of a topic to be."""

    name: Text = Field(description="Its name.", examples=["retention.ms"])
    value: ConfigText = Field(
        default=None,
        description="Its value as text; a number or boolean will do.",
        examples=["86400000"],
    )


class ReplicasAssignment(Body):
    """On which brokers a partition is, its leader first."""

    partition_id: Annotated[int, Field(ge=0, le=PARTITIONS_MAX), NUMBER] = Field(
        description="The number of the partition.",
        examples=[0],
    )
    broker_ids: list[Annotated[int, NUMBER]] = Field(
        max_length=REPLICAS_MAX,
        description="Brokers that have it, its leader first.",
        examples=[[1]],
    )


class CreateTopic(Body):
    """A topic to make; what is left out is the broker's default."""

    model_config = shown_as(
        {
            "topic_name": "payments",
            "partitions_count": 3,
            "configs": [{"name": "retention.ms", "value": "86400000"}],
        },
        {"topic_name": "refunds", "validate_only": True},
    )

    topic_name: Text = Field(
        description="Its name: letters, digits, `.`, `_` and `-`, 249 at most.",
        examples=[TOPIC],
    )
    partitions_count: _Partitions | None = Field(
        default=None,
        description="How many partitions; null: the broker's `num.partitions`.",
        examples=[3],
    )
    replication_factor: Annotated[int | None, Field(ge=1, le=REPLICAS_MAX), NUMBER] = (
        Field(
            default=None,
            description="On how many brokers; with one broker that is 1.",
            examples=[1],
        )
    )
    replicas_assignments: list[ReplicasAssignment] | None = Field(
        default=None,
        description="Which brokers have which partition, in the place of both counts.",
    )
    configs: list[NewConfig] | None = Field(
        default=None,
        description="What is set for it; all else has the broker's defaults.",
    )
    validate_only: ValidateOnlyField = None

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

    model_config = shown_as({"partitions_count": 6})

    partitions_count: _Partitions = Field(
        description="How many partitions it has then.",
        examples=[6],
    )


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
