"""``lakelog up`` without its compactor: started, watched, stopped, killed."""

import json
import signal
import sys
from contextlib import suppress
from itertools import chain
from subprocess import PIPE, Popen
from time import sleep
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.support.confluent import produce_all, read
from tests.support.patience import IDLE_S, wait_until
from tests.support.process import WholePart, gone


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """For those who leave it as it is: relaxed, in a directory with a space, at
    whatever port is free."""
    part = WholePart(tmp_path_factory.mktemp("up") / "my data", "wal.sync=interval")
    part.arguments = ["--listener", "127.0.0.1:0", *part.arguments[2:]]
    part.arguments.append("--no-compactor")
    part.start()
    yield part
    part.kill()


@pytest.fixture
def up(tmp_path):
    part = WholePart(tmp_path / "data")
    yield part
    if part.alive:
        part.kill()


@pytest.fixture
def kafka_only(up):
    up.arguments.append("--no-compactor")
    return up.start()


def serves(up) -> bool:
    produce_all(up.bootstrap, "t", [(None, b"hello", None, -1)])
    return bool(read(up.bootstrap, "t", 1))


def test_the_plane_has_a_logger_of_its_own(running):
    url = f"{running.facts['admin']}/v1/loggers/lakelog.admin"
    with urlopen(url) as answer:
        assert json.load(answer) == {"name": "lakelog.admin", "level": "info"}


def is_ready(admin: str) -> bool:
    with suppress(HTTPError), urlopen(f"{admin}/readyz") as answer:
        return json.load(answer)["ready"]
    return False


def test_the_ready_line_names_what_was_chosen(running):
    facts = running.facts
    assert facts.keys() == {"kafka", "admin", "sync", "tables"}
    assert facts["sync"] == "interval"
    assert facts["tables"] == str(running.data_dir / "tables")
    assert not facts["kafka"].endswith(":0")
    wait_until(lambda: is_ready(facts["admin"]))
    assert serves(running)
    assert sorted(running.descendants()) == ["admin", "broker"]


def test_who_asks_whether_it_is_ready_hears_that_it_is_relaxed(running):
    wait_until(lambda: is_ready(running.facts["admin"]))
    with urlopen(f"{running.facts['admin']}/readyz") as answer:
        warnings = json.load(answer)["warnings"]
    assert [one for one in warnings if one.startswith("wal.sync=interval: ")], warnings


not_under_nohup = pytest.mark.skipif(
    signal.getsignal(signal.SIGHUP) is signal.SIG_IGN, reason="nobody hears it"
)


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        signal.SIGINT,
        pytest.param(signal.SIGHUP, marks=not_under_nohup),
    ],
)
def test_a_signal_stops_all_parts(kafka_only, number):
    children = list(chain(*kafka_only.descendants().values()))
    assert serves(kafka_only)
    kafka_only.process.send_signal(number)
    assert kafka_only.process.wait(IDLE_S) == 0, kafka_only.tail()
    assert gone(children)
    assert "stopped" in kafka_only.tail()
    assert "Traceback" not in kafka_only.tail()


def test_who_follows_a_topic_over_http_does_not_hold_up_a_stop(kafka_only):
    assert serves(kafka_only)
    url = f"{kafka_only.facts['admin']}/v1/topics/t/tail"
    with urlopen(url, timeout=IDLE_S) as stream:
        assert stream.readline() == b": following\n"
        assert kafka_only.stop() == 0
        assert b'{"ended_by": "STOP"}' in stream.read()
    assert "Traceback" not in kafka_only.tail()


def test_a_second_signal_stops_at_once(kafka_only):
    [broker] = kafka_only.descendants()["broker"]
    children = list(chain(*kafka_only.descendants().values()))
    broker.suspend()  # it will not answer the first one
    kafka_only.process.send_signal(signal.SIGTERM)
    kafka_only.process.send_signal(signal.SIGINT)  # two of one kind may become one
    kafka_only.process.wait(IDLE_S)
    assert "does not stop" not in kafka_only.tail()  # its time was not waited for
    assert gone(children)


