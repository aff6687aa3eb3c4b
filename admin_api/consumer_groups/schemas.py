"""Consumer groups in the Confluent v3 shape."""

from typing import Any

from confluent_kafka import ConsumerGroupState

from admin_api.consumer_groups.lags import Lag
from admin_api.resources import Collection, Place, Related, Resource

STATES = {
    ConsumerGroupState.PREPARING_REBALANCING: "PREPARING_REBALANCE",
    ConsumerGroupState.COMPLETING_REBALANCING: "COMPLETING_REBALANCE",
}
"""Where librdkafka's word is not Kafka's."""


class ConsumerGroup(Resource):
    kind: str = "KafkaConsumerGroup"
    consumer_group_id: str
    is_simple: bool
    partition_assignor: str
    state: str
    type: str
    is_mixed_consumer_group: bool = False
    coordinator: Related
    consumers: Related
    lag_summary: Related


class ConsumerGroupList(Collection):
    kind: str = "KafkaConsumerGroupList"
    data: list[ConsumerGroup]


class Consumer(Resource):
    kind: str = "KafkaConsumer"
    consumer_group_id: str
    consumer_id: str
    instance_id: str | None
    client_id: str
    assignments: Related


class ConsumerList(Collection):
    kind: str = "KafkaConsumerList"
    data: list[Consumer]


class ConsumerAssignment(Resource):
    kind: str = "KafkaConsumerAssignment"
    consumer_group_id: str
    consumer_id: str
    topic_name: str
    partition_id: int
    partition: Related
    lag: Related


class ConsumerAssignmentList(Collection):
    kind: str = "KafkaConsumerAssignmentList"
    data: list[ConsumerAssignment]


class ConsumerLag(Resource):
    kind: str = "KafkaConsumerLag"
    consumer_group_id: str
    topic_name: str
    partition_id: int
    current_offset: int
    log_end_offset: int
    lag: int
    consumer_id: str
    instance_id: str | None
    client_id: str


class ConsumerLagList(Collection):
    kind: str = "KafkaConsumerLagList"
    data: list[ConsumerLag]


class ConsumerGroupLagSummary(Resource):
    kind: str = "KafkaConsumerGroupLagSummary"
    consumer_group_id: str
    max_lag_consumer_id: str
    max_lag_instance_id: str | None
    max_lag_client_id: str
    max_lag_topic_name: str
    max_lag_partition_id: int
    max_lag: int
    total_lag: int
    max_lag_consumer: Related
    max_lag_partition: Related


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
