"""Partitions, their replicas and their reassignments in the Confluent v3 shape."""

from collections.abc import Iterator
from typing import Any

from confluent_kafka.admin import TopicMetadata
from pydantic import Field

from admin_api.fields import (
    BrokerIdField,
    KindField,
    PartitionIdField,
    TopicNameField,
)
from admin_api.resources import Collection, Place, Related, Resource


class Partition(Resource):
    """A partition of a topic."""

    kind: KindField = "KafkaPartition"
    topic_name: TopicNameField
    partition_id: PartitionIdField
    leader: Related | None = Field(
        description="The replica that clients read and write; null while there is none."
    )
    replicas: Related = Field(description="Its replicas.")
    reassignment: Related = Field(description="Its reassignment, if one is under way.")


class PartitionList(Collection):
    """The partitions of a topic."""

    kind: KindField = "KafkaPartitionList"
    data: list[Partition] = Field(description="Sorted by number.")


class PartitionWithOffsets(Resource):
    """Where the log of a partition begins and ends."""

    kind: KindField = "KafkaPartitionWithOffsets"
    topic_name: TopicNameField
    partition_id: PartitionIdField
    earliest_offset: int = Field(
        description="The first offset that can be read.", examples=[0]
    )
    latest_offset: int = Field(
        description="The offset that the next record gets; its consumers read up "
        "to it.",
        examples=[1500],
    )


class Replica(Resource):
    """A partition as one broker has it."""

    kind: KindField = "KafkaReplica"
    topic_name: TopicNameField
    partition_id: PartitionIdField
    broker_id: BrokerIdField
    is_leader: bool = Field(description="Whether clients read and write this one.")
    is_in_sync: bool = Field(description="Whether it has all that was acknowledged.")
    broker: Related = Field(description="The broker that has it.")


class ReplicaList(Collection):
    """Replicas of partitions."""

    kind: KindField = "KafkaReplicaList"
    data: list[Replica] = Field(description="By partition and broker.")


class Reassignment(Resource):
    """One broker has none: only their list is ever answered, and it is empty."""

    kind: KindField = "KafkaReassignment"
    topic_name: TopicNameField
    partition_id: PartitionIdField
    adding_replicas: list[int] = Field(
        description="Brokers that it comes to.", examples=[[2]]
    )
    removing_replicas: list[int] = Field(
        description="Brokers that it leaves.", examples=[[1]]
    )
    replicas: Related = Field(description="Its replicas.")


class ReassignmentList(Collection):
    """Reassignments that are under way: none, with one broker."""

    kind: KindField = "KafkaReassignmentList"
    data: list[Reassignment] = Field(description="Always empty.")


def place_of(place: Place, topic: str, partition_id: int) -> Place:
    """Where a partition is in the cluster at ``place``."""
    return place.at("topics", topic).at("partitions", partition_id)


def render(place: Place, cluster_id: str, topic: str, found: Any) -> Partition:
    """A partition from librdkafka's TopicPartitionInfo."""
    own = place_of(place, topic, found.id)
    leader = own.at("replicas", found.leader.id).link() if found.leader else None
    return Partition(
        metadata=own.metadata(),
        cluster_id=cluster_id,
        topic_name=topic,
        partition_id=found.id,
        leader=leader,
        replicas=own.link("replicas"),
        reassignment=own.link("reassignment"),
    )


def with_offsets(
    place: Place, cluster_id: str, partition: tuple[str, int], offsets: tuple[int, int]
) -> PartitionWithOffsets:
    """A partition with its earliest and its latest offset."""
    topic, number = partition
    return PartitionWithOffsets(
        metadata=place_of(place, topic, number).one("offset").metadata(),
        cluster_id=cluster_id,
        topic_name=topic,
        partition_id=number,
        earliest_offset=offsets[0],
        latest_offset=offsets[1],
    )


def replica(
    place: Place,
    cluster_id: str,
    partition: tuple[str, int],
    broker_id: int,
    is_leader: bool,
    is_in_sync: bool,
) -> Replica:
    """A partition as one broker has it."""
    topic, number = partition
    own = place_of(place, topic, number).at("replicas", broker_id)
    return Replica(
        metadata=own.metadata(),
        cluster_id=cluster_id,
        topic_name=topic,
        partition_id=number,
        broker_id=broker_id,
        is_leader=is_leader,
        is_in_sync=is_in_sync,
        broker=place.at("brokers", broker_id).link(),
    )


def replicas(
    place: Place, cluster_id: str, topic: str, found: Any
) -> Iterator[Replica]:
    """The replicas of a partition from librdkafka's TopicPartitionInfo."""
    leader = found.leader.id if found.leader else -1
    in_sync = {node.id for node in found.isr}
    for node in found.replicas:
        yield replica(
            place,
            cluster_id,
            (topic, found.id),
            node.id,
            is_leader=node.id == leader,
            is_in_sync=node.id in in_sync,
        )


def of_metadata(
    place: Place, cluster_id: str, found: TopicMetadata
) -> Iterator[Replica]:
    """All replicas of a topic as Metadata lists it."""
    for number, part in sorted(found.partitions.items()):
        for broker_id in part.replicas:
            yield replica(
                place,
                cluster_id,
                (found.topic, number),
                broker_id,
                is_leader=broker_id == part.leader,
                is_in_sync=broker_id in part.isrs,
            )
