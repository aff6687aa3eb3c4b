"""Parts whose standard streams were closed when they were started: real programs."""

import signal
import subprocess
import sys

import pytest

from tests.support.patience import IDLE_S, STUCK_S, becomes_true

PROGRAM = """
import os, subprocess, sys
from broker.cli.streams import open_closed
open_closed()
there = [os.path.exists(f"/proc/self/fd/{number}") for number in range(3)]
assert all(there), there
sys.stdin.read(); print("out", flush=True); print("err", file=sys.stderr, flush=True)
look = "test -e /dev/fd/0 && test -e /dev/fd/1 && test -e /dev/fd/2"
sys.exit(subprocess.run(["sh", "-c", look], close_fds=False).returncode)
"""


def shell(closed: str, *words: str) -> list[str]:
    return ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, *words]


@pytest.mark.parametrize(
    ("closed", "out", "err"),
    [
        ("", b"out\n", b"err\n"),
        ("<&-", b"out\n", b"err\n"),
        (">&-", b"", b"err\n"),
        ("2>&-", b"out\n", b""),
        ("<&- >&- 2>&-", b"", b""),
    ],
)
def test_each_stream_is_there_for_us_and_for_who_we_start(closed, out, err):
    done = subprocess.run(
        shell(closed, "-c", PROGRAM),
        stdin=subprocess.DEVNULL, capture_output=True, timeout=STUCK_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == (out, err)


@pytest.mark.timeout(STUCK_S)
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_whole_that_was_started_with_one_closed_serves_and_stops(closed, tmp_path):
    """It serves when its broker says what it does: it may have no line to say so."""
    words = ["-m", "broker.cli", "up", "--data-dir", str(tmp_path / "data")]
    words += ["--listener", "127.0.0.1:0", "--no-admin", "--no-compactor"]
    with (tmp_path / "said").open("w") as said:
        up = subprocess.Popen(
            shell(closed, *words), stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
    status = tmp_path / "data" / "run" / "broker.json"
    assert becomes_true(lambda: status.exists() or up.poll() is not None)
    assert up.poll() is None, (tmp_path / "said").read_text()
    up.send_signal(signal.SIGTERM)
    assert up.wait(IDLE_S) == 0, (tmp_path / "said").read_text()
