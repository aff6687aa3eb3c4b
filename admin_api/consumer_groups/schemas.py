"""Consumer groups in the Confluent v3 shape."""

from typing import Any

from confluent_kafka import ConsumerGroupState
from pydantic import Field

from admin_api.consumer_groups.lags import Lag
from admin_api.fields import (
    ClientIdField,
    ConsumerIdField,
    GroupIdField,
    InstanceIdField,
    KindField,
    PartitionIdField,
    TopicNameField,
)
from admin_api.resources import Collection, Place, Related, Resource

STATES = {
    ConsumerGroupState.PREPARING_REBALANCING: "PREPARING_REBALANCE",
    ConsumerGroupState.COMPLETING_REBALANCING: "COMPLETING_REBALANCE",
}
"""Where librdkafka's word is not Kafka's."""


class ConsumerGroup(Resource):
    """A consumer group and the state it is in."""

    kind: KindField = "KafkaConsumerGroup"
    consumer_group_id: GroupIdField
    is_simple: bool = Field(
        description="Whether it only commits offsets and has no members that Kafka "
        "assigns partitions to."
    )
    partition_assignor: str = Field(
        description="How partitions are shared among the members; empty while "
        "nobody is in the group.",
        examples=["range"],
    )
    state: str = Field(
        description="`STABLE`, `EMPTY`, `PREPARING_REBALANCE`, "
        "`COMPLETING_REBALANCE`, `ASSIGNING`, `RECONCILING` or `DEAD`.",
        examples=["STABLE"],
    )
    type: str = Field(
        description="`CLASSIC`, or `CONSUMER` for the protocol of KIP-848.",
        examples=["CLASSIC"],
    )
    is_mixed_consumer_group: bool = Field(
        default=False,
        description="Whether members of both protocols are in it; always false here.",
    )
    coordinator: Related = Field(description="The broker that coordinates it.")
    consumers: Related = Field(description="Its members.")
    lag_summary: Related = Field(description="How far it is behind.")


class ConsumerGroupList(Collection):
    """The consumer groups of a cluster."""

    kind: KindField = "KafkaConsumerGroupList"
    data: list[ConsumerGroup] = Field(description="Sorted by id.")


class Consumer(Resource):
    """A member of a consumer group."""

    kind: KindField = "KafkaConsumer"
    consumer_group_id: GroupIdField
    consumer_id: ConsumerIdField
    instance_id: InstanceIdField
    client_id: ClientIdField
    assignments: Related = Field(description="The partitions that it has.")


class ConsumerList(Collection):
    """The members of a consumer group."""

    kind: KindField = "KafkaConsumerList"
    data: list[Consumer] = Field(description="One for each member.")


class ConsumerAssignment(Resource):
    """A partition that a member of a group has."""

    kind: KindField = "KafkaConsumerAssignment"
    consumer_group_id: GroupIdField
    consumer_id: ConsumerIdField
    topic_name: TopicNameField
    partition_id: PartitionIdField
    partition: Related = Field(description="The partition.")
    lag: Related = Field(description="How far the group is behind in it.")


class ConsumerAssignmentList(Collection):
    """The partitions that a member of a group has."""

    kind: KindField = "KafkaConsumerAssignmentList"
    data: list[ConsumerAssignment] = Field(description="By topic and partition.")


class ConsumerLag(Resource):
    """How far a group is behind in one partition."""

    kind: KindField = "KafkaConsumerLag"
    consumer_group_id: GroupIdField
    topic_name: TopicNameField
    partition_id: PartitionIdField
    current_offset: int = Field(
        description="The offset that the group committed: it reads on there.",
        examples=[1200],
    )
    log_end_offset: int = Field(
        description="The end of what it may read of the partition.", examples=[1500]
    )
    lag: int = Field(
        description="What lies between, in records (or offsets of transactions' ends).",
        examples=[300],
    )
    consumer_id: ConsumerIdField
    instance_id: InstanceIdField
    client_id: ClientIdField


class ConsumerLagList(Collection):
    """How far a group is behind, partition by partition."""

    kind: KindField = "KafkaConsumerLagList"
    data: list[ConsumerLag] = Field(
        description="By topic and partition, of all that it committed."
    )


