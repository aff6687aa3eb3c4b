"""A broker has the fields of Confluent's ``BrokerData``."""

from confluent_kafka import Node

from admin_api.brokers.schemas import render
from admin_api.resources import cluster_place

PLACE = cluster_place("http://plane", "c")


def test_a_broker_says_where_it_is():
    own = f"{PLACE.url}/brokers/1"
    assert render(PLACE, "c", Node(1, "host", 9092)).model_dump() == {
        "kind": "KafkaBroker",
        "metadata": {"self": own, "resource_name": "crn:///kafka=c/broker=1"},
        "cluster_id": "c",
        "broker_id": 1,
        "host": "host",
        "port": 9092,
        "rack": None,
        "configs": {"related": f"{own}/configs"},
        "partition_replicas": {"related": f"{own}/partition-replicas"},
    }


def test_a_rack_is_told():
    assert render(PLACE, "c", Node(1, "host", 9092, "r1")).rack == "r1"
