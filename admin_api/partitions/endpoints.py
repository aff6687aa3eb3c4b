"""Partitions of a topic: their offsets, their replicas, their reassignments."""

from typing import Annotated, Any

from confluent_kafka.admin import OffsetSpec
from fastapi import APIRouter, Depends, Response

from admin_api.dependencies import (
    BrokerId,
    ClusterDep,
    KafkaDep,
    PartitionId,
    TopicNameDep,
)
from admin_api.kafka import UNCOMMITTED
from admin_api.long_lists import written
from admin_api.partitions import schemas
from admin_api.partitions.schemas import (
    Partition,
    PartitionList,
    PartitionWithOffsets,
    ReassignmentList,
    Replica,
    ReplicaList,
)
from admin_api.problems import Problem

router = APIRouter(prefix="/v3/clusters/{cluster_id}/topics", tags=["Partition"])


async def _known(name: TopicNameDep, partition_id: PartitionId, kafka: KafkaDep) -> Any:
    [topic] = await kafka.describe_topics([name])
    found = next((one for one in topic.partitions if one.id == partition_id), None)
    if found is None:
        raise Problem(40403, "This server does not host this topic-partition.")
    return found


KnownDep = Annotated[Any, Depends(_known)]
"""A partition that is there, as librdkafka's TopicPartitionInfo."""


@router.get("/-/partitions/-/reassignment", summary="List all reassignments")
async def list_all_reassignments(cluster: ClusterDep) -> ReassignmentList:
    """None: each partition stays where it is."""
    listed = cluster.place.listed("topics/-/partitions/-/reassignment")
    return ReassignmentList(metadata=listed, data=[])


@router.get(
    "/{topic_name}/partitions",
    response_model=PartitionList,
    summary="List partitions",
)
async def list_partitions(
    cluster: ClusterDep, name: TopicNameDep, kafka: KafkaDep
) -> Response:
    """All partitions of a topic."""
    [topic] = await kafka.describe_topics([name])
    return await written(
        lambda: PartitionList(
            metadata=cluster.place.at("topics", name).listed("partitions"),
            data=[
                schemas.render(cluster.place, cluster.id, name, one)
                for one in topic.partitions
            ],
        )
    )


@router.get("/{topic_name}/partitions/-/reassignment", summary="List reassignments")
async def list_reassignments(
    cluster: ClusterDep, name: TopicNameDep, kafka: KafkaDep
) -> ReassignmentList:
    """None, of a topic that is there."""
    await kafka.describe_topics([name])
    own = cluster.place.at("topics", name)
    return ReassignmentList(metadata=own.listed("partitions/-/reassignment"), data=[])


@router.get("/{topic_name}/partitions/{partition_id}", summary="Get a partition")
async def get_partition(
    cluster: ClusterDep, name: TopicNameDep, found: KnownDep
) -> Partition:
    """One partition."""
    return schemas.render(cluster.place, cluster.id, name, found)


@router.get("/{topic_name}/partitions/{partition_id}/offset", summary="Get offsets")
async def get_offsets(
    cluster: ClusterDep, name: TopicNameDep, found: KnownDep, kafka: KafkaDep
) -> PartitionWithOffsets:
    """The earliest offset, and the one that the next record gets."""
    own = (name, found.id)
    earliest = await kafka.offsets([own], OffsetSpec.earliest())
    latest = await kafka.offsets([own], OffsetSpec.latest(), UNCOMMITTED)
    if own not in earliest or own not in latest:
        raise Problem(40403, "This server does not host this topic-partition.")
    offsets = (earliest[own], latest[own])
    return schemas.with_offsets(cluster.place, cluster.id, own, offsets)


@router.get(
    "/{topic_name}/partitions/{partition_id}/reassignment",
    summary="Get a reassignment",
)
async def get_reassignment(
    cluster: ClusterDep, name: TopicNameDep, found: KnownDep
) -> schemas.Reassignment:
    """404: no partition is ever moved."""
    raise Problem(404, f"Partition {found.id} of {name} is not being reassigned.")


@router.get("/{topic_name}/partitions/{partition_id}/replicas", summary="List replicas")
async def list_replicas(
    cluster: ClusterDep, name: TopicNameDep, found: KnownDep
) -> ReplicaList:
    """The replicas of a partition."""
    own = schemas.place_of(cluster.place, name, found.id)
    data = list(schemas.replicas(cluster.place, cluster.id, name, found))
    return ReplicaList(metadata=own.listed("replicas"), data=data)


@router.get(
    "/{topic_name}/partitions/{partition_id}/replicas/{broker_id}",
    summary="Get a replica",
)
async def get_replica(
    cluster: ClusterDep,
    name: TopicNameDep,
    found: KnownDep,
    broker_id: BrokerId,
) -> Replica:
    """The replica that one broker has."""
    for one in schemas.replicas(cluster.place, cluster.id, name, found):
        if one.broker_id == broker_id:
            return one
    raise Problem(404, f"Broker {broker_id} has no replica of {name}-{found.id}.")
