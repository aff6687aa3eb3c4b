"""The internal endpoint: one thread, rows from the loop a few at a time, to an end."""

import asyncio
import errno
import http.client
import json
import socket
import stat
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import count

import pytest
from structlog.testing import capture_logs

from broker.runtime.process import internal
from broker.runtime.process.internal import ROWS_A_TURN, InternalEndpoint, Question
from broker.runtime.process.internal_http import HttpConnection
from broker.runtime.process.internal_places import UnixPlace
from broker.runtime.process.levels import OF_BROKER, Levels
from broker.status.unix_socket import NAME, short_path
from tests.support.patience import IDLE_S, STUCK_S, wait_until


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
    def __init__(self, directory, call_soon, late=list):
        self.directory, self.levels = directory, Levels("info")
        questions = {
            "many": Question(lambda: ({"n": n} for n in range(2 * ROWS_A_TURN + 1))),
            "none": Question(lambda: iter(())),
            "endless": Question(lambda: ({"n": n} for n in count())),
            "broken": Question(lambda: iter([1 / 0])),
            "where": Question(self.where),
            "late": Question(late),
        }
        self.endpoint = InternalEndpoint(
            UnixPlace(directory), questions, self.levels, call_soon
        )
        before = set(threading.enumerate())
        self.endpoint.start()
        self.threads = set(threading.enumerate()) - before

    def where(self):
        yield {"thread": threading.current_thread().name}

    def connect(self):
        connected = socket.socket(socket.AF_UNIX)
        connected.settimeout(STUCK_S)
        with short_path(self.directory) as place:
            connected.connect(place)
        return connected

    def ask(self, method, path):
        with closing(http.client.HTTPConnection("broker")) as asked:
            asked.sock = self.connect()
            asked.request(method, path)
            answer = asked.getresponse()
            lines = answer.read().splitlines()
            return answer.status, [json.loads(line) for line in lines]

    def tried(self, path):
        """The same of a GET; None if it was cut off, as slow clients are."""
        try:
            return self.ask("GET", path)
        except (OSError, http.client.HTTPException):
            return None


class Turns(list):
    """What was asked of a loop; asked of this, it runs there."""

    def __init__(self, loop):
        self.loop = loop

    def __call__(self, run):
        self.append(run)
        self.loop.call_soon_threadsafe(run)


@pytest.fixture
def turns(loop):
    return Turns(loop)


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    monkeypatch.setattr(internal, "TIMEOUT_S", STUCK_S)


@pytest.fixture
def asker(tmp_path, turns):
    asker = Asker(tmp_path, turns)
    yield asker
    asker.endpoint.close()


def test_rows_come_whole_and_a_few_in_each_turn(asker, turns):
    status, rows = asker.ask("GET", "/many")
    assert (status, len(rows)) == (200, 2 * ROWS_A_TURN + 1)
    assert rows[-1] == {"n": 2 * ROWS_A_TURN}
    assert len(turns) == 1 + 4  # the question; three parts and their end
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
    monkeypatch.setattr(internal, "TIMEOUT_S", STUCK_S)
    assert asker.ask("GET", "/none") == (200, [])


def test_who_asks_nothing_holds_up_nobody(asker):
    with asker.connect():
        assert asker.ask("GET", "/none") == (200, [])


def test_who_takes_nothing_is_left_and_holds_up_nobody(asker, turns, monkeypatch):
    def hasty(asking, timeout_s):
        return HttpConnection(asking, timeout_s / 10_000)

    monkeypatch.setattr(internal, "HttpConnection", hasty)
    with asker.connect() as greedy:
        greedy.sendall(b"GET /endless HTTP/1.1\r\nHost: broker\r\n\r\n")
        wait_until(lambda: turns and not asker.endpoint.connected)


def test_rows_are_written_before_all_of_them_were_asked_for(asker, turns):
    with closing(http.client.HTTPConnection("broker")) as asked:
        asked.sock = asker.connect()
        asked.request("GET", "/endless")
        with closing(asked.getresponse()) as answer:
            read = [json.loads(answer.readline())["n"] for _ in range(1000)]
        assert read == [*range(1000)]
    wait_until(lambda: not asker.endpoint.connected)
    turns.clear()
    assert asker.ask("GET", "/none") == (200, [])
    assert len(turns) == 2  # and no more of those that nobody takes


