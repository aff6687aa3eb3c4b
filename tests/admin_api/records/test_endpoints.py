"""Records over HTTP on a real broker: single, batched, streamed."""

import json
from contextlib import suppress

import pytest

from admin_api import unread
from admin_api.records import backlog
from tests.support.confluent import read
from tests.support.patience import STUCK_S, wait_until
from tests.support.streaming import Streaming, several

STRING = {"type": "STRING", "data": "v"}


@pytest.fixture(scope="module")
def topic(plane):
    return plane.create("posted", 2)


@pytest.fixture(scope="module")
def records(topic):
    return f"{topic}/records"


def send(plane, url, *said):
    body = b"".join(json.dumps(one).encode() for one in said)
    head = {"content-type": "application/json"}
    return plane.ask("POST", url, content=body, headers=head)


def test_null_is_what_is_left_out(plane):
    url = f"{plane.create('null-records')}/records"
    nulls = dict.fromkeys(("partition_id", "headers", "key", "value", "timestamp"))
    assert send(plane, url, nulls).json()["error_code"] == 200
    schema = dict.fromkeys(
        ("subject", "subject_name_strategy", "schema_id", "schema_version", "schema")
    )
    said = nulls | {"value": STRING | schema, "headers": [{"name": "h", "value": None}]}
    assert send(plane, url, said).json()["error_code"] == 200
    batch = plane.post(f"{url}:batch", {"entries": [nulls | {"id": "a"}]}).json()
    assert batch["failures"] == []
    found = read(plane.bootstrap, "null-records", 3)
    assert [one.value() for one in found] == [None, b"v", None]


def test_a_record_is_produced_and_reported(plane):
    url = f"{plane.create('single', 3)}/records"
    said = {
        "partition_id": 2,
        "headers": [{"name": "h", "value": "AP8="}, {"name": "n"}],
        "key": {"type": "BINARY", "data": "AQI="},
        "value": {"type": "JSON", "data": {"a": [1, "ü"]}},
        "timestamp": "2021-02-05T19:14:42Z",
    }
    answer = send(plane, url, said)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {
        "error_code": 200,
        "cluster_id": plane.cluster.rsplit("/", 1)[1],
        "topic_name": "single",
        "partition_id": 2,
        "offset": 0,
        "timestamp": "2021-02-05T19:14:42.000Z",
        "key": {"type": "BINARY", "size": 2},
        "value": {"type": "JSON", "size": 14},
    }
    [found] = read(plane.bootstrap, "single", 1, 3)
    assert (found.key(), found.value()) == (b"\x01\x02", '{"a":[1,"ü"]}'.encode())
    assert found.headers() == [("h", b"\x00\xff"), ("n", None)]
    assert found.timestamp()[1] == 1612552482000


def test_a_record_may_have_nothing(plane):
    url = f"{plane.create('nothing')}/records"
    answer = send(plane, url, {}).json()
    assert (answer["error_code"], answer["offset"]) == (200, 0)
    assert "key" not in answer
    [found] = read(plane.bootstrap, "nothing", 1)
    assert (found.key(), found.value(), found.headers()) == (None, None, None)
    assert found.timestamp()[1] > 0


def test_concatenated_records_are_reported_in_their_order(plane):
    url = f"{plane.create('several')}/records"
    said = [{"value": {"type": "STRING", "data": str(n)}} for n in range(600)]
    said[7] = {"value": {"type": "BINARY", "data": "!"}}
    answer = send(plane, url, *said)
    found = several(answer.text)
    assert (answer.status_code, len(found)) == (200, 600)
    assert found.pop(7)["error_code"] == 42207
    assert [one["offset"] for one in found] == list(range(599))


