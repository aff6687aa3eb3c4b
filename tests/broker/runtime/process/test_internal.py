"""The internal endpoint: one thread, rows from the loop a few at a time."""

import asyncio
import errno
import http.client
import json
import socket
import stat
import threading
from concurrent.futures import Future

import pytest
from structlog.testing import capture_logs

from broker.runtime.process import internal
from broker.runtime.process.internal import ROWS_A_TURN, InternalEndpoint, Question
from broker.runtime.process.internal_places import UnixPlace
from broker.runtime.process.levels import OF_BROKER, Levels
from broker.status.unix_socket import NAME, short_path
from tests.support.patience import wait_until


@pytest.fixture
def loop():
    """A loop that runs on a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


class Asker:
    def __init__(self, directory, loop):
        self.directory, self.levels, self.turns = directory, Levels("info"), []
        questions = {
            "many": Question(lambda: ({"n": n} for n in range(2 * ROWS_A_TURN + 1))),
            "none": Question(lambda: iter(())),
            "broken": Question(lambda: iter([1 / 0])),
            "where": Question(self.where),
        }
        self.endpoint = InternalEndpoint(
            UnixPlace(directory), questions, self.levels, self.counted(loop)
        )
        self.endpoint.start()

    def counted(self, loop):
        def call_soon(run):
            self.turns.append(run)
            return loop.call_soon_threadsafe(run)

        return call_soon

    def where(self):
        yield {"thread": threading.current_thread().name}

    def ask(self, method, path):
        asked = http.client.HTTPConnection("broker")
        asked.sock = socket.socket(socket.AF_UNIX)
        with short_path(self.directory) as place:
            asked.sock.connect(place)
        asked.request(method, path)
        answer = asked.getresponse()
        body = answer.read().splitlines() if answer.status == 200 else []
        asked.close()
        return answer.status, [json.loads(line) for line in body]

    def tried(self, path):
        """The same of a GET; None if it was cut off, as slow clients are."""
        try:
            return self.ask("GET", path)
        except (OSError, http.client.HTTPException):
            return None


@pytest.fixture
def asker(tmp_path, loop):
    asker = Asker(tmp_path, loop)
    yield asker
    asker.endpoint.close()


def test_rows_come_whole_and_a_few_in_each_turn(asker):
    status, rows = asker.ask("GET", "/many")
    assert (status, len(rows)) == (200, 2 * ROWS_A_TURN + 1)
    assert rows[-1] == {"n": 2 * ROWS_A_TURN}
    assert len(asker.turns) == 1 + 4  # the question; three parts and their end
    assert asker.ask("GET", "/none") == (200, [])


def test_they_are_read_on_the_loop(asker, loop):
    name = Future()
    loop.call_soon_threadsafe(lambda: name.set_result(threading.current_thread().name))
    assert asker.ask("GET", "/where") == (200, [{"thread": name.result()}])


def test_what_nobody_knows_is_not_found_and_a_fault_ends_one_request_alone(asker):
    assert asker.ask("GET", "/other")[0] == 404
    with pytest.raises(http.client.HTTPException):
        asker.ask("GET", "/broken")
    assert asker.ask("GET", "/none") == (200, [])


def test_its_owner_alone_may_ask(asker):
    mode = (asker.directory / NAME).stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_a_loop_that_hangs_is_a_503_and_not_waited_for(asker, loop, monkeypatch):
    monkeypatch.setattr(internal, "TIMEOUT_S", 0.05)
    free = threading.Event()
    loop.call_soon_threadsafe(free.wait)
    try:
        wait_until(lambda: asker.tried("/many") == (503, []))
    finally:
        free.set()
    wait_until(lambda: asker.tried("/none") == (200, []))


def test_who_asks_nothing_holds_up_the_others_for_a_moment_only(asker, monkeypatch):
    monkeypatch.setattr(internal, "TIMEOUT_S", 0.05)
    with socket.socket(socket.AF_UNIX) as mute:
        with short_path(asker.directory) as place:
            mute.connect(place)
        wait_until(lambda: asker.tried("/none") == (200, []))


def test_levels_are_shown_and_changed(asker):
    assert asker.ask("PUT", "/loggers/lakelog.network?level=debug")[0] == 204
    _, rows = asker.ask("GET", "/loggers")
    found = {row["name"]: row["level"] for row in rows}
    assert found.keys() == {"lakelog", *OF_BROKER}
    assert {name for name, level in found.items() if level != "info"} == {
        "lakelog.network"
    }
    assert asker.ask("PUT", "/loggers/other?level=debug")[0] == 404
    assert asker.ask("PUT", "/loggers/lakelog?level=loud")[0] == 400
    assert asker.ask("PUT", "/many")[0] == 404


def test_stacks_are_asked_of_the_thread_and_not_of_the_loop(asker):
    status, rows = asker.ask("GET", "/stacks")
    assert status == 200
    assert "internal" in {row["thread"] for row in rows}
    assert not asker.turns


def test_a_close_takes_the_socket_away_and_a_start_one_that_was_left(tmp_path, loop):
    first = Asker(tmp_path, loop)
    first.endpoint.close()
    assert not (tmp_path / NAME).exists()
    (tmp_path / NAME).touch()  # as a kill leaves it
    second = Asker(tmp_path, loop)
    assert second.ask("GET", "/none") == (200, [])
    second.endpoint.close()


def test_it_serves_on_after_no_connection_could_be_taken(asker, monkeypatch):
    monkeypatch.setattr(internal, "PAUSE_S", 0.01)
    failing = Failing(asker.endpoint, 3)
    with capture_logs() as events:
        asker.endpoint.serve_on(failing)
    assert failing.left == 0
    assert [event["log_level"] for event in events] == ["error"]


class Failing:
    """A socket that has no files for connections, and then is the closed one."""

    def __init__(self, endpoint, times):
        self.endpoint, self.left = endpoint, times

    def accept(self):
        if not self.left:
            self.endpoint.close()
            raise OSError(errno.EINVAL, "closed")
        self.left -= 1
        raise OSError(errno.EMFILE, "too many open files")
