"""Spark's own Kafka source and sink: a stream that goes on where it was."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.conftest import PATH
from tests.support.confluent import create, produce_all
from tests.support.foreign import Site, build, toolchain
from tests.support.foreign_rows import program_row
from tests.support.patience import STUCK_S
from tests.support.readers import consumed

pytestmark = pytest.mark.foreign

SOURCES = Path(__file__).parent / "spark"
GROUPS = "org.apache.spark,org.apache.kafka,org.apache.commons"  # it has the others
JOURNEY = "a stream copies a topic of two partitions, three times from its checkpoint"
ROWS = [
    (b"k", b"v" * 1000, [("a", b"1"), ("a", b"2"), ("empty", b"")]),
    (None, b"no key", []),
    (b"tombstone", None, []),
    (b"", b"", [("bytes", bytes(range(256)))]),
]


def content(site: Site, topic: str) -> list[tuple]:
    found = sorted(consumed(site.bootstrap, topic, 2), key=lambda row: row[:2])
    return [(row[0], row[4], row[5], row[6]) for row in found]


def test_spark_copies_a_topic(site: Site, tmp_path: Path) -> None:
    """New records, those after a kill of the broker, those that the table alone has."""
    maven, place = toolchain("Maven", "mvn"), tmp_path / "path"
    chosen = (f"-DincludeGroupIds={GROUPS}", "-DincludeScope=runtime")
    build(maven, "-q", "-B", PATH, f"-Dmdep.outputFile={place}", *chosen, cwd=SOURCES)
    origin, target = "spark-origin", "spark-target"
    create(site.bootstrap, origin, 2)
    create(site.bootstrap, target, 2)

    def fill() -> None:
        rows = [(*row, number % 2) for number, row in enumerate(ROWS * 5)]
        produce_all(site.bootstrap, origin, rows)

    def copy(rounds: int) -> None:
        program = str(SOURCES / "copy_topic.py")
        words = (site.bootstrap, origin, target, str(tmp_path / "checkpoint"))
        done = subprocess.run(
            (sys.executable, program, *words, place.read_text().strip()),
            capture_output=True,
            text=True,
            timeout=STUCK_S,
        )
        assert done.returncode == 0, done.stderr[-1500:]
        assert f"rows {rounds * len(ROWS * 5)}\n" in done.stdout
        assert content(site, target) == content(site, origin)

    with program_row("Spark 4.2.0, Kafka source and sink", JOURNEY):
        fill()
        copy(1)
        site.restart()
        fill()
        copy(2)
        fill()
        site.release([origin, target])
        copy(3)
