"""Consumer groups of a real broker: members, assignments, lags."""

import pytest

from tests.support.confluent import Member, produce_all, until
from tests.support.odd_groups import FOREIGN, odd_groups

RECORDS = [(None, b"%d" % number, None, number % 2) for number in range(10)]


@pytest.fixture(scope="module")
def group(plane):
    """A group of one that read ten records and committed six."""
    plane.create("grouped", 2)
    produce_all(plane.bootstrap, "grouped", RECORDS)
    config = {"client.id": "reader", "group.instance.id": "one"}
    member = Member(plane.bootstrap, "grouped", "readers", **config)
    until(lambda: len(member.values) == 10, [member])
    for partition, offset in ((0, 5), (1, 1)):
        commit(member, partition, offset)
    yield f"{plane.cluster}/consumer-groups/readers"
    member.consumer.close()


def commit(member, partition, offset):
    from confluent_kafka import TopicPartition

    at = TopicPartition("grouped", partition, offset)
    member.consumer.commit(offsets=[at], asynchronous=False)


def test_a_group_is_listed_and_got_by_its_id(plane, group):
    listed = plane.get(f"{plane.cluster}/consumer-groups").json()
    assert listed["kind"] == "KafkaConsumerGroupList"
    by_id = {one["consumer_group_id"]: one for one in listed["data"]}
    found = by_id["readers"]
    assert plane.get(group).json() == found
    assert found["consumer_group_id"] == "readers"
    assert (found["state"], found["type"]) == ("STABLE", "CLASSIC")
    assert found["partition_assignor"] == "range"
    assert not found["is_simple"]
    assert plane.get(found["coordinator"]["related"]).json()["kind"] == "KafkaBroker"
    page = plane.get(f"{plane.cluster}/consumer-groups?page_size=1").json()
    assert page["data"] == [found]
    assert list(by_id) == sorted(by_id)


def test_its_consumer_and_what_it_has(plane, group):
    [consumer] = plane.get(f"{group}/consumers").json()["data"]
    assert (consumer["client_id"], consumer["instance_id"]) == ("reader", "one")
    assert plane.get(consumer["metadata"]["self"]).json() == consumer
    listed = plane.get(consumer["assignments"]["related"]).json()
    assert listed["kind"] == "KafkaConsumerAssignmentList"
    held = [(one["topic_name"], one["partition_id"]) for one in listed["data"]]
    assert held == [("grouped", 0), ("grouped", 1)]
    for one in listed["data"]:
        assert plane.get(one["metadata"]["self"]).json() == one
        assert plane.get(one["lag"]["related"]).json()["kind"] == "KafkaConsumerLag"
        partition = plane.get(one["partition"]["related"]).json()
        assert partition["partition_id"] == one["partition_id"]


def test_its_lags_and_their_summary(plane, group):
    listed = plane.get(f"{group}/lags").json()
    assert listed["kind"] == "KafkaConsumerLagList"
    fields = ("partition_id", "current_offset", "log_end_offset", "lag", "client_id")
    assert [tuple(one[name] for name in fields) for one in listed["data"]] == [
        (0, 5, 5, 0, "reader"),
        (1, 1, 5, 4, "reader"),
    ]
    for one in listed["data"]:
        assert plane.get(one["metadata"]["self"]).json() == one
    summary = plane.get(f"{group}/lag-summary").json()
    assert (summary["max_lag"], summary["total_lag"]) == (4, 4)
    assert summary["max_lag_partition_id"] == 1
    assert summary["max_lag_topic_name"] == "grouped"
    assert plane.get(summary["max_lag_consumer"]["related"]).status_code == 200
    assert plane.get(summary["max_lag_partition"]["related"]).status_code == 200


def test_a_group_that_only_has_offsets_is_a_group(plane, group):
    from confluent_kafka import Consumer, TopicPartition

    config = {"bootstrap.servers": plane.bootstrap, "group.id": "simple/one ü"}
    consumer = Consumer(config)
    at = TopicPartition("grouped", 0, 2)
    consumer.commit(offsets=[at], asynchronous=False)
    consumer.close()
    listed = plane.get(f"{plane.cluster}/consumer-groups").json()["data"]
    by_id = {one["consumer_group_id"]: one for one in listed}
    assert by_id["simple/one ü"]["state"] == "EMPTY"
    own = by_id["simple/one ü"]["metadata"]["self"]
    assert own.endswith("/simple%2Fone%20%C3%BC")
    assert plane.get(own).json() == by_id["simple/one ü"]
    lags = plane.get(f"{own}/lags").json()
    assert [one["current_offset"] for one in lags["data"]] == [2]
    assert plane.get(lags["data"][0]["metadata"]["self"]).json() == lags["data"][0]


@pytest.mark.parametrize(
    "path",
    [
        "nobody",
        "nobody/consumers",
        "nobody/lags",
        "nobody/lag-summary",
        "readers/consumers/nobody",
        "readers/consumers/nobody/assignments",
        "readers/lags/grouped/partitions/7",
        "readers/lags/other/partitions/0",
    ],
)
def test_what_is_not_there_is_a_404_in_words(plane, group, path):
    answer = plane.get(f"{plane.cluster}/consumer-groups/{path}")
    assert (answer.status_code, answer.json()["error_code"]) == (404, 404)
    assert len(answer.json()["message"]) > 20
    listed = plane.get(f"{plane.cluster}/consumer-groups").text
    assert "nobody" not in listed


def test_a_partition_that_a_consumer_does_not_have_is_a_404(plane, group):
    [consumer] = plane.get(f"{group}/consumers").json()["data"]
    url = f"{consumer['assignments']['related']}/grouped/partitions/7"
    assert plane.get(url).status_code == 404


@pytest.mark.parametrize("path", ["a%00b", "readers/lags/a%20b/partitions/0"])
def test_names_that_cannot_be_are_a_400(plane, group, path):
    answer = plane.get(f"{plane.cluster}/consumer-groups/{path}")
    assert answer.status_code == 400


def test_a_group_that_cannot_be_described_is_listed_beside_the_others(plane, group):
    with odd_groups(plane.bootstrap, "grouped"):
        listed = plane.get(f"{plane.cluster}/consumer-groups")
        page = plane.get(f"{plane.cluster}/consumer-groups?page_size=3").json()
        answer = plane.get(f"{plane.cluster}/consumer-groups/{FOREIGN}")
    assert listed.status_code == 200, listed.text
    by_id = {one["consumer_group_id"]: one for one in listed.json()["data"]}
    assert {"", "readers", "sound", "twice", FOREIGN} <= by_id.keys()
    assert len(by_id) == len(listed.json()["data"])
    assert page["data"] == [by_id[name] for name in sorted(by_id)[:3]]
    foreign = by_id[FOREIGN]
    assert (foreign["state"], foreign["type"]) == ("STABLE", "CLASSIC")
    assert (foreign["partition_assignor"], foreign["is_simple"]) == ("", False)
    assert foreign.keys() == by_id["sound"].keys()
    assert plane.get(foreign["coordinator"]["related"]).status_code == 200
    assert (answer.status_code, answer.json()["error_code"]) == (409, 40900)
    assert "assignment" in answer.json()["message"]
