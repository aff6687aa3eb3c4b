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
        ({"topic_name": "x", "partitions_count": True}, 400),
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


def test_a_topic_gets_more_partitions_and_never_fewer(plane, topics):
    own = plane.create("growing", 2)
    grown = plane.ask("PATCH", own, json={"partitions_count": 5})
    assert (grown.status_code, grown.json()["partitions_count"]) == (200, 5)
    assert plane.get(own).json() == grown.json()
    for count in (5, 3):
        answer = plane.ask("PATCH", own, json={"partitions_count": count})
        assert (answer.status_code, answer.json()["error_code"]) == (400, 40002)
    for body in ({}, {"partitions_count": "x"}, {"partitions_count": 6, "more": 1}):
        assert plane.ask("PATCH", own, json=body).status_code == 400
    missing = plane.ask("PATCH", f"{topics}/nobody", json={"partitions_count": 2})
    assert missing.json()["error_code"] == 40403


def test_replicas_are_where_they_were_assigned(plane, topics):
    [broker] = plane.get(f"{plane.cluster}/brokers").json()["data"]
    here = broker["broker_id"]
    assigned = [{"partition_id": n, "broker_ids": [here]} for n in (1, 0)]
    made = create(plane, topics, topic_name="assigned", replicas_assignments=assigned)
    assert made.json()["partitions_count"] == 2
    elsewhere = [{"partition_id": 0, "broker_ids": [here + 1]}]
    answer = create(plane, topics, topic_name="x", replicas_assignments=elsewhere)
    assert (answer.status_code, answer.json()["error_code"]) == (400, 40002)


def test_topics_come_in_pages(plane, topics):
    for name in ("page-a", "page-b", "page-c"):
        plane.create(name)
    whole = plane.get(topics).json()["data"]
    found, following = [], f"{topics}?page_size=2"
    while following:
        page = plane.get(following).json()
        found += page["data"]
        following = page["metadata"]["next"]
    assert found == whole
    for query in ("page_size=0", "page_size=x", "page_size=10001", "page_token=!"):
        answer = plane.get(f"{topics}?{query}")
        assert (answer.status_code, answer.json()["error_code"]) == (400, 400)


def test_what_the_caller_may_do_is_said_when_asked(plane, topics):
    own = plane.create("allowed")
    assert plane.get(own).json()["authorized_operations"] == []
    asked = plane.get(f"{own}?include_authorized_operations=true").json()
    assert {"READ", "WRITE", "DELETE"} <= set(asked["authorized_operations"])
    listed = plane.get(f"{topics}?include_authorized_operations=true").json()["data"]
    assert asked in listed


@pytest.mark.parametrize("path", ["?include_authorized_operations=true", "/-/configs"])
def test_a_topic_that_goes_while_all_are_listed_is_not_listed(
    plane, topics, monkeypatch, path
):
    kafka = plane.app.state.kafka
    listed = kafka.topics

    async def topics_and_one_goes():
        found = await listed()
        await kafka.delete_topic("going")
        return found

    plane.create("going")
    monkeypatch.setattr(kafka, "topics", topics_and_one_goes)
    answer = plane.get(f"{topics}{path}")
    assert answer.status_code == 200, answer.text
    names = {one["topic_name"] for one in answer.json()["data"]}
    assert "going" not in names
    assert "__consumer_offsets" in names


@pytest.mark.parametrize("name", ["a%20b", "%00", "x" * 250, "ü"])
def test_a_name_that_no_topic_can_have_is_refused_in_words(plane, topics, name):
    for method in ("GET", "DELETE"):
        answer = plane.ask(method, f"{topics}/{name}")
        assert (answer.status_code, answer.json()["error_code"]) == (400, 40002)
        assert "Topic name is invalid" in answer.json()["message"]


def test_null_is_what_is_left_out(plane, topics):
    """Clients that are generated from Confluent's document say null for what they do
    not say."""
    optional = (
        "partitions_count",
        "replication_factor",
        "replicas_assignments",
        "configs",
        "validate_only",
    )
    made = create(plane, topics, topic_name="nulls", **dict.fromkeys(optional))
    assert made.status_code == 201, made.text
    assert (made.json()["partitions_count"], made.json()["replication_factor"]) == (
        1,
        1,
    )


def test_what_is_only_validated_is_shown_as_it_would_be(plane, topics):
    [broker] = plane.get(f"{plane.cluster}/brokers").json()["data"]
    assigned = [
        {"partition_id": n, "broker_ids": [broker["broker_id"]]} for n in (0, 1)
    ]
    for said in ({}, {"partitions_count": 4}, {"replicas_assignments": assigned}):
        wanted = {"topic_name": "would-be", **said}
        would = create(plane, topics, **wanted, validate_only=True).json()
        made = create(plane, topics, **wanted).json()
        assert would == made | {"authorized_operations": []}
        assert plane.ask("DELETE", f"{topics}/would-be").status_code == 204