@not_under_nohup
def test_a_terminal_that_is_closed_may_say_so_twice(kafka_only):
    """As its shell and the kernel do; it is an orderly stop all the same."""
    [broker] = kafka_only.descendants()["broker"]
    broker.suspend()
    kafka_only.process.send_signal(signal.SIGHUP)
    sleep(0.5)
    kafka_only.process.send_signal(signal.SIGHUP)
    sleep(0.5)
    broker.resume()
    assert kafka_only.process.wait(IDLE_S) == 0, kafka_only.tail()
    assert "stopped" in kafka_only.tail()


def test_under_nohup_it_outlives_its_terminal(up):
    up.arguments += ["--no-compactor", "--no-admin"]
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        up.start()
    finally:
        signal.signal(signal.SIGHUP, before)
    up.process.send_signal(signal.SIGHUP)
    assert serves(up)
    assert up.stop() == 0


def test_a_part_that_does_not_stop_is_ended_in_time(kafka_only):
    [broker] = kafka_only.descendants()["broker"]
    broker.suspend()
    assert kafka_only.stop() is not None
    assert gone([broker])


def test_a_broker_that_dies_ends_all_and_the_reason_is_told(kafka_only):
    children = kafka_only.descendants()
    children["broker"][0].kill()
    assert kafka_only.process.wait(IDLE_S) == 1
    assert "killed by SIGKILL" in kafka_only.tail()
    assert gone(children["admin"])


def test_an_admin_plane_that_dies_is_started_again_and_kafka_goes_on(kafka_only):
    kafka_only.descendants()["admin"][0].kill()
    assert serves(kafka_only)
    wait_until(lambda: "killed by SIGKILL" in kafka_only.tail())
    wait_until(lambda: "admin" in kafka_only.descendants())


def test_no_child_outlives_an_up_that_was_killed(kafka_only):
    children = list(chain(*kafka_only.descendants().values()))
    kafka_only.kill()
    assert gone(children)


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    empty = tmp_path / "bin"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.delenv("JAVA_HOME", raising=False)


@pytest.mark.usefixtures("no_java")
def test_without_java_kafka_is_served_though_standard_error_takes_no_warning(tmp_path):
    words = ["-m", "broker.cli", "up", "--data-dir", str(tmp_path / "data")]
    words += ["--listener", "127.0.0.1:0", "--no-admin"]
    with (
        open("/dev/full", "w") as full,
        Popen([sys.executable, *words], stdout=PIPE, stderr=full, text=True) as started,
    ):
        said = started.stdout.readline()
        started.terminate()
        assert started.wait(IDLE_S) == 0
    assert said.startswith("ready kafka=")


@pytest.mark.usefixtures("no_java")
def test_without_java_kafka_is_served_and_it_is_told_once(up):
    up.start()
    assert serves(up)
    assert up.tail().count("Java 17 or newer was not found") == 1
    assert sorted(up.descendants()) == ["admin", "broker"]
    assert up.stop() == 0


def test_a_data_directory_in_use_ends_it(running, tmp_path):
    other = WholePart(running.data_dir)
    other.log = tmp_path / "other.log"
    other.arguments.append("--no-compactor")
    other.start(wait=False)
    assert other.process.wait(IDLE_S) == 1
    assert "is in use by the broker on" in other.tail()


def test_a_taken_admin_port_ends_it_before_anything_starts(running, tmp_path):
    taken = running.facts["admin"].removeprefix("http://")
    other = WholePart(tmp_path / "other")
    other.arguments[-1] = taken
    other.start(wait=False)
    assert other.process.wait(IDLE_S) == 1
    said = other.tail().strip()
    assert said.startswith(f"lakelog: cannot listen on {taken}: ")
    assert not (tmp_path / "other").exists()