@pytest.mark.parametrize(
    ("body", "error_code"),
    [
        (b"", 42206),
        (b" ", 42206),
        (b"x", 400),
        (b"[]", 400),
        (b"{", 400),
        (b'{"a": tru}', 400),
        (b'{"partition": 1}', 400),
        (b'{"partition_id": "x"}', 400),
        (b'{"partition_id": true}', 400),
        (b'{"partition_id": " 0 "}', 400),
        (b'{"partition_id": 2}', 40402),
        (b'{"partition_id": -1}', 40402),
        (b'{"partition_id": 4294967296}', 400),
        (b'{"value": {"type": "AVRO", "data": 1}}', 42207),
        (b'{"value": {"data": 1}}', 42207),
        (b'{"headers": [{"name": "a\\u0000b"}]}', 400),
        (b'{"headers": [{"name": "a\\ud800b"}]}', 400),
        (b'{"\\ud800": 1}', 400),
        (b'{"timestamp": "1960-01-01T00:00:00Z"}', 400),
        (b'{"timestamp": "soon"}', 400),
    ],
)
def test_a_record_that_cannot_be_is_refused_in_words(plane, records, body, error_code):
    answer = plane.ask("POST", records, content=body)
    assert answer.json()["error_code"] == error_code, answer.text
    assert answer.status_code == int(str(error_code)[:3])
    assert len(answer.json()["message"]) > 10
    assert (
        plane.get(f"{records.rsplit('/', 1)[0]}/partitions/0/offset").json()[
            "latest_offset"
        ]
        == 0
    )


def test_a_record_that_is_too_long_for_the_broker_is_the_clients_fault(plane):
    url = f"{plane.create('short', 1, **{'max.message.bytes': '2000'})}/records"
    said = {"value": {"type": "STRING", "data": "x" * 3000}}
    answer = send(plane, url, said)
    assert (answer.status_code, answer.json()["error_code"]) == (400, 40002)
    assert send(plane, url, {"value": STRING}).json()["offset"] == 0


@pytest.mark.parametrize("path", ["records", "records:batch"])
def test_a_topic_that_is_not_there_takes_nothing_and_is_not_made(plane, path):
    url = f"{plane.cluster}/topics/nobody/{path}"
    answer = plane.post(url, {"entries": [{"id": "a"}]})
    assert (answer.status_code, answer.json()["error_code"]) == (404, 40403)
    assert "nobody" not in plane.get(f"{plane.cluster}/topics").text


def test_a_batch_reports_by_id(plane):
    url = f"{plane.create('batched')}/records:batch"
    entries = [
        {"id": "a", "value": STRING, "key": {"type": "JSON", "data": 1}},
        {"id": "b", "partition_id": 9},
    ]
    answer = plane.post(url, {"entries": entries})
    assert answer.status_code == 207
    [success], [failure] = answer.json()["successes"], answer.json()["failures"]
    assert (success["id"], success["offset"]) == ("a", 0)
    assert success["value"] == {"size": 1, "type": "STRING"}
    assert failure["id"] == "b"
    assert failure["error_code"] == 40402
    same = plane.post(url, {"entries": [entries[0], entries[0]]})
    assert (same.status_code, same.json()["error_code"]) == (422, 42208)
    unknown = plane.post(url, {"entries": [{"id": "a", "partition": 1}]})
    assert unknown.status_code == 400


def path_of(plane, topic):
    return plane.create(topic).removeprefix("http://plane") + "/records"


def test_a_stream_is_reported_while_it_goes_on(plane, address):
    stream = Streaming(address, path_of(plane, "streamed"))
    stream.write(b'{"value": {"type": "STRING", "data": "a"}}')
    assert stream.status() == 200
    assert stream.report()["offset"] == 0
    stream.write(b'{"value": {"type": "STR')
    stream.write(b'ING", "data": "b"}} {"value": {"type": "BINARY", "data": "!"}}')
    assert stream.report()["offset"] == 1
    assert stream.report()["error_code"] == 42207
    stream.write(b'{"value": null}')
    assert stream.report()["offset"] == 2
    stream.end()
    assert stream.report() is None
    stream.close()
    found = read(plane.bootstrap, "streamed", 3)
    assert [one.value() for one in found] == [b"a", b"b", None]


