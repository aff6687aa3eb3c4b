"""Logs: on standard error, one line for each event, whatever a client calls itself."""

import json
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
