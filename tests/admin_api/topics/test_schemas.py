"""Topics in the Confluent v3 shape, and what may be asked of a new one."""

import pytest

from admin_api.problems import Problem
from admin_api.resources import cluster_place
from admin_api.topics.schemas import CreateTopic, render

PLACE = cluster_place("http://plane", "c")


def wanted(**body):
    return CreateTopic.model_validate({"topic_name": "t", **body}).wanted()


def test_a_topic_has_the_fields_of_confluents_document():
    own = f"{PLACE.url}/topics/t"
    assert render(PLACE, "c", "t", [3, 3]).model_dump() == {
        "kind": "KafkaTopic",
        "metadata": {"self": own, "resource_name": "crn:///kafka=c/topic=t"},
        "cluster_id": "c",
        "topic_name": "t",
        "is_internal": False,
        "replication_factor": 3,
        "partitions_count": 2,
        "partitions": {"related": f"{own}/partitions"},
        "configs": {"related": f"{own}/configs"},
        "partition_reassignments": {"related": f"{own}/partitions/-/reassignment"},
        "authorized_operations": [],
    }


@pytest.mark.parametrize(
    ("name", "internal"),
    [("__consumer_offsets", True), ("__transaction_state", True), ("__mine", False)],
)
def test_kafkas_own_topics_are_internal(name, internal):
    assert render(PLACE, "c", name, [1]).is_internal is internal


def test_what_is_left_out_is_the_brokers_to_choose():
    topic = wanted()
    assert (topic.num_partitions, topic.replication_factor) == (-1, -1)


def test_assignments_come_in_the_order_of_their_partitions():
    said = [
        {"partition_id": 1, "broker_ids": [2, 1]},
        {"partition_id": 0, "broker_ids": [1]},
    ]
    topic = wanted(replicas_assignments=said)
    assert topic.num_partitions == 2
    assert topic.replica_assignment == [[1], [2, 1]]


@pytest.mark.parametrize(
    ("ids", "more"),
    [
        ([1], {}),
        ([0, 2], {}),
        ([0, 0], {}),
        ([0], {"partitions_count": 1}),
        ([0], {"replication_factor": 1}),
    ],
)
def test_assignments_with_gaps_or_with_counts_are_refused(ids, more):
    said = [{"partition_id": one, "broker_ids": [1]} for one in ids]
    with pytest.raises(Problem, match="replicas_assignments"):
        wanted(replicas_assignments=said, **more)


@pytest.mark.parametrize("broker", [-1, 2**31])
def test_a_broker_id_that_cannot_be_is_refused(broker):
    said = [{"partition_id": 0, "broker_ids": [broker]}]
    with pytest.raises(Problem, match="broker"):
        wanted(replicas_assignments=said)
