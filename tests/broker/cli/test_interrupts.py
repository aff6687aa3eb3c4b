"""Ctrl-C while a command is loaded, and where it is deferred: real programs."""

import signal
import subprocess
import sys

import pytest

from tests.support.patience import STUCK_S

PROGRAM = """
import os, signal, sys

signal.signal(signal.SIGINT, getattr(signal, sys.argv.pop(1)))
module = sys.argv.pop(1)

class Finder:
    def find_spec(name, path, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder)
from broker.cli import main
main()
"""


def interrupted(
    handler: str, module: str, *words: str
) -> subprocess.CompletedProcess[bytes]:
    """A command at which ctrl-C comes when it begins to load a module."""
    command = [sys.executable, "-c", PROGRAM, handler, module, *words]
    return subprocess.run(command, capture_output=True, timeout=STUCK_S)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("broker.cli.streams", ("up",)),
        ("broker.cli.app", ("up",)),
        ("broker.cli.app", ("config", "show")),
        ("broker.runtime.process.logging", ("up", "--no-admin", "--no-compactor")),
        ("broker.node", ("broker",)),
    ],
)
def test_ctrl_c_while_it_loads_is_a_plain_end(module, words):
    done = interrupted("default_int_handler", module, *words)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


def test_a_command_that_may_have_to_clean_up_gets_the_exception():
    done = interrupted("default_int_handler", "jobs.check", "check")
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_where_it_is_ignored_it_stays_so():
    done = interrupted("SIG_IGN", "broker.cli.app", "config", "show")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout


DEFERRED = """
import os, signal, sys, threading
from broker.cli.interrupts import interrupt_deferred

signal.signal(signal.SIGINT, getattr(signal, sys.argv[1]))

def write(times):
    with interrupt_deferred():
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)
        print("written", flush=True)
    print("behind it", flush=True)

try:
    write(int(sys.argv[2]))
except KeyboardInterrupt:
    print("interrupted", flush=True)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
thread = threading.Thread(target=write, args=[0])
thread.start()
thread.join()
"""


@pytest.mark.parametrize(
    ("handler", "times", "code", "said"),
    [
        ("default_int_handler", 0, 0, ["written", "behind it"] * 2),
        (
            "default_int_handler",
            1,
            0,
            ["written", "interrupted", "written", "behind it"],
        ),
        ("default_int_handler", 2, -signal.SIGINT, []),
        ("SIG_DFL", 1, -signal.SIGINT, []),
        ("SIG_IGN", 2, 0, ["written", "behind it"] * 2),
    ],
)
def test_ctrl_c_is_raised_behind_what_it_may_not_tear(handler, times, code, said):
    command = [sys.executable, "-c", DEFERRED, handler, str(times)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=STUCK_S)
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.splitlines() == said
