"""A fork is what ``python -m`` would have made: words, files, surroundings and end."""

import json
import os
import signal
import subprocess
import sys
import threading

import psutil
import pytest

from tests.support import nursery
from tests.support.patience import IDLE_S, wait_until

PROGRAM = """
import json, os, sys
from broker import failpoints
if sys.argv[1] == "says":
    json.dump([sys.argv[1:], sys.stdin.read(), os.getcwd(), dict(os.environ),
               __name__, failpoints.armed(), sorted(os.listdir("/proc/self/fd"))],
              sys.stdout)
    print("aside", file=sys.stderr)
elif sys.argv[1] == "ends":
    sys.exit(int(sys.argv[2]))
elif sys.argv[1] == "fails":
    raise ValueError("with a traceback")
else:
    print("here", flush=True)
    import time
    time.sleep(1000)
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A module that the nursery has never heard of, found in the working directory."""
    (tmp_path / "told_apart.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    return dict(os.environ)


@pytest.fixture
def waiting(program):
    with (program_log := open(os.devnull, "ab")):
        forked = nursery.start(["told_apart", "waits"], program, program_log)
    assert forked.stdout is not None
    with forked.stdout as said:
        assert said.readline() == "here\n"
    yield forked
    forked.kill()
    forked.wait(IDLE_S)


def _run(env, *words, stdin=b""):
    return nursery.run(["told_apart", *words], env, stdin, IDLE_S)


def test_it_has_the_words_the_files_and_the_surroundings_it_was_given(
    program, tmp_path
):
    env = {"PATH": "", "SAID": "so"}
    done = _run(env, "says", "--word", "two words", stdin="grüß".encode())
    found = subprocess.run(
        [sys.executable, "-m", "told_apart", "says", "--word", "two words"],
        input="grüß".encode(), env=env, capture_output=True, check=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"aside\n")
    words, stdin, place, surroundings, name, armed, files = json.loads(done.stdout)
    assert words == ["says", "--word", "two words"]
    assert (stdin, place, name, armed) == ("grüß", str(tmp_path), "__main__", False)
    assert surroundings == env
    beside = json.loads(found.stdout)
    assert beside[:5] == [words, stdin, place, beside[3], name]
    assert files == beside[6], "no more files than another process"


def test_failpoints_are_those_of_its_surroundings(program):
    done = _run(program | {"LAKELOG_FAILPOINTS": "wal.after_write"}, "says")
    assert b'"__main__", true' in done.stdout


@pytest.mark.parametrize("code", [0, 1, 3])
def test_its_exit_code_is_told(program, code):
    assert _run(program, "ends", str(code)).returncode == code


def test_one_that_raises_says_so_as_python_does(program):
    done = _run(program, "fails")
    assert done.returncode == 1
    assert done.stderr.endswith(b"ValueError: with a traceback\n")


def test_a_killed_one_ends_as_killed_and_is_sent_nothing_more(waiting):
    assert waiting.poll() is None
    waiting.kill()
    assert waiting.wait(IDLE_S) == -signal.SIGKILL
    assert waiting.poll() == waiting.wait() == -signal.SIGKILL
    waiting.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_do_what_they_do_to_any_python(waiting, number):
    waiting.send_signal(number)
    assert waiting.wait(IDLE_S) == -number


def test_whoever_waits_too_short_is_told(waiting):
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(0.01)
    assert waiting.poll() is None


def test_a_run_that_takes_too_long_is_killed(program):
    with pytest.raises(subprocess.TimeoutExpired):
        nursery.run(["told_apart", "waits"], program, b"", 0.2)


def test_it_is_killed_while_somebody_else_waits_for_its_end(waiting):
    waits = threading.Thread(target=waiting.wait, daemon=True)
    waits.start()
    kills = threading.Thread(target=waiting.kill, daemon=True)
    kills.start()
    waits.join(IDLE_S)
    assert waiting.returncode == -signal.SIGKILL


def test_one_that_has_just_ended_is_sent_nothing():
    """It is reaped already, and that has not been told yet."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    told, tell = os.pipe()
    with open(tell, "wb"):
        forked = nursery.Forked(ended.pid, told)
        forked.kill()
    assert forked.wait(IDLE_S) == -signal.SIGKILL


@pytest.fixture
def own(program):
    """A nursery that nobody else asks, and the number of a program of it."""
    nursery_of_its_own = nursery.Nursery()
    ended, tell = os.pipe()
    with open(os.devnull, "r+b") as nothing, open(ended, "rb"):
        asked = {"words": ["told_apart", "waits"], "env": program, "cwd": os.getcwd()}
        files = [*[nothing.fileno()] * 3, tell]
        pid = nursery_of_its_own.ask(json.dumps(asked).encode(), files)
        os.close(tell)
        assert psutil.pid_exists(pid)
        yield nursery_of_its_own, pid
    nursery_of_its_own.close()


def test_when_nobody_can_ask_any_more_all_of_them_end(own):
    """As when pytest is killed."""
    own[0].close()
    wait_until(lambda: not _runs(own[1]))


def test_when_the_nursery_is_killed_all_of_them_end(own):
    nursery_of_its_own, pid = own
    os.kill(nursery_of_its_own.pid, signal.SIGKILL)
    wait_until(lambda: not _runs(pid))


def _runs(pid):
    """Whether it does; who has no parent any more may stay a zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
