"""Partitions and replicas have the fields of Confluent's published document."""

from confluent_kafka import Node, TopicPartitionInfo

from admin_api.partitions import schemas
from admin_api.resources import cluster_place

PLACE = cluster_place("http://plane", "c")
OWN = f"{PLACE.url}/topics/t/partitions/3"
NODES = [Node(1, "a", 1), Node(2, "b", 2)]


def info(leader, isr):
    return TopicPartitionInfo(3, leader, NODES, isr)


def test_a_partition_names_its_leader():
    found = schemas.render(PLACE, "c", "t", info(NODES[1], NODES)).model_dump()
    assert found == {
        "kind": "KafkaPartition",
        "metadata": {
            "self": OWN,
            "resource_name": "crn:///kafka=c/topic=t/partition=3",
        },
        "cluster_id": "c",
        "topic_name": "t",
        "partition_id": 3,
        "leader": {"related": f"{OWN}/replicas/2"},
        "replicas": {"related": f"{OWN}/replicas"},
        "reassignment": {"related": f"{OWN}/reassignment"},
    }


def test_a_partition_without_a_leader_has_no_link_to_it():
    found = info(None, [])
    assert schemas.render(PLACE, "c", "t", found).leader is None
    replicas = list(schemas.replicas(PLACE, "c", "t", found))
    assert not any(one.is_leader or one.is_in_sync for one in replicas)


def test_a_replica_says_whether_it_leads_and_is_in_sync():
    first, second = schemas.replicas(PLACE, "c", "t", info(NODES[1], NODES[1:]))
    assert (first.broker_id, first.is_leader, first.is_in_sync) == (1, False, False)
    assert (second.broker_id, second.is_leader, second.is_in_sync) == (2, True, True)
    assert second.model_dump() == {
        "kind": "KafkaReplica",
        "metadata": {
            "self": f"{OWN}/replicas/2",
            "resource_name": "crn:///kafka=c/topic=t/partition=3/replica=2",
        },
        "cluster_id": "c",
        "topic_name": "t",
        "partition_id": 3,
        "broker_id": 2,
        "is_leader": True,
        "is_in_sync": True,
        "broker": {"related": f"{PLACE.url}/brokers/2"},
    }


def test_a_partition_has_two_offsets():
    found = schemas.with_offsets(PLACE, "c", ("t", 3), (5, 9))
    assert found.kind == "KafkaPartitionWithOffsets"
    assert found.metadata.self == f"{OWN}/offset"
    assert (found.earliest_offset, found.latest_offset) == (5, 9)
