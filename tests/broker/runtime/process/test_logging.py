"""Logs: on standard error, one line for each event, whatever a client calls itself."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys, structlog
from broker.runtime.process.logging import configure_logging
from broker.configuration.loading import load
configure_logging(load({"log.format": sys.argv[1], "log.level": "info"}))
log = structlog.get_logger()
log.debug("unsaid")
log.info("said", client="evil\\n2026 error forged \\x1b[31m", size=3)
try:
    1 / 0
except ZeroDivisionError:
    log.exception("failed")
"""


def said(form: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, form],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_json_is_one_object_a_line() -> None:
    first, second = map(json.loads, said("json"))
    assert first["event"] == "said"
    assert first["level"] == "info"
    assert first["size"] == 3
    assert "ZeroDivisionError" in second["exception"]


def test_text_has_the_facts_behind_the_event() -> None:
    lines = said("text")
    assert "info    said  client=evil" in lines[0]
    assert lines[0].endswith("size=3")
    assert lines[-1].startswith("ZeroDivisionError")


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_value_forges_a_line_or_colours_a_terminal(form: str) -> None:
    lines = said(form)
    assert not any(line.startswith("2026 error forged") for line in lines)
    assert "\x1b" not in "".join(lines)


@pytest.mark.parametrize("form", ["text", "json"])
def test_who_says_what_a_full_disk_does_not_take_goes_on(form: str) -> None:
    """What he was at is worth more than the line; `recent` has it all the same."""
    program = PROGRAM + "from broker.runtime.process.logging import recent\n"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program + "print(*recent, flush=True)", form],
            stdout=subprocess.PIPE,
            stderr=full,
            text=True,
        )
    assert "said" in done.stdout
    assert "ZeroDivisionError" in done.stdout


FLOOD = """
import os, sys, structlog
from broker.runtime.process.logging import configure_logging
from broker.configuration.loading import load
configure_logging(load({"log.format": "text", "log.level": "error"}))
log = structlog.get_logger("lakelog.network")
for number in range(2_000):
    log.error("said", number=number, client="x" * 1_000)
print("goes on", flush=True)
sys.stdin.read()
log.error("later")
"""


def test_nobody_who_says_something_waits_for_who_reads_it() -> None:
    """As behind one that has stopped. What was too much is counted, at any level; it
    all comes when he reads again."""
    program = subprocess.Popen(
        [sys.executable, "-c", FLOOD],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert program.stdout is not None
    assert program.stderr is not None
    assert program.stdout.readline() == b"goes on\n"
    read = b""
    while len(read) < 900_000:  # most of what is kept: there is room again
        read += os.read(program.stderr.fileno(), 1 << 16)
    said = (read + program.communicate()[1]).decode().splitlines()
    [gap] = [at for at, line in enumerate(said) if " were lost " in line]
    numbers = [int(line.split("number=")[1].split()[0]) for line in said[:gap]]
    assert numbers == list(range(gap))
    assert f"count={2_000 - gap}" in said[gap]
    assert said[gap + 1].endswith("later")
    assert len(said) == gap + 2


def test_what_its_encoding_does_not_know_is_said_in_other_words() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("evil", "テ"), "text"],
        env=os.environ | {"PYTHONIOENCODING": "latin-1:strict"},
        capture_output=True,
        text=True,
    )
    assert "client=\\u30c6" in done.stderr
    assert done.returncode == 0


def test_a_stream_in_memory_that_is_closed_fails_nobody_who_says_something() -> None:
    program = """
import io, sys, structlog
from broker.runtime.process.logging import configure_logging
from broker.configuration.loading import load
sys.stderr, real = io.StringIO(), sys.stderr
configure_logging(load({}))
log = structlog.get_logger()
log.warning("heard")
assert "heard" in sys.stderr.getvalue()
sys.stderr.close()
sys.stderr = real
log.warning("unheard")
print("goes on")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("goes on\n", "")
