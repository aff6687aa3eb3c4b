"""A cluster has the links of Confluent's ``ClusterData``."""

from admin_api.clusters.schemas import render
from admin_api.resources import cluster_place

PLACE = cluster_place("http://plane", "c")
LINKS = {
    "acls": "acls",
    "brokers": "brokers",
    "broker_configs": "broker-configs",
    "consumer_groups": "consumer-groups",
    "topics": "topics",
    "partition_reassignments": "topics/-/partitions/-/reassignment",
    "controller": "brokers/7",
}


def test_a_cluster_names_what_it_has():
    found = render(PLACE, "c", 7).model_dump()
    links = {name: {"related": f"{PLACE.url}/{path}"} for name, path in LINKS.items()}
    assert found == links | {
        "kind": "KafkaCluster",
        "metadata": {"self": PLACE.url, "resource_name": "crn:///kafka=c"},
        "cluster_id": "c",
    }


def test_a_cluster_without_a_controller_has_no_link_to_it():
    assert render(PLACE, "c", -1).controller is None
