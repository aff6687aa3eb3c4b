"""Ctrl-C while a command is loaded: real programs."""

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
