"""The one broker, and what it holds."""

import pytest


@pytest.fixture(scope="module")
def brokers(plane):
    return f"{plane.cluster}/brokers"


def test_the_broker_is_listed_and_got_by_its_id(plane, brokers):
    listed = plane.get(brokers).json()
    assert listed["kind"] == "KafkaBrokerList"
    assert listed["metadata"] == {"self": brokers, "next": None}
    [broker] = listed["data"]
    assert f"{broker['host']}:{broker['port']}" == plane.bootstrap
    assert plane.get(broker["metadata"]["self"]).json() == broker
    controller = plane.get(plane.cluster).json()["controller"]["related"]
    assert controller == broker["metadata"]["self"]


@pytest.mark.parametrize("path", ["", "/configs", "/partition-replicas"])
@pytest.mark.parametrize(
    ("broker_id", "status"), [("4711", 404), ("x", 400), ("-1", 400), (str(2**31), 400)]
)
def test_a_broker_that_is_not_there_has_nothing(
    plane, brokers, broker_id, status, path
):
    answer = plane.get(f"{brokers}/{broker_id}{path}")
    assert answer.status_code == status
    assert broker_id in answer.json()["message"] or "broker_id" in answer.text


def test_a_broker_lists_its_replicas_topic_by_topic(plane, brokers):
    plane.create("replicated-a", 2)
    plane.create("replicated-b")
    [broker] = plane.get(brokers).json()["data"]
    url = broker["partition_replicas"]["related"]
    listed = plane.get(url).json()
    assert listed["kind"] == "KafkaReplicaList"
    held = [(one["topic_name"], one["partition_id"]) for one in listed["data"]]
    named = [one for one in held if one[0].startswith("replicated-")]
    assert named == [("replicated-a", 0), ("replicated-a", 1), ("replicated-b", 0)]
    replica = listed["data"][held.index(("replicated-a", 1))]
    assert replica["is_leader"]
    assert replica["is_in_sync"]
    assert plane.get(replica["metadata"]["self"]).json() == replica
    first = plane.get(f"{url}?page_size=1").json()
    assert {one["topic_name"] for one in first["data"]} == {held[0][0]}
    more = first["metadata"]["next"].replace("page_size=1", "page_size=1000")
    rest = plane.get(more).json()
    assert first["data"] + rest["data"] == listed["data"]
