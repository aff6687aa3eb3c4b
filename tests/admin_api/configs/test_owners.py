"""Owners of configurations: which they are, and where their configurations are."""

from confluent_kafka.admin import ConfigEntry, ResourceType

from admin_api.configs.owners import broker_owner, cluster_owner, topic_owner
from admin_api.configs.schemas import BrokerConfig, ClusterConfig, TopicConfig
from admin_api.dependencies import Cluster
from admin_api.resources import cluster_place

PLACE = cluster_place("http://plane", "c")
CLUSTER = Cluster("c", PLACE, 1, ())
ENTRY = ConfigEntry("k", "v")


def test_a_topics_configuration_is_below_the_topic():
    own = topic_owner(CLUSTER, "t")
    found = own.render(TopicConfig, ENTRY)
    assert found.metadata.self == f"{PLACE.url}/topics/t/configs/k"
    assert found.metadata.resource_name == "crn:///kafka=c/topic=t/config=k"
    assert found.model_dump()["topic_name"] == "t"
    assert own.listed().self == f"{PLACE.url}/topics/t/configs"
    assert (own.resource.restype, own.resource.name) == (ResourceType.TOPIC, "t")


def test_a_brokers_configuration_is_below_the_broker():
    own = broker_owner(CLUSTER, 1)
    found = own.render(BrokerConfig, ENTRY)
    assert found.metadata.self == f"{PLACE.url}/brokers/1/configs/k"
    assert found.model_dump()["broker_id"] == 1
    assert (own.resource.restype, own.resource.name) == (ResourceType.BROKER, "1")


def test_what_all_brokers_have_in_common_is_below_the_cluster():
    own = cluster_owner(CLUSTER)
    found = own.render(ClusterConfig, ENTRY)
    assert found.metadata.self == f"{PLACE.url}/broker-configs/k"
    assert found.metadata.resource_name == "crn:///kafka=c/broker-config=k"
    assert found.model_dump()["config_type"] == "BROKER"
    assert own.listed().self == f"{PLACE.url}/broker-configs"


def test_all_configurations_come_sorted():
    found = {name: ConfigEntry(name, "v") for name in ("b", "a")}
    rendered = topic_owner(CLUSTER, "t").render_all(TopicConfig, found)
    assert [one.name for one in rendered] == ["a", "b"]


def test_for_all_brokers_the_controller_is_asked():
    assert (cluster_owner(CLUSTER).name, cluster_owner(CLUSTER).asked) == ("", "1")
