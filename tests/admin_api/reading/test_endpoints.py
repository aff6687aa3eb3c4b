"""Records over HTTP: what is chosen, what is refused, and reading on."""

import signal

import pytest
from confluent_kafka import Producer

from admin_api.access import callers
from admin_api.access.tokens import Role, Tokens
from tests.admin_api.conftest import Plane
from tests.support.confluent import produce_all
from tests.support.patience import IDLE_S, wait_until
from tests.support.process import BrokerPart


@pytest.fixture(scope="module")
def url(plane):
    plane.create("read", partitions=2)
    producer = Producer({"bootstrap.servers": plane.bootstrap})
    for n in range(10):
        producer.produce(
            "read",
            b'{"n": %d}' % n,
            key=None if n % 2 else b"k\xff",
            partition=n % 2,
            timestamp=1000 + n,
            headers=[("h", b"x"), ("h", None)],
        )
    assert producer.flush(IDLE_S) == 0
    return f"/v1/topics/read/records?timeout_ms={30_000}"


def places(found):
    return [(one["partition_id"], one["offset"]) for one in found["data"]]


def whole(plane, url):
    """All that is asked for: a busy broker may let the time of one page pass."""
    found = plane.get(url).json()
    while found["metadata"]["next"]:
        assert found["ended_by"] == "TIMEOUT"
        more = plane.get(found["metadata"]["next"]).json()
        found = more | {"data": found["data"] + more["data"]}
    return found


def test_all_of_a_topic_is_read_with_everything_in_it(plane, url):
    found = whole(plane, url)
    found["data"].sort(key=lambda one: (one["partition_id"], one["offset"]))
    assert places(found) == [(p, n) for p in (0, 1) for n in range(5)]
    assert found["ended_by"] == "END"
    assert found["positions"] == [
        {"partition_id": 0, "offset": 5},
        {"partition_id": 1, "offset": 5},
    ]
    assert found["data"][0] == {
        "partition_id": 0,
        "offset": 0,
        "timestamp_ms": 1000,
        "timestamp_type": "CREATE_TIME",
        "key": {"type": "BASE64", "data": "a/8="},
        "value": {"type": "TEXT", "data": '{"n": 0}'},
        "headers": [
            {"name": "h", "value": {"type": "TEXT", "data": "x"}},
            {"name": "h", "value": None},
        ],
    }
    assert found["data"][5]["key"] is None
    wait_until(lambda: plane.app.state.readers.open == 0)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("&last=1", [(0, 4), (1, 4)]),
        ("&partition=1&last=2", [(1, 3), (1, 4)]),
        ("&partition=0&partition=1&offset=4", [(0, 4), (1, 4)]),
        ("&timestamp_ms=1008", [(0, 4), (1, 4)]),
        ("&at=1:3", [(1, 3), (1, 4)]),
        ("&filter=value.n==7", [(1, 3)]),
        ("&last=0", []),
    ],
)
def test_what_is_chosen_comes(plane, url, query, wanted):
    assert sorted(places(whole(plane, url + query))) == wanted


def test_pages_together_are_the_whole(plane, url):
    following, found = f"{url}&limit=3&filter=value.n!=4", []
    while following:
        page = plane.get(following).json()
        assert len(page["data"]) <= 3
        found += places(page)
        following = page["metadata"]["next"]
    wanted = [(p, n) for p in (0, 1) for n in range(5) if (p, n) != (0, 2)]
    assert sorted(found) == wanted


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("&filter=value%20=%201", 400),
        ("&filter=" + "(" * 100, 400),
        ("&filter=" + "x" * 3000, 400),
        ("&limit=0", 400),
        ("&limit=1001", 400),
        ("&offset=-1", 400),
        ("&offset=6", 400),
        ("&offset=1&last=1", 400),
        ("&at=0:1&at=0:2", 400),
        ("&at=x", 400),
        ("&partition=2", 40402),
        ("&partition=x", 400),
        ("&timestamp_ms=99999999999999999999", 400),
        ("&bytes_max=0", 400),
    ],
)
def test_what_cannot_be_says_why(plane, url, query, code):
    answer = plane.get(url + query)
    assert answer.json()["error_code"] == code, answer.text
    assert len(answer.json()["message"]) > 10


def test_topics_that_are_not_there_or_cannot_be(plane):
    for what in ("records", "tail"):
        missing = plane.get(f"/v1/topics/nobody/{what}")
        assert (missing.status_code, missing.json()["error_code"]) == (404, 40403)
        assert plane.get(f"/v1/topics/a%20b/{what}").status_code == 400
    assert plane.get("/v1/topics/read/tail?duration_s=86401").status_code == 400
    wait_until(lambda: plane.app.state.readers.open == 0)


def test_without_a_broker_it_is_a_503_with_the_reason(lonely):
    for what in ("records", "tail"):
        answer = lonely.get(f"/v1/topics/orders/{what}")
        assert (answer.status_code, answer.json()["error_code"]) == (503, 50302)


def test_a_token_that_is_revoked_ends_the_reading_too(plane, guarded, monkeypatch):
    """The broker hangs from the moment on in which the reading begins."""
    plane_url = "/v1/topics/watched/records?timeout_ms=30000"
    produce_all(plane.bootstrap, "watched", [(None, b"v", None, 0)])
    readers, tokens = plane.app.state.readers, Tokens(plane.data_dir)
    [own] = [one.id for one in tokens.read().values() if one.role is Role.VIEWER]
    monkeypatch.setattr(callers, "LOOK_S", 0.05)
    make = readers._make

    def reading_begins(config):
        plane.broker.process.send_signal(signal.SIGSTOP)
        tokens.revoke(own)
        return make(config)

    monkeypatch.setattr(readers, "_make", reading_begins)
    try:
        answer = plane.ask("GET", plane_url, headers=guarded[Role.VIEWER])
    finally:
        plane.broker.go_on()
    assert (answer.status_code, answer.json()["error_code"]) == (401, 40101)
    assert "revoked" in answer.json()["message"]
    wait_until(lambda: readers.open == 0)


def damage(directory, found):
    """Change a byte of the one file that has these."""
    for path in (one for one in directory.rglob("*") if one.is_file()):
        place = path.read_bytes().find(found)
        if place >= 0:
            with path.open("r+b") as file:
                file.seek(place)
                file.write(b"\x00")
            return
    raise AssertionError(f"nobody has {found!r}")


def test_a_damaged_place_is_named_and_what_is_behind_it_is_read(tmp_path):
    part = BrokerPart(tmp_path / "data")
    part.start()
    plane = Plane(part.bootstrap, part.data_dir)
    plane.create("damaged")
    for value in (b"before", b"in the middle", b"behind"):
        produce_all(part.bootstrap, "damaged", [(None, value, None, 0)])
    plane.close()
    part.stop()
    damage(part.data_dir / "wal", b"in the middle")
    part.start()
    plane = Plane(part.bootstrap, part.data_dir)
    url = f"/v1/topics/damaged/records?timeout_ms={30_000}"
    answer = plane.get(url)
    assert (answer.status_code, answer.json()["error_code"]) == (409, 40900)
    assert "damaged-0 is damaged from offset 1 on" in answer.json()["message"]
    assert places(whole(plane, f"{url}&at=0:2")) == [(0, 2)]
    tail = plane.get("/v1/topics/damaged/tail?at=0:1").text
    assert '"error_code": 40900' in tail
    plane.close()
    part.end()
