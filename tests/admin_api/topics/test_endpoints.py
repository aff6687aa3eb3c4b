"""Topics are created, listed, got and deleted over HTTP."""

import pytest


@pytest.fixture
def topics(plane):
    [cluster] = plane.get("/v3/clusters").json()["data"]
    return cluster["topics"]["related"]


def create(plane, topics, **body):
    return plane.ask("POST", topics, json=body)


def test_a_topic_is_created_listed_got_and_deleted(plane, topics):
    wanted = {
        "topic_name": "orders",
        "partitions_count": 3,
        "replication_factor": 1,
        "configs": [{"name": "retention.ms", "value": "5000"}],
    }
    created = create(plane, topics, **wanted)
    assert created.status_code == 201, created.text
    topic = created.json()
    own = f"{topics}/orders"
    assert topic["kind"] == "KafkaTopic"
    assert topic["metadata"]["self"] == own == created.headers["location"]
    assert (topic["partitions_count"], topic["replication_factor"]) == (3, 1)
    assert topic["partitions"] == {"related": f"{own}/partitions"}
    assert plane.get(own).json() == topic
    listed = plane.get(topics).json()
    assert listed["kind"] == "KafkaTopicList"
    assert topic in listed["data"]
    deleted = plane.ask("DELETE", own)
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert plane.get(own).status_code == 404


def test_what_is_left_out_is_the_brokers_default(plane, topics):
    topic = create(plane, topics, topic_name="plain").json()
    assert (topic["partitions_count"], topic["replication_factor"]) == (1, 1)


def test_a_topic_that_is_only_validated_is_not_created(plane, topics):
    answer = create(
        plane, topics, topic_name="maybe", partitions_count=2, validate_only=True
    )
    assert (answer.status_code, answer.json()["partitions_count"]) == (200, 2)
    assert plane.get(f"{topics}/maybe").status_code == 404


@pytest.mark.parametrize(
    ("body", "error_code"),
    [
        ({"topic_name": "../x"}, 40002),
        ({"topic_name": "x" * 250}, 40002),
        ({"topic_name": "x", "partitions_count": 0}, 400),
        ({"topic_name": "x", "replication_factor": 3}, 40002),
        ({"topic_name": "x", "partitions_count": 1000000}, 400),
        ({"topic_name": "x", "configs": [{"name": "retention.ms"}]}, 40002),
        ({"topic_name": ""}, 40002),
        ({"topic_name": "x", "configs": [{"name": "no.such", "value": "1"}]}, 40002),
        (
            {"topic_name": "x", "configs": [{"name": "retention.ms", "value": "a"}]},
            40002,
        ),
        ({"partitions_count": 1}, 400),
        ({"topic_name": "x", "partitions_count": "many"}, 400),
        ({"topic_name": "x", "partition_count": 1}, 400),
    ],
)
def test_a_topic_that_cannot_be_is_refused_in_the_error_shape(
    plane, topics, body, error_code
):
    answer = create(plane, topics, **body)
    assert answer.json()["error_code"] == error_code, answer.text
    assert answer.status_code == 400
    assert answer.json()["message"]
    assert plane.get(f"{topics}/x").status_code == 404


def test_a_topic_is_not_created_twice(plane, topics):
    assert create(plane, topics, topic_name="twice").status_code == 201
    again = create(plane, topics, topic_name="twice")
    assert (again.status_code, again.json()["error_code"]) == (400, 40002)
    assert "already exists" in again.json()["message"]


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b""])
def test_bad_json_is_refused(plane, topics, content):
    head = {"content-type": "application/json"}
    answer = plane.ask("POST", topics, content=content, headers=head)
    assert answer.status_code == 400
    assert answer.json()["error_code"] == 400


def test_a_topic_that_is_not_there_is_a_404(plane, topics):
    for method in ("GET", "DELETE"):
        answer = plane.ask(method, f"{topics}/nobody")
        assert answer.status_code == 404
        assert answer.json()["error_code"] == 40403
    assert "nobody" not in plane.get(topics).text
