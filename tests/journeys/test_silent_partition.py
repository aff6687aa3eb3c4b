"""`lakelog consume` says what it waits for where a topic's table was replaced, and not
what is on its way."""

import subprocess
import sys
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from admin_api.lake import Lake
from tests.admin_api.conftest import Plane
from tests.support.between import Between
from tests.support.patience import STUCK_S
from tests.support.process import BrokerPart, lakelog, told
from tests.support.tables import Writer

SOON = """
from broker.cli import main, silence
silence.SAID_AFTER_MS, silence.AGAIN_MS, silence.LONG_MS = 2000, 3000, 6000
main()
"""


@pytest.fixture
def replaced(tmp_path: Path):
    """A broker with a topic of two partitions, of which one has records: in its table,
    which its owner replaced."""
    part = BrokerPart(tmp_path / "data")
    part.start()
    plane = Plane(part.bootstrap, part.data_dir)
    plane.create("t", partitions=2)
    plane.close()
    part.stop()
    topic_id = Lake(part.data_dir).topic("t").id.hex()
    writer = Writer(str(part.data_dir / "tables"), "t", topic_id)
    writer.add(1, 0, 10)
    theirs = pa.schema([("a", pa.int32())])
    deltalake.DeltaTable.create(writer.path, theirs, mode="overwrite")
    part.start()
    yield part, writer.path
    part.end()


def test_who_wants_all_is_told_what_does_not_come_and_that_it_is_not_all(replaced):
    part, _ = replaced
    done = told("consume", "t", "--exit-at-end", "--bootstrap", part.bootstrap)
    assert (done.code, done.output) == (1, "")
    said, end = done.errors.splitlines()
    assert said.startswith(
        "lakelog: partition 1 gives nothing from offset 0 on: KAFKA_STORAGE_ERROR; "
    )
    assert "`lakelog table t`" in said
    assert end == "lakelog: not at the end: nothing came for 30 s from 1 of t"


def test_who_waits_is_told_it_too_and_gets_what_comes_back(replaced):
    part, path = replaced
    command = ["consume", "t", "--count", "10", "--bootstrap", part.bootstrap]
    waits = subprocess.Popen(
        [sys.executable, "-m", "broker.cli", *command],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
    )  # fmt: skip
    assert waits.stderr is not None
    try:
        assert b"partition 1 gives nothing from offset 0 on" in waits.stderr.readline()
        deltalake.DeltaTable(path).restore(1)
        output, errors = waits.communicate()
    finally:
        waits.kill()
    assert (waits.returncode, errors, len(output.splitlines())) == (0, b"", 10)


def test_a_record_that_comes_over_a_slow_line_is_waited_for_without_a_word(tmp_path):
    """A Fetch that asks for a byte is answered with all of it."""
    part = BrokerPart(tmp_path / "data")
    between = Between(part.listener)
    part.arguments += ["--advertised", between.address]
    part.start()
    at = ["--bootstrap", between.address]
    line = b"x" * 30_000_000 + b"\n"
    try:
        lakelog("topic", "create", "t", "-X", "max.message.bytes=40000000", *at)
        lakelog("produce", "t", *at, stdin=line)
        between.bytes_a_s = 2_000_000
        done = subprocess.run(
            [sys.executable, "-c", SOON, "consume", "t", "--exit-at-end", *at],
            capture_output=True, timeout=STUCK_S,
        )  # fmt: skip
    finally:
        between.close()
        part.end()
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == line
