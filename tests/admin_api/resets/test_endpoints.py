"""Offsets of a group of a real broker, set anew."""

import pytest
from confluent_kafka import TopicPartition

from tests.support.confluent import Member, produce_all, until
from tests.support.transactions import transactional, write

URL = "/v1/groups/resetting:reset-offsets"
RECORDS = [(None, b"%d" % number, None, number % 2) for number in range(20)]


@pytest.fixture(scope="module")
def group(plane):
    """A group that committed 4 in each of two partitions of ten records, and left."""
    plane.create("reset", 2)
    produce_all(plane.bootstrap, "reset", RECORDS)
    member = Member(plane.bootstrap, "reset", "resetting")
    until(lambda: len(member.values) == 20, [member])
    at = [TopicPartition("reset", partition, 4) for partition in (0, 1)]
    member.consumer.commit(offsets=at, asynchronous=False)
    yield member
    member.consumer.close()


def reset(plane, **body):
    return plane.post(URL, body)


def committed(plane):
    lags = plane.get(f"{plane.cluster}/consumer-groups/resetting/lags").json()["data"]
    return [one["current_offset"] for one in lags]


def test_it_is_refused_while_the_group_is_active_and_then_done(plane, group):
    for dry_run in (True, False):
        answer = reset(plane, to="EARLIEST", dry_run=dry_run)
        assert (answer.status_code, answer.json()["error_code"]) == (409, 40901)
        assert "STABLE" in answer.json()["message"]
    group.consumer.close()
    answer = reset(plane, to="EARLIEST")
    assert answer.status_code == 200, answer.text
    assert answer.json()["dry_run"]
    found = [(p["current_offset"], p["new_offset"]) for p in answer.json()["data"]]
    assert found == [(4, 0), (4, 0)]
    assert committed(plane) == [4, 4]
    some = [{"topic_name": "reset", "partitions": [1]}]
    assert reset(plane, to="OFFSET", value=7, topics=some, dry_run=False).is_success
    assert committed(plane) == [4, 7]
    assert reset(plane, to="SHIFT", value=-2, dry_run=False).is_success
    assert committed(plane) == [2, 5]
    assert reset(plane, to="DURATION", value=10**15, dry_run=False).is_success
    assert committed(plane) == [0, 0]
    assert reset(plane, to="TIMESTAMP", value=10**15, dry_run=False).is_success
    assert committed(plane) == [10, 10]


def test_a_group_that_is_not_there_yet_can_be_given_offsets(plane, group):
    assert group
    url = "/v1/groups/to%2Fcome:reset-offsets"
    body = {"to": "OFFSET", "value": 3, "topics": [{"topic_name": "reset"}]}
    assert plane.post(url, body | {"dry_run": False}).is_success
    lags = plane.get(f"{plane.cluster}/consumer-groups/to%2Fcome/lags").json()["data"]
    assert [one["lag"] for one in lags] == [7, 7]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"to": "LATEST"}, 404),
        ({"to": "LATEST", "topics": [{"topic_name": "nowhere"}]}, 40403),
        ({"to": "LATEST", "topics": [{"topic_name": "a b"}]}, 40002),
        ({"to": "OFFSET", "topics": [{"topic_name": "reset"}]}, 400),
    ],
)
def test_what_is_not_there_is_told(plane, group, body, code):
    assert group
    answer = plane.post("/v1/groups/nobody:reset-offsets", body)
    assert answer.json()["error_code"] == code


def test_a_partition_that_is_not_there_is_told(plane, group):
    assert group
    topics = [{"topic_name": "reset", "partitions": [0, 9]}]
    answer = plane.post(
        "/v1/groups/n:reset-offsets", {"to": "LATEST", "topics": topics}
    )
    assert answer.json() == {
        "error_code": 40402,
        "message": "There is no partition reset-9.",
    }


def test_an_open_transaction_sets_nobody_back(plane):
    plane.create("opened")
    produce_all(plane.bootstrap, "opened", [(None, b"v", None, 0)] * 3)
    producer = transactional(plane.bootstrap, "open-one")
    producer.begin_transaction()
    write(producer, "opened", b"a", b"b")
    url = "/v1/groups/ahead:reset-offsets"
    topics = [{"topic_name": "opened"}]

    def new_offset(to, value=None, **more):
        body = {"to": to, "value": value, "topics": topics, **more}
        [found] = plane.post(url, body).json()["data"]
        return found["new_offset"]

    assert new_offset("OFFSET", 4, dry_run=False) == 4
    assert new_offset("CURRENT") == new_offset("SHIFT", 0) == 4
    assert new_offset("LATEST") == new_offset("OFFSET", 9) == 5
    assert new_offset("TIMESTAMP", 2**52) == 5
    producer.abort_transaction()
