"""What looks like a compactor is one from the start, and no test waits for its end."""

import signal
from pathlib import Path

import psutil

from tests.support.asleep import COMPACTOR, asleep


def test_it_has_its_words_and_ends_with_a_body_that_fails(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").touch()
    body = asleep(tmp_path, *COMPACTOR)
    made = body.__enter__()
    assert psutil.Process(made.pid).cmdline()[-3:] == [*COMPACTOR]
    error = AssertionError("as of a failing test")
    assert not body.__exit__(type(error), error, None)
    assert made.returncode == -signal.SIGKILL
