"""Whoever started a part hears when clients can come: real sockets, real programs."""

import os
import socket
import sys
import tempfile
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from subprocess import PIPE, Popen, run
from textwrap import dedent

import pytest
from structlog.testing import capture_logs

from broker.cli.announce import announce, notify
from tests.support.patience import STUCK_S, becomes_true
from tests.support.process import BrokerPart, WholePart

NUMBERS = count()


@contextmanager
def listening(monkeypatch, address=None):
    """A socket as systemd binds one; an abstract name if no path is given."""
    name = address or f"@lakelog-{os.getpid()}-{next(NUMBERS)}"
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as bound:
        bound.bind("\0" + name[1:] if name.startswith("@") else name)
        bound.settimeout(STUCK_S)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        yield bound


def test_who_listens_hears_the_line_that_people_see(monkeypatch, capsys):
    with listening(monkeypatch) as bound:
        announce("ready kafka=a:1")
        assert bound.recv(4096) == b"READY=1\nSTATUS=ready kafka=a:1"
    assert capsys.readouterr().out == "ready kafka=a:1\n"


SAYING = """
    import structlog, sys
    from broker.cli.announce import announce, say
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    announce("ready kafka=a:1")
    say("compactor ready")
"""


@pytest.mark.parametrize("environment", [{}, {"PYTHONUNBUFFERED": "1"}])
def test_a_line_that_standard_output_does_not_take_ends_nothing(
    monkeypatch, environment
):
    """As a file on a full disk; who waits for systemd's word gets it all the same."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    with listening(monkeypatch) as bound, open("/dev/full", "w") as full:
        done = run(
            [sys.executable, "-c", dedent(SAYING)],
            env=os.environ | environment, stdout=full, stderr=PIPE, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert bound.recv(4096) == b"READY=1\nSTATUS=ready kafka=a:1"
    assert done.stderr.count("nobody hears") == 1
    assert "No space left on device" in done.stderr


FLOOD = """
    import structlog, sys
    from broker.cli.announce import _output_of, say
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    for number in range(2_000):
        say(f"{number} " + "x" * 1_000)
    print("goes on", file=sys.stderr, flush=True)
    assert _output_of(sys.stdout).flush(float(sys.argv[1]))  # for who reads
"""


@pytest.mark.timeout(STUCK_S)
def test_nobody_who_says_a_line_waits_for_who_reads_it():
    """As `up`, from its own loop, what Spark printed."""
    started = Popen(
        [sys.executable, "-c", dedent(FLOOD), str(STUCK_S)],
        stdout=PIPE,
        stderr=PIPE,
        text=True,
    )
    assert started.stderr.readline() == "goes on\n"
    # Not by communicate(): it passes over what came with the first line.
    with started:
        heard, logged = started.stdout.read(), started.stderr.read()
    numbers = [int(line.split()[0]) for line in heard.splitlines()]
    assert numbers == list(range(len(numbers)))
    assert f"count={2_000 - len(numbers)}" in logged
    assert started.returncode == 0


READY = """
    import os, sys
    from broker.cli.announce import announce
    announce("ready tables=" + os.fsdecode(sys.argv[1].encode("latin-1")))
"""


@pytest.mark.parametrize(
    ("encoding", "path", "said"),
    [
        ("latin-1", "テスト".encode(), rb"\u30c6\u30b9\u30c8"),
        ("utf-8", b"d\xff", b"d\xff"),
        ("utf-8", "テスト".encode(), "テスト".encode()),
    ],
)
def test_a_path_of_any_letters_keeps_no_part_from_being_ready(
    monkeypatch, encoding, path, said
):
    variables = {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "1"}
    with listening(monkeypatch) as bound:
        done = run(
            [sys.executable, "-c", dedent(READY), path.decode("latin-1")],
            env=os.environ | variables, capture_output=True,
        )  # fmt: skip
        assert done.stdout == b"ready tables=" + said + b"\n"
        assert done.returncode == 0, done.stderr
        assert bound.recv(4096).startswith(b"READY=1\nSTATUS=ready tables=")


def test_a_path_is_a_socket_as_well(monkeypatch):
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as directory,
        listening(monkeypatch, f"{directory}/notify") as bound,
    ):
        notify("READY=1")
        assert bound.recv(4096) == b"READY=1"


@pytest.mark.parametrize("address", [None, "", "relative", "vsock:2:1"])
def test_where_nobody_wants_it_nothing_is_sent(monkeypatch, address):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    if address is not None:
        monkeypatch.setenv("NOTIFY_SOCKET", address)
    with capture_logs() as events:
        notify("READY=1")
    assert events == []


def test_who_cannot_be_reached_keeps_nothing_from_starting(monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere/notify")
    with capture_logs() as events:
        notify("READY=1")
    [event] = events
    assert event["event"] == "systemd cannot be notified"


def test_a_broker_is_ready_when_its_port_takes_connections(monkeypatch, tmp_path):
    part = BrokerPart(tmp_path / "data")
    with listening(monkeypatch) as bound:
        part.start(wait=False)
        try:
            said = bound.recv(4096).decode()
            assert said.startswith("READY=1\nSTATUS=ready kafka=")
            host, _, port = said.partition("kafka=")[2].split()[0].rpartition(":")
            socket.create_connection((host, int(port))).close()
        finally:
            part.end()


def test_all_of_up_is_ready_once_and_its_children_say_nothing(monkeypatch, tmp_path):
    part = WholePart(tmp_path / "data")
    part.arguments.append("--no-compactor")
    with listening(monkeypatch) as bound:
        part.start()
        try:
            said = bound.recv(4096).decode()
            assert part.facts["admin"] in said
            pids = [one.pid for kind in part.descendants().values() for one in kind]
            assert len(pids) == 2
            for pid in pids:
                environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                assert b"NOTIFY_SOCKET=" in environment
        finally:
            part.end()
        assert becomes_true(lambda: not part.alive)
        bound.setblocking(False)
        with pytest.raises(BlockingIOError):
            bound.recv(4096)
