"""Groups have the fields of Confluent's published document."""

import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupType,
    Node,
    TopicPartition,
)
from confluent_kafka.admin import (
    ConsumerGroupDescription,
    MemberAssignment,
    MemberDescription,
)

from admin_api.consumer_groups import schemas
from admin_api.consumer_groups.lags import Lag, Reader
from admin_api.resources import cluster_place

PLACE = cluster_place("http://plane", "c")
GROUP = f"{PLACE.url}/consumer-groups/g"
CRN = "crn:///kafka=c/consumer-group=g"
PARTITION = TopicPartition("t", 2)
MEMBER = MemberDescription("m", "client", "h", MemberAssignment([PARTITION]), "i")


def described(state):
    return ConsumerGroupDescription(
        "g",
        False,
        [MEMBER],
        "range",
        state,
        Node(1, "h", 1),
        type=ConsumerGroupType.CLASSIC,
    )


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (ConsumerGroupState.STABLE, "STABLE"),
        (ConsumerGroupState.EMPTY, "EMPTY"),
        (ConsumerGroupState.PREPARING_REBALANCING, "PREPARING_REBALANCE"),
        (ConsumerGroupState.COMPLETING_REBALANCING, "COMPLETING_REBALANCE"),
    ],
)
def test_a_group_says_its_state_in_kafkas_word(state, word):
    assert schemas.group(PLACE, "c", described(state)).model_dump() == {
        "kind": "KafkaConsumerGroup",
        "metadata": {"self": GROUP, "resource_name": CRN},
        "cluster_id": "c",
        "consumer_group_id": "g",
        "is_simple": False,
        "partition_assignor": "range",
        "state": word,
        "type": "CLASSIC",
        "is_mixed_consumer_group": False,
        "coordinator": {"related": f"{PLACE.url}/brokers/1"},
        "consumers": {"related": f"{GROUP}/consumers"},
        "lag_summary": {"related": f"{GROUP}/lag-summary"},
    }


def test_a_consumer_names_its_client():
    own = f"{GROUP}/consumers/m"
    assert schemas.consumer(PLACE, "c", "g", MEMBER).model_dump() == {
        "kind": "KafkaConsumer",
        "metadata": {"self": own, "resource_name": f"{CRN}/consumer=m"},
        "cluster_id": "c",
        "consumer_group_id": "g",
        "consumer_id": "m",
        "instance_id": "i",
        "client_id": "client",
        "assignments": {"related": f"{own}/assignments"},
    }


def test_an_assignment_names_its_partition_and_its_lag():
    found = schemas.assignment(PLACE, "c", "g", MEMBER, PARTITION).model_dump()
    assert found == {
        "kind": "KafkaConsumerAssignment",
        "metadata": {
            "self": f"{GROUP}/consumers/m/assignments/t/partitions/2",
            "resource_name": f"{CRN}/consumer=m/assignment=t/partition=2",
        },
        "cluster_id": "c",
        "consumer_group_id": "g",
        "consumer_id": "m",
        "topic_name": "t",
        "partition_id": 2,
        "partition": {"related": f"{PLACE.url}/topics/t/partitions/2"},
        "lag": {"related": f"{GROUP}/lags/t/partitions/2"},
    }


def lag(partition, current, end, reader):
    return Lag("t", partition, current, end, reader)


def test_a_lag_names_who_is_behind():
    found = schemas.lag(PLACE, "c", "g", lag(2, 3, 10, Reader("m", "i", "client")))
    assert found.model_dump() == {
        "kind": "KafkaConsumerLag",
        "metadata": {
            "self": f"{GROUP}/lags/t/partitions/2",
            "resource_name": f"{CRN}/lag=t/partition=2",
        },
        "cluster_id": "c",
        "consumer_group_id": "g",
        "topic_name": "t",
        "partition_id": 2,
        "current_offset": 3,
        "log_end_offset": 10,
        "lag": 7,
        "consumer_id": "m",
        "instance_id": "i",
        "client_id": "client",
    }


def test_a_summary_is_of_the_partition_that_is_behind_the_most():
    lags = [lag(0, 1, 3, Reader()), lag(1, 1, 9, Reader("m", None, "client"))]
    found = schemas.summary(PLACE, "c", "g", lags)
    assert (found.max_lag, found.total_lag) == (8, 10)
    assert found.model_dump(exclude={"max_lag", "total_lag"}) == {
        "kind": "KafkaConsumerGroupLagSummary",
        "metadata": {
            "self": f"{GROUP}/lag-summary",
            "resource_name": f"{CRN}/lag-summary",
        },
        "cluster_id": "c",
        "consumer_group_id": "g",
        "max_lag_consumer_id": "m",
        "max_lag_instance_id": None,
        "max_lag_client_id": "client",
        "max_lag_topic_name": "t",
        "max_lag_partition_id": 1,
        "max_lag_consumer": {"related": f"{GROUP}/consumers/m"},
        "max_lag_partition": {"related": f"{PLACE.url}/topics/t/partitions/1"},
    }
