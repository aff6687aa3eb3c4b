"""Partitions, their offsets, replicas and reassignments."""

import pytest

from tests.support.confluent import produce_all
from tests.support.transactions import transactional, write


@pytest.fixture(scope="module")
def topic(plane):
    return plane.create("parted", 3)


def test_partitions_are_listed_and_got_by_their_number(plane, topic):
    listed = plane.get(f"{topic}/partitions").json()
    assert listed["kind"] == "KafkaPartitionList"
    assert [one["partition_id"] for one in listed["data"]] == [0, 1, 2]
    last = listed["data"][2]
    assert plane.get(last["metadata"]["self"]).json() == last


def test_a_partition_has_the_offsets_of_its_log(plane, topic):
    empty = plane.get(f"{topic}/partitions/0/offset").json()
    assert (empty["earliest_offset"], empty["latest_offset"]) == (0, 0)
    produce_all(plane.bootstrap, "parted", [(None, b"v", None, 1)] * 4)
    written = plane.get(f"{topic}/partitions/1/offset").json()
    assert (written["earliest_offset"], written["latest_offset"]) == (0, 4)


def test_the_latest_offset_is_that_of_the_next_record(plane):
    topic = plane.create("opened")
    producer = transactional(plane.bootstrap, "open-one")
    producer.begin_transaction()
    write(producer, "opened", b"a", b"b")
    assert plane.get(f"{topic}/partitions/0/offset").json()["latest_offset"] == 2
    producer.abort_transaction()


def test_the_leader_of_a_partition_is_one_of_its_replicas(plane, topic):
    partition = plane.get(f"{topic}/partitions/1").json()
    leader = plane.get(partition["leader"]["related"]).json()
    assert leader["is_leader"]
    listed = plane.get(partition["replicas"]["related"]).json()
    assert (listed["kind"], listed["data"]) == ("KafkaReplicaList", [leader])
    assert plane.get(leader["broker"]["related"]).json()["kind"] == "KafkaBroker"


def test_no_partition_is_being_reassigned(plane, topic):
    for url in (
        f"{plane.cluster}/topics/-/partitions/-/reassignment",
        f"{topic}/partitions/-/reassignment",
    ):
        answer = plane.get(url).json()
        assert (answer["kind"], answer["data"]) == ("KafkaReassignmentList", [])
        assert answer["metadata"]["self"] == url
    partition = plane.get(f"{topic}/partitions/1").json()
    assert plane.get(partition["reassignment"]["related"]).status_code == 404


@pytest.mark.parametrize(
    ("path", "error_code"),
    [
        ("parted/partitions/3", 40403),
        ("parted/partitions/3/offset", 40403),
        ("parted/partitions/3/replicas", 40403),
        ("parted/partitions/-1", 400),
        ("parted/partitions/x", 400),
        ("parted/partitions/2147483648", 400),
        ("parted/partitions/0/replicas/99", 404),
        ("nobody/partitions", 40403),
        ("nobody/partitions/0", 40403),
        ("nobody/partitions/-/reassignment", 40403),
        ("a%20b/partitions", 40002),
    ],
)
def test_what_is_not_there_is_said_in_words(plane, topic, path, error_code):
    answer = plane.get(f"{plane.cluster}/topics/{path}")
    assert answer.json()["error_code"] == error_code
    assert len(answer.json()["message"]) > 10
    assert "nobody" not in plane.get(f"{plane.cluster}/topics").text
