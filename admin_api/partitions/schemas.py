"""Partitions, their replicas and their reassignments in the Confluent v3 shape."""

from collections.abc import Iterator
from typing import Any

from confluent_kafka.admin import TopicMetadata

from admin_api.resources import Collection, Place, Related, Resource


class Partition(Resource):
    kind: str = "KafkaPartition"
    topic_name: str
    partition_id: int
    leader: Related | None
    replicas: Related
    reassignment: Related


class PartitionList(Collection):
    kind: str = "KafkaPartitionList"
    data: list[Partition]


class PartitionWithOffsets(Resource):
    kind: str = "KafkaPartitionWithOffsets"
    topic_name: str
    partition_id: int
    earliest_offset: int
    latest_offset: int


class Replica(Resource):
    kind: str = "KafkaReplica"
    topic_name: str
    partition_id: int
    broker_id: int
    is_leader: bool
    is_in_sync: bool
    broker: Related


class ReplicaList(Collection):
    kind: str = "KafkaReplicaList"
    data: list[Replica]


class Reassignment(Resource):
    """One broker has none: only their list is ever answered, and it is empty."""

    kind: str = "KafkaReassignment"
    topic_name: str
    partition_id: int
    adding_replicas: list[int]
    removing_replicas: list[int]
    replicas: Related


class ReassignmentList(Collection):
    kind: str = "KafkaReassignmentList"
    data: list[Reassignment]


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