def test_an_answer_that_cannot_be_finished_has_no_end(tmp_path, loop):
    turns = Turns(loop)

    def closing_soon(run):
        if len(turns) == 2:  # the question, and its first rows
            raise RuntimeError("the loop is closed")
        turns(run)

    asker = Asker(tmp_path, closing_soon)
    with pytest.raises(http.client.IncompleteRead) as cut:
        asker.ask("GET", "/many")
    assert len(cut.value.partial.splitlines()) == ROWS_A_TURN
    asker.endpoint.close()


def test_one_asker_has_a_turn_of_the_loop_and_then_another(tmp_path):
    waiting, most, ended = [], [], threading.Event()

    def pump():
        while not ended.wait(0.001):
            most.append(len(waiting))
            for run in [waiting.pop() for _ in waiting[:]]:
                run()

    pumping = threading.Thread(target=pump)
    asker = Asker(tmp_path, waiting.append)
    pumping.start()
    with ThreadPoolExecutor(8) as askers:
        found = list(askers.map(lambda _: asker.ask("GET", "/many"), range(16)))
    ended.set()
    pumping.join()
    asker.endpoint.close()
    assert {(status, len(rows)) for status, rows in found} == {
        (200, 2 * ROWS_A_TURN + 1)
    }
    assert max(most) == 1


def test_what_nobody_waits_for_any_more_is_not_done(tmp_path, monkeypatch):
    monkeypatch.setattr(internal, "TIMEOUT_S", 0.05)
    waiting, done = [], []
    asker = Asker(tmp_path, waiting.append, late=lambda: done.append(1))
    wait_until(lambda: asker.tried("/late") == (503, []))
    asker.endpoint.close()
    for run in waiting:
        run()
    assert waiting
    assert not done


def test_levels_are_shown_and_changed(asker):
    assert asker.ask("PUT", "/loggers/lakelog.network?level=debug")[0] == 200
    _, rows = asker.ask("GET", "/loggers")
    found = {row["name"]: row["level"] for row in rows}
    assert found.keys() == {"lakelog", *OF_BROKER}
    assert {name for name, level in found.items() if level != "info"} == {
        "lakelog.network"
    }
    assert asker.ask("PUT", "/loggers/other?level=debug")[0] == 404
    assert asker.ask("PUT", "/loggers/lakelog?level=loud")[0] == 400
    assert asker.ask("PUT", "/many")[0] == 404


def test_stacks_are_asked_of_the_thread_and_not_of_the_loop(asker, turns):
    status, rows = asker.ask("GET", "/stacks")
    assert status == 200
    assert "internal" in {row["thread"] for row in rows}
    assert not turns


def test_a_close_ends_the_thread(tmp_path, turns):
    asker = Asker(tmp_path, turns)
    wait_until(lambda: asker.ask("GET", "/none") == (200, []))
    [thread] = asker.threads
    asker.endpoint.close()
    thread.join(IDLE_S)
    assert not thread.is_alive()


def test_a_close_takes_the_socket_away_and_a_start_one_that_was_left(tmp_path, turns):
    first = Asker(tmp_path, turns)
    first.endpoint.close()
    assert not (tmp_path / NAME).exists()
    (tmp_path / NAME).touch()  # as a kill leaves it
    second = Asker(tmp_path, turns)
    assert second.ask("GET", "/none") == (200, [])
    second.endpoint.close()


def test_it_serves_on_after_no_connection_could_be_taken(asker, monkeypatch):
    monkeypatch.setattr(internal, "PAUSE_S", 0.01)
    failing = Failing(asker.endpoint, 3)
    with capture_logs() as events:
        asyncio.run(asker.endpoint.serve_on(failing))
    assert failing.left == 0
    assert [event["log_level"] for event in events] == ["error"]


class Failing:
    """A socket that has no files for connections, and then is the closed one."""

    def __init__(self, endpoint, times):
        self.endpoint, self.left = endpoint, times

    def fileno(self):
        return -1

    def accept(self):
        if not self.left:
            self.endpoint.close()
            raise OSError(errno.EINVAL, "closed")
        self.left -= 1
        raise OSError(errno.EMFILE, "too many open files")
