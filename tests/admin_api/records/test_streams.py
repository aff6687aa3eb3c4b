"""Streams that end before their clients want it: all that was taken is reported."""

import json
import signal
import threading
import time
from contextlib import suppress

import pytest

from admin_api.access import callers
from admin_api.access.tokens import FILE, Role, Tokens
from admin_api.lingering import LINGER_S
from admin_api.records.current import LOOK_S
from tests.support.patience import wait_until
from tests.support.process import Part
from tests.support.streaming import Streaming

RECORD = b'{"value":{"type":"STRING","data":"x"}}'
PIECE = RECORD * 200


def path_of(plane, topic):
    return plane.create(topic).removeprefix("http://plane") + "/records"


def latest(plane, topic):
    url = f"{plane.cluster}/topics/{topic}/partitions/0/offset"
    return plane.get(url).json()["latest_offset"]


class Flood:
    """Records written to a stream until it ends."""

    def __init__(self, stream):
        self._stream, self.pieces = stream, 0
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self):
        with suppress(OSError):
            while True:
                self._stream.write(PIECE)
                self.pieces += 1


@pytest.fixture
def own(plane, tmp_path):
    """A plane in a process of its own, before the broker of the tests."""
    part = Part("admin", tmp_path / "data", "admin_hosts=plane")
    part.arguments = ["--bootstrap", plane.bootstrap, "--admin", "127.0.0.1:0"]
    part.start()
    yield part
    part.end()


def address_of(part):
    host, port = part.facts["admin"].removeprefix("http://").split(":")
    return host, int(port)


def opened(address, path, token="", **more):
    stream = Streaming(address, path, token=token, **more)
    stream.write(RECORD)
    assert stream.status() == 200
    assert stream.report()["offset"] == 0
    return stream


def test_a_stop_reports_all_that_was_produced(plane, own):
    stream = opened(address_of(own), path_of(plane, "stopping"))
    quiet = opened(address_of(own), path_of(plane, "quiet"))
    flood = Flood(stream)
    wait_until(lambda: flood.pieces > 5)
    found = []
    reading = threading.Thread(target=lambda: found.extend(stream.rest()))
    reading.start()
    own.stop()
    reading.join()
    *produced, why = found
    assert [one["error_code"] for one in produced] == [200] * len(produced)
    assert [one["offset"] for one in produced] == list(
        range(1, latest(plane, "stopping"))
    )
    assert why["error_code"] == 503
    assert "stops" in why["message"]
    [why] = quiet.rest()
    assert why["error_code"] == 503
    stream.close()
    quiet.close()


def test_who_writes_and_does_not_read_has_all_reports_after_a_stop(plane, own):
    """What it sends when the plane stops is on its way, and never read."""
    stream = opened(address_of(own), path_of(plane, "unread"), unread_bytes=1 << 12)
    for _ in range(10):
        stream.write(PIECE)
    wait_until(lambda: latest(plane, "unread") == 1 + 10 * 200)
    own.process.send_signal(signal.SIGTERM)
    until_s = time.monotonic() + LINGER_S / 2
    with suppress(OSError):  # what is lost by then is missed below
        while time.monotonic() < until_s:
            stream.write(PIECE)
            time.sleep(0.01)
    own.stop()
    *produced, why = stream.rest()
    assert [one["offset"] for one in produced] == list(
        range(1, latest(plane, "unread"))
    )
    assert why["error_code"] == 503
    stream.close()


@pytest.mark.parametrize("pause_s", [0, 1.1 * LOOK_S])
def test_a_stop_while_the_broker_hangs_reports_what_is_not_known(plane, own, pause_s):
    """With a broker of its own, which nobody else waits for; also where it is asked of
    the topic just then."""
    stream = opened(address_of(own), path_of(plane, f"unsure-{pause_s}"))
    plane.broker.process.send_signal(signal.SIGSTOP)
    time.sleep(pause_s)
    try:
        for _ in range(3):
            stream.write(RECORD)
        own.stop()
    finally:
        plane.broker.go_on()
    *unsure, why = stream.rest()
    assert 1 <= len(unsure) <= 3, "what was not taken of the body is not reported"
    assert {one["error_code"] for one in unsure} == {50302}
    assert "not known" in unsure[0]["message"]
    assert why["error_code"] == 503
    stream.close()


@pytest.fixture
def token(plane, monkeypatch):
    """An operator's, who is looked after often."""
    monkeypatch.setattr(callers, "LOOK_S", 0.05)
    token, text = Tokens(plane.data_dir).create(Role.OPERATOR, "", 0)
    yield token.id, text
    (plane.data_dir / FILE).unlink(missing_ok=True)


def edited(plane, **fields):
    """The one token has these fields now."""
    file = plane.data_dir / FILE
    kept = json.loads(file.read_text())
    kept["tokens"][0] |= fields
    file.with_suffix(".other").write_text(json.dumps(kept))
    file.with_suffix(".other").rename(file)


@pytest.mark.parametrize(
    ("fields", "error_code", "word"),
    [({"role": "viewer"}, 40301, "operator"), ({"expires_ms": 1}, 40101, "expired")],
)
def test_a_stream_ends_when_its_token_is_not_good_for_it_any_more(
    plane, address, request, fields, error_code, word
):
    path = path_of(plane, f"changed-{error_code}")
    _, text = request.getfixturevalue("token")
    stream = opened(address, path, text)
    edited(plane, **fields)
    [why] = stream.rest()
    assert why["error_code"] == error_code
    assert word in why["message"]
    stream.close()


@pytest.mark.parametrize("is_silent", [True, False])
def test_a_stream_ends_when_its_token_is_revoked(plane, address, request, is_silent):
    topic = f"revoked-{is_silent}"
    path = path_of(plane, topic)
    name, text = request.getfixturevalue("token")
    stream = opened(address, path, text)
    if not is_silent:
        flood = Flood(stream)
        wait_until(lambda: flood.pieces > 5)
    Tokens(plane.data_dir).revoke(name)
    *produced, why = stream.rest()
    assert why["error_code"] == 40101
    assert "revoked" in why["message"]
    assert [one["offset"] for one in produced] == list(range(1, 1 + len(produced)))
    (plane.data_dir / FILE).unlink()
    assert latest(plane, topic) == 1 + len(produced)
    stream.close()
