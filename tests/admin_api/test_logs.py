"""What libraries log: one format, escaped, and never what a client sent."""

import json
import subprocess
import sys

from admin_api.logs import places

PROGRAM = """
import asyncio, logging
from admin_api import logs
from broker.runtime.process.logging import configure_logging
from broker.configuration.loading import load
configure_logging(load({"log.format": "json"}))
logs.capture()
said = logging.getLogger("uvicorn.error")
said.info("unsaid")
said.warning("odd \\x1b[31m\\nforged")
def fails():
    raise ValueError("s3cret \\x1b[31m")
try:
    try:
        fails()
    except ValueError as error:
        raise RuntimeError("s3cret too") from error
except RuntimeError:
    said.exception("failed\\ns3cret")
async def story():
    async def lost():
        raise KeyError("s3cret")
    task = asyncio.create_task(lost())
    await asyncio.wait([task])
asyncio.run(story())
"""


def test_libraries_say_in_our_format_where_they_failed_and_not_on_what():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert "s3cret" not in done.stderr
    warning, failure, lost = map(json.loads, done.stderr.splitlines())
    assert warning["event"] == "odd \\x1b[31m\\x0aforged"
    assert warning["logger"] == "uvicorn.error"
    assert failure["event"] == "failed"
    assert failure["exception"].endswith("builtins.RuntimeError")
    assert "in fails" in failure["exception"]
    assert "builtins.ValueError" in failure["exception"]
    assert (lost["level"], lost["logger"]) == ("error", "asyncio")


def test_a_chain_of_exceptions_that_has_no_end_is_cut():
    one, other = ValueError("a"), KeyError("b")
    one.__context__, other.__context__ = other, one
    assert len(places(one).splitlines()) == 5