def test_a_stream_that_breaks_off_leaves_what_was_whole(plane, address):
    stream = Streaming(address, path_of(plane, "broken"))
    stream.write(b'{"value": {"type": "STRING", "data": "a"}}{"value": ')
    assert stream.status() == 200
    assert stream.report()["offset"] == 0
    stream.close()
    [found] = read(plane.bootstrap, "broken", 1)
    assert found.value() == b"a"
    latest = plane.get(f"{plane.cluster}/topics/broken/partitions/0/offset").json()
    assert latest["latest_offset"] == 1


MANY = 20_000
BODY = b'{"value":{"type":"STRING","data":"x"}}' * MANY
"""Its reports are more than sockets and servers keep between two processes."""


def test_who_writes_all_before_reading_gets_all_reports(plane, address):
    stream = Streaming(address, path_of(plane, "flood"), len(BODY))
    stream.write_raw(BODY)
    assert stream.status() == 200
    assert [one["offset"] for one in stream.rest()] == list(range(MANY))
    stream.close()


def test_what_a_client_that_goes_has_not_read_is_forgotten(plane, address, monkeypatch):
    # It is its going that counts, on a machine that takes half a minute too.
    monkeypatch.setattr(unread, "UNREAD_S", STUCK_S)
    monkeypatch.setattr(backlog, "STUCK_S", STUCK_S)
    held = plane.app.state.all_held
    stream = Streaming(address, path_of(plane, "gone"), len(BODY))
    stream.write_raw(BODY)
    wait_until(lambda: held.bytes)
    stream.close()
    wait_until(lambda: not held.bytes)


def test_what_a_client_that_stays_does_not_read_is_forgotten(
    plane, address, monkeypatch
):
    monkeypatch.setattr(unread, "UNREAD_S", 0.05)
    held = plane.app.state.all_held
    stream = Streaming(address, path_of(plane, "stays"), len(BODY))
    with suppress(OSError):  # it may be cut off while it writes
        stream.write_raw(BODY)
    wait_until(lambda: not held.backlogs)
    assert held.bytes == 0
    assert not stream.left().endswith(b"0\r\n\r\n")
    stream.close()


@pytest.mark.parametrize("chunked", [True, False])
def test_who_reads_nothing_for_long_is_refused_the_rest(
    plane, address, monkeypatch, chunked
):
    monkeypatch.setattr(backlog, "BYTES_MAX", 0)
    monkeypatch.setattr(backlog, "STUCK_S", 0.05)
    topic = f"unread-{chunked}"
    stream = Streaming(address, path_of(plane, topic), None if chunked else len(BODY))
    if chunked:
        for first in range(0, len(BODY), 1 << 16):
            stream.write(BODY[first : first + (1 << 16)])
        stream.end()
    else:
        stream.write_raw(BODY)
    assert stream.status() == 200
    *produced, refused = stream.rest()
    assert [one["offset"] for one in produced] == list(range(len(produced)))
    assert refused["error_code"] == 42901
    assert "No report was read" in refused["message"]
    latest = plane.get(f"{plane.cluster}/topics/{topic}/partitions/0/offset").json()
    assert latest["latest_offset"] == len(produced) < MANY
    stream.close()


def test_what_follows_the_end_of_a_stream_is_read_for_who_reads_later(plane, address):
    body = b"{}x" + b" " * (8 << 20)
    stream = Streaming(address, path_of(plane, "ended"), len(body))
    stream.write_raw(body)
    assert stream.status() == 200
    assert [one["error_code"] for one in stream.rest()] == [200, 400]
    stream.close()


def test_without_a_broker_a_record_is_a_503(lonely):
    answer = lonely.post("/v3/clusters/c/topics/t/records", {})
    assert (answer.status_code, answer.json()["error_code"]) == (503, 50302)
