"""A topic that changes while records go there: what the broker has now counts."""

import json
import time

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.support.confluent import create, read
from tests.support.patience import IDLE_S, wait_until
from tests.support.streaming import Streaming

VALUE = {"type": "STRING", "data": "v"}


def send(plane, url, said):
    return plane.ask("POST", url, content=json.dumps(said).encode())


def to(partition, text="v"):
    return {"partition_id": partition, "value": {"type": "STRING", "data": text}}


def grow(plane, topic, count):
    """More partitions, made by another client."""
    admin = AdminClient({"bootstrap.servers": plane.bootstrap})
    admin.create_partitions([NewPartitions(topic, count)])[topic].result(IDLE_S)


def made_again(plane, topic, partitions):
    """The topic is deleted and made by another client."""
    admin = AdminClient({"bootstrap.servers": plane.bootstrap})
    admin.delete_topics([topic])[topic].result(IDLE_S)
    create(plane.bootstrap, topic, partitions)


def values(plane, topic, count, partitions):
    return sorted(
        one.value() for one in read(plane.bootstrap, topic, count, partitions)
    )


def test_a_partition_just_added_takes_records(plane):
    url = f"{plane.create('grown')}/records"
    assert send(plane, url, to(0)).json()["error_code"] == 200
    assert send(plane, url, to(1)).json()["error_code"] == 40402
    changed = plane.ask("PATCH", url[: -len("/records")], json={"partitions_count": 2})
    assert changed.status_code == 200
    assert send(plane, url, to(1)).json()["offset"] == 0
    grow(plane, "grown", 3)
    batch = plane.post(f"{url}:batch", {"entries": [{"id": "a"} | to(2)]}).json()
    assert [one["partition_id"] for one in batch["successes"]] == [2]


def test_a_key_goes_where_it_goes_now(plane):
    url = f"{plane.create('regrown')}/records"
    keyed = {"key": {"type": "STRING", "data": "foobar"}, "value": VALUE}
    assert send(plane, url, keyed).json()["partition_id"] == 0
    grow(plane, "regrown", 8)
    now = send(plane, url, keyed).json()["partition_id"]
    assert now == (-790332482 & 0x7FFFFFFF) % 8


@pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 3), (3, 1)])
def test_a_topic_made_again_takes_records(plane, before, after):
    topic = f"again-{before}-{after}"
    url = f"{plane.create(topic, before)}/records"
    for number in range(before):
        assert send(plane, url, to(number, "old")).json()["offset"] == 0
    made_again(plane, topic, after)
    said = [to(number, f"new-{number}") for number in range(after)]
    for one in said:
        assert send(plane, url, one).json()["offset"] == 0
    keyless = send(plane, url, {"value": VALUE}).json()
    assert keyless["error_code"] == 200
    wanted = sorted([b"v", *(one["value"]["data"].encode() for one in said)])
    assert values(plane, topic, after + 1, after) == wanted
    if before > after:
        assert send(plane, url, to(after)).json()["error_code"] == 40402


def test_a_topic_made_again_after_it_was_missed_takes_records(plane):
    url = f"{plane.create('missed')}/records"
    assert send(plane, url, to(0)).json()["offset"] == 0
    assert plane.ask("DELETE", url[: -len("/records")]).status_code == 204
    assert send(plane, url, to(0)).json()["error_code"] == 40403
    plane.create("missed", 2)
    assert send(plane, url, to(1)).json()["offset"] == 0


def test_a_stream_follows_its_topic(plane, address):
    stream = Streaming(
        address, plane.create("flowing").removeprefix("http://plane") + "/records"
    )

    def reported(partition, text="v"):
        stream.write(json.dumps(to(partition, text)).encode())
        return stream.report()

    stream.write(json.dumps(to(0)).encode())
    assert stream.status() == 200
    assert stream.report()["offset"] == 0
    assert reported(1)["error_code"] == 40402
    grow(plane, "flowing", 2)
    began = time.monotonic()
    wait_until(lambda: reported(1)["error_code"] == 200)
    assert time.monotonic() - began < IDLE_S  # librdkafka would look in five minutes
    made_again(plane, "flowing", 3)
    wait_until(lambda: reported(2, "new")["error_code"] == 200)
    assert values(plane, "flowing", 1, 3) == [b"new"]
    plane.ask("DELETE", f"{plane.cluster}/topics/flowing")
    wait_until(lambda: reported(0)["error_code"] == 40403)
    create(plane.bootstrap, "flowing", 1)
    wait_until(lambda: reported(0, "newest")["error_code"] == 200)
    stream.end()
    assert stream.rest() == []
    assert values(plane, "flowing", 1, 1) == [b"newest"]
    stream.close()