class ConsumerGroupLagSummary(Resource):
    """Where a group is behind the most, and how far in all."""

    kind: KindField = "KafkaConsumerGroupLagSummary"
    consumer_group_id: GroupIdField
    max_lag_consumer_id: ConsumerIdField
    max_lag_instance_id: InstanceIdField
    max_lag_client_id: ClientIdField
    max_lag_topic_name: TopicNameField
    max_lag_partition_id: PartitionIdField
    max_lag: int = Field(description="The lag of that partition.", examples=[300])
    total_lag: int = Field(
        description="The lags of all its partitions together.", examples=[410]
    )
    max_lag_consumer: Related = Field(description="The member that has that partition.")
    max_lag_partition: Related = Field(description="That partition.")


def group(place: Place, cluster_id: str, found: Any) -> ConsumerGroup:
    """A group from librdkafka's ConsumerGroupDescription."""
    shown = undescribed(place, cluster_id, found, found.coordinator.id)
    shown.partition_assignor = found.partition_assignor or ""
    return shown


def undescribed(
    place: Place, cluster_id: str, found: Any, coordinator: int
) -> ConsumerGroup:
    """A group of which no more is known than librdkafka's ConsumerGroupListing."""
    own = place.at("consumer-groups", found.group_id)
    return ConsumerGroup(
        metadata=own.metadata(),
        cluster_id=cluster_id,
        consumer_group_id=found.group_id,
        is_simple=found.is_simple_consumer_group,
        partition_assignor="",
        state=STATES.get(found.state, found.state.name),
        type=found.type.name,
        coordinator=place.at("brokers", coordinator).link(),
        consumers=own.link("consumers"),
        lag_summary=own.link("lag-summary"),
    )


def consumer(place: Place, cluster_id: str, group_id: str, member: Any) -> Consumer:
    """A consumer from librdkafka's MemberDescription."""
    own = place.at("consumer-groups", group_id).at("consumers", member.member_id)
    return Consumer(
        metadata=own.metadata(),
        cluster_id=cluster_id,
        consumer_group_id=group_id,
        consumer_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        assignments=own.link("assignments"),
    )


def assignment(
    place: Place, cluster_id: str, group_id: str, member: Any, partition: Any
) -> ConsumerAssignment:
    """A partition that a consumer has."""
    of_group = place.at("consumer-groups", group_id)
    of_topic = place.at("topics", partition.topic)
    own = of_group.at("consumers", member.member_id).at("assignments", partition.topic)
    lag = of_group.at("lags", partition.topic).at("partitions", partition.partition)
    return ConsumerAssignment(
        metadata=own.at("partitions", partition.partition).metadata(),
        cluster_id=cluster_id,
        consumer_group_id=group_id,
        consumer_id=member.member_id,
        topic_name=partition.topic,
        partition_id=partition.partition,
        partition=of_topic.at("partitions", partition.partition).link(),
        lag=lag.link(),
    )


def lag(place: Place, cluster_id: str, group_id: str, found: Lag) -> ConsumerLag:
    """How far a group is behind in one partition."""
    own = place.at("consumer-groups", group_id).at("lags", found.topic)
    return ConsumerLag(
        metadata=own.at("partitions", found.partition).metadata(),
        cluster_id=cluster_id,
        consumer_group_id=group_id,
        topic_name=found.topic,
        partition_id=found.partition,
        current_offset=found.current_offset,
        log_end_offset=found.end_offset,
        lag=found.records,
        consumer_id=found.reader.consumer_id,
        instance_id=found.reader.instance_id,
        client_id=found.reader.client_id,
    )


def summary(
    place: Place, cluster_id: str, group_id: str, found: list[Lag]
) -> ConsumerGroupLagSummary:
    """Where a group is behind the most, and how far in all; ``found`` is not empty."""
    own = place.at("consumer-groups", group_id)
    most = max(found, key=lambda one: one.records)
    consumer_place = own.at("consumers", most.reader.consumer_id)
    topic = place.at("topics", most.topic)
    return ConsumerGroupLagSummary(
        metadata=own.one("lag-summary").metadata(),
        cluster_id=cluster_id,
        consumer_group_id=group_id,
        max_lag_consumer_id=most.reader.consumer_id,
        max_lag_instance_id=most.reader.instance_id,
        max_lag_client_id=most.reader.client_id,
        max_lag_topic_name=most.topic,
        max_lag_partition_id=most.partition,
        max_lag=most.records,
        total_lag=sum(one.records for one in found),
        max_lag_consumer=consumer_place.link(),
        max_lag_partition=topic.at("partitions", most.partition).link(),
    )
