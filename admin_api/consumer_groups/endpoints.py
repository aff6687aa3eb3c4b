"""Consumer groups: who is in them, what they have, and how far they are behind."""

from typing import Annotated, Any

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException
from confluent_kafka.admin import OffsetSpec
from fastapi import APIRouter, Depends, Path, Response

from admin_api.consumer_groups import schemas
from admin_api.consumer_groups.lags import Lag, lags, readers
from admin_api.consumer_groups.schemas import (
    Consumer,
    ConsumerAssignment,
    ConsumerAssignmentList,
    ConsumerGroup,
    ConsumerGroupLagSummary,
    ConsumerGroupList,
    ConsumerLag,
    ConsumerLagList,
    ConsumerList,
)
from admin_api.dependencies import (
    ClusterDep,
    GroupId,
    KafkaDep,
    PartitionId,
    Text,
    TopicNameDep,
)
from admin_api.fields import CONSUMER
from admin_api.kafka import Kafka
from admin_api.long_lists import written
from admin_api.paging import PageDep, cut
from admin_api.problems import Problem

router = APIRouter(
    prefix="/v3/clusters/{cluster_id}/consumer-groups", tags=["Consumer Group"]
)
OF_GROUP = "/{consumer_group_id}"
OF_CONSUMER = OF_GROUP + "/consumers/{consumer_id}"


async def _known(
    consumer_group_id: GroupId, cluster: ClusterDep, kafka: KafkaDep
) -> Any:
    """Kafka describes a group that is not there as dead, or says so."""
    unknown = Problem(404, f"Consumer group {consumer_group_id} could not be found.")
    try:
        found = await kafka.describe_group(consumer_group_id)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
            raise unknown from None
        raise
    if found.state == ConsumerGroupState.DEAD:
        raise unknown
    return found


GroupDep = Annotated[Any, Depends(_known)]
"""A group that is there, as librdkafka's ConsumerGroupDescription."""


def _member(
    consumer_id: Annotated[
        Text,
        Path(
            description="The id of a member, as the list of consumers says it.",
            examples=[CONSUMER],
        ),
    ],
    group: GroupDep,
) -> Any:
    for member in group.members:
        if member.member_id == consumer_id:
            return member
    raise Problem(
        404, f"Consumer {consumer_id} could not be found in {group.group_id}."
    )


MemberDep = Annotated[Any, Depends(_member)]
"""A consumer that is there, as librdkafka's MemberDescription."""


async def _lags(kafka: Kafka, group: Any) -> list[Lag]:
    committed = await kafka.committed(group.group_id)
    ends = await kafka.offsets(committed, OffsetSpec.latest())
    found = lags(committed, ends, readers(group.members))
    if not found:
        raise Problem(404, "Consumer group offsets could not be found.")
    return found


@router.get("", summary="List consumer groups")
async def list_groups(
    cluster: ClusterDep, kafka: KafkaDep, page: PageDep
) -> ConsumerGroupList:
    """All groups, sorted by id; or a page of them. One that cannot be described is
    shown without its assignor."""
    listed = await kafka.groups()
    chosen = cut(listed, page)
    found = await kafka.describe_groups(chosen.keys)
    data = [
        schemas.undescribed(
            cluster.place, cluster.id, listed[name], cluster.controller_id
        )
        if isinstance(one, KafkaException)
        else schemas.group(cluster.place, cluster.id, one)
        for name, one in zip(chosen.keys, found, strict=True)
    ]
    metadata = cluster.place.listed("consumer-groups", chosen.following)
    return ConsumerGroupList(metadata=metadata, data=data)


@router.get(OF_GROUP, summary="Get a consumer group")
async def get_group(cluster: ClusterDep, group: GroupDep) -> ConsumerGroup:
    """One group."""
    return schemas.group(cluster.place, cluster.id, group)


@router.get(OF_GROUP + "/consumers", summary="List consumers")
async def list_consumers(cluster: ClusterDep, group: GroupDep) -> ConsumerList:
    """The members of a group."""
    own = cluster.place.at("consumer-groups", group.group_id)
    data = [
        schemas.consumer(cluster.place, cluster.id, group.group_id, member)
        for member in group.members
    ]
    return ConsumerList(metadata=own.listed("consumers"), data=data)


@router.get(OF_CONSUMER, summary="Get a consumer")
async def get_consumer(
    cluster: ClusterDep, group: GroupDep, member: MemberDep
) -> Consumer:
    """One member of a group."""
    return schemas.consumer(cluster.place, cluster.id, group.group_id, member)


@router.get(OF_CONSUMER + "/assignments", summary="List assignments")
async def list_assignments(
    cluster: ClusterDep, group: GroupDep, member: MemberDep
) -> ConsumerAssignmentList:
    """The partitions that a consumer has."""
    own = cluster.place.at("consumer-groups", group.group_id)
    data = [
        schemas.assignment(cluster.place, cluster.id, group.group_id, member, one)
        for one in sorted(member.assignment.topic_partitions)
    ]
    listed = own.at("consumers", member.member_id).listed("assignments")
    return ConsumerAssignmentList(metadata=listed, data=data)


@router.get(
    OF_CONSUMER + "/assignments/{topic_name}/partitions/{partition_id}",
    summary="Get an assignment",
)
async def get_assignment(
    cluster: ClusterDep,
    group: GroupDep,
    member: MemberDep,
    name: TopicNameDep,
    partition_id: PartitionId,
) -> ConsumerAssignment:
    """One partition that a consumer has."""
    for one in member.assignment.topic_partitions:
        if (one.topic, one.partition) == (name, partition_id):
            return schemas.assignment(
                cluster.place, cluster.id, group.group_id, member, one
            )
    raise Problem(404, f"{name}-{partition_id} is not assigned to this consumer.")


@router.get(OF_GROUP + "/lag-summary", summary="Get a consumer group's lag summary")
async def get_lag_summary(
    cluster: ClusterDep, group: GroupDep, kafka: KafkaDep
) -> ConsumerGroupLagSummary:
    """Where a group is behind the most, and how far in all."""
    found = await _lags(kafka, group)
    return schemas.summary(cluster.place, cluster.id, group.group_id, found)


@router.get(
    OF_GROUP + "/lags", response_model=ConsumerLagList, summary="List consumer lags"
)
async def list_lags(cluster: ClusterDep, group: GroupDep, kafka: KafkaDep) -> Response:
    """How far a group is behind, partition by partition."""
    found = await _lags(kafka, group)
    own = cluster.place.at("consumer-groups", group.group_id)
    return await written(
        lambda: ConsumerLagList(
            metadata=own.listed("lags"),
            data=[
                schemas.lag(cluster.place, cluster.id, group.group_id, one)
                for one in found
            ],
        )
    )


@router.get(
    OF_GROUP + "/lags/{topic_name}/partitions/{partition_id}",
    summary="Get a consumer lag",
)
async def get_lag(
    cluster: ClusterDep,
    group: GroupDep,
    kafka: KafkaDep,
    name: TopicNameDep,
    partition_id: PartitionId,
) -> ConsumerLag:
    """How far a group is behind in one partition."""
    for one in await _lags(kafka, group):
        if (one.topic, one.partition) == (name, partition_id):
            return schemas.lag(cluster.place, cluster.id, group.group_id, one)
    raise Problem(404, f"Consumer group offsets of {name}-{partition_id} are unknown.")
