"""Who writes a line never waits: pipes, sockets and a terminal that nobody reads."""

import fcntl
import os
import pty
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from textwrap import dedent

import pytest

from broker.runtime.process import line_output
from broker.runtime.process.line_output import LineOutput
from tests.support.patience import STUCK_S

PAGE = 4_096


def full_pipe() -> tuple[int, int]:
    """Its ends; it holds a page, of dots, and takes no byte more."""
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, PAGE)
    os.write(write, b"." * PAGE)
    return read, write


def full_socket() -> tuple[int, int]:
    """A stream, as services of systemd have one for their journal."""
    one, other = socket.socketpair()
    other.setblocking(False)
    try:
        while True:
            other.send(b"." * PAGE)
    except BlockingIOError:
        other.setblocking(True)
    return one.detach(), other.detach()


@pytest.fixture(params=[full_pipe, full_socket])
def full(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    read, write = request.param()
    yield read, write
    os.close(read)
    os.close(write)


def output(fd: int) -> LineOutput:
    """One that says itself what it lost."""
    made = LineOutput(fd, lambda count: made.write(b"%d lost\n" % count))
    return made


def read_until(fd: int, end: bytes) -> list[bytes]:
    """The lines behind the dots, up to the one that ends so."""
    said = b""
    while not said.endswith(end):
        said += os.read(fd, 1 << 16)
    return said.lstrip(b".").splitlines()


@pytest.mark.timeout(STUCK_S)
def test_nobody_waits_for_a_reader_who_has_stopped_and_all_comes_in_order(full):
    read, write = full
    said = output(write)
    for number in range(100):
        said.write(b"%d\n" % number)
    assert not said.flush(0.05)
    said.write(b"end\n")
    lines = read_until(read, b"end\n")
    assert lines == [*(b"%d" % number for number in range(100)), b"end"]
    assert said.flush(STUCK_S)


@pytest.mark.timeout(STUCK_S)
def test_what_finds_no_room_is_counted_and_the_count_stands_in_its_place(
    full, monkeypatch
):
    monkeypatch.setattr(line_output, "WAITING_BYTES_MAX", 100)
    read, write = full
    said = output(write)
    for number in range(10, 40):
        said.write(b"%d-------\n" % number)
    lines = read_until(read, b"20 lost\n")
    assert lines[:-1] == [b"%d-------" % number for number in range(10, 20)]
    assert said.flush(STUCK_S)
    said.write(b"later\n")
    assert read_until(read, b"later\n") == [b"later"]


@pytest.mark.timeout(STUCK_S)
def test_what_is_taken_at_once_is_there_before_its_writer_goes_on(tmp_path):
    """No thread has to run first: he may be killed in the next moment."""
    read, write = os.pipe()
    threads = threading.active_count()
    output(write).write(b"last words\n")
    assert threading.active_count() == threads
    assert os.read(read, 100) == b"last words\n"
    assert os.get_blocking(write), "others who share the pipe did not ask for that"
    os.close(read)
    os.close(write)
    with (tmp_path / "log").open("ab") as file:
        output(file.fileno()).write(b"last words\n")
        assert (tmp_path / "log").read_bytes() == b"last words\n"


@pytest.mark.timeout(STUCK_S)
def test_a_line_longer_than_what_a_pipe_holds_comes_whole():
    read, write = os.pipe()
    said = output(write)
    said.write(b"x" * 300_000 + b"\n")
    said.write(b"end\n")
    assert read_until(read, b"end\n") == [b"x" * 300_000, b"end"]
    os.close(read)
    os.close(write)


@pytest.mark.timeout(STUCK_S)
def test_a_terminal_that_is_held_keeps_nobody():
    ours, theirs = pty.openpty()
    said = output(theirs)
    os.write(ours, b"\x13")  # ctrl-S
    for _ in range(100):
        said.write(b"x" * 1_000 + b"\n")
    said.write(b"end\n")
    os.write(ours, b"\x11")  # ctrl-Q
    assert len(read_until(ours, b"end\r\n")) == 101
    os.close(ours)
    os.close(theirs)


@pytest.mark.timeout(STUCK_S)
def test_who_shares_the_file_may_have_made_it_one_that_does_not_wait(full):
    read, write = full
    os.set_blocking(write, False)
    said = output(write)
    said.write(b"one\n")
    said.write(b"end\n")
    assert not said.flush(0.05)
    assert read_until(read, b"end\n") == [b"one", b"end"]


def test_what_a_file_refuses_is_dropped_and_its_writer_hears_of_it():
    heard: list[tuple[bytes, str | None]] = []
    with open("/dev/full", "wb") as full:
        said = LineOutput(
            full.fileno(), print, lambda rest, why: heard.append((rest, why.strerror))
        )
        said.write(b"one\n")
        assert said.flush(0)
    assert heard == [(b"one\n", "No space left on device")]


@pytest.mark.timeout(STUCK_S)
def test_where_no_thread_is_left_lines_wait_for_the_next_try(monkeypatch):
    def none_left(_):
        raise RuntimeError("can't start new thread")

    read, write = full_pipe()
    said = output(write)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", none_left)
        said.write(b"one\n")
    said.write(b"end\n")
    assert read_until(read, b"end\n") == [b"one", b"end"]
    os.close(read)
    os.close(write)


ENDING = """
    import os, sys
    from broker.runtime.process.line_output import LineOutput
    said = LineOutput(2, print)
    said.write(b"x" * 100_000 + b"\\n")
    said.write(b"end\\n")
    print("here", flush=True)
    if sys.argv[1] == "forks" and os.fork() == 0:
        said.write(b"of the child\\n")  # the pipe is full: it needs a thread as well
    if sys.argv[1] == "raises":
        sys.excepthook = lambda *_: None
        raise ValueError
"""


def ending(how: str) -> subprocess.Popen[bytes]:
    started = subprocess.Popen(
        [sys.executable, "-c", dedent(ENDING), how],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert started.stdout.readline() == b"here\n"
    return started


@pytest.mark.timeout(STUCK_S)
@pytest.mark.parametrize("how", ["ends", "raises", "forks"])
def test_what_waits_at_the_end_is_written_for_who_reads(how):
    _, said = ending(how).communicate()
    assert said.count(b"of the child\n") == (how == "forks")
    said = said.replace(b"of the child\n", b"")
    assert said.splitlines() == [b"x" * 100_000, b"end"]


@pytest.mark.timeout(STUCK_S)
def test_an_end_waits_a_moment_for_who_does_not_read():
    process = ending("ends")
    assert process.wait() == 0
    process.stdout.close()
    process.stderr.close()
