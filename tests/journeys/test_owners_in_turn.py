"""Owners change a table in which records come all the time, and get their turn.

A real ``lakelog up`` and an analyst's real Spark. How long a try takes depends on the
machine, so an attempt is waited for as long as it takes here.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer

from jobs.check import check_data_directory
from jobs.extent import Extents
from lakehouse.location import table_path
from tests.support.confluent import create, produce_all
from tests.support.owners_tries import tried
from tests.support.patience import IDLE_S, STUCK_S, wait_until
from tests.support.process import WholePart, lakelog
from tests.support.readers import by_spark, consumed
from tests.support.spark_reader import SparkReader

pytestmark = [
    pytest.mark.spark,
    pytest.mark.shared_out("owners", 4, whole=True),
]

SETTINGS = (
    "wal.keep_ms=0",
    "wal.idle_seal_ms=100",
    "lake.flush_ms=2000",
    "lake.flush_max_ms=2000",
    "lake.follow_ms=50",
    "lake.owner_wait_ms=600000",
)
TOPIC = "live"
TRIES_MAX = 2
FIRST = 500


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[WholePart]:
    part = WholePart(tmp_path / "data", *SETTINGS)
    part.start()
    part.hear("compactor ready")
    yield part
    part.end()


class Flow:
    """Records come all the time, until it is left."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self._topic, self._ends = topic, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.count = 0

    def _run(self) -> None:
        while not self._ends.wait(0.05):
            for _ in range(10):
                self._producer.produce(self._topic, b"%d" % self.count, partition=0)
                self.count += 1
            self._producer.poll(0)

    def __enter__(self) -> "Flow":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.set()
        self._thread.join()
        assert self._producer.flush(IDLE_S) == 0


def compact(whole: WholePart) -> None:
    with closing(Extents(whole.data_dir)) as extents:
        extents.compact([TOPIC], STUCK_S)


@pytest.mark.parametrize("deletes", [3, pytest.param(9, marks=pytest.mark.slow)])
def test_deletes_of_a_live_topic_need_two_tries_at_most(
    whole: WholePart, analyst: SparkReader, deletes: int
) -> None:
    create(whole.bootstrap, TOPIC)
    produce_all(whole.bootstrap, TOPIC, [(None, b"x" * 99, None, 0)] * FIRST)
    compact(whole)
    path = table_path(str(whole.data_dir / "tables"), TOPIC)
    with Flow(whole.bootstrap, TOPIC) as flow:
        wait_until(lambda: flow.count)
        counts = [
            tried(analyst, f"DELETE FROM delta.`{path}` WHERE offset = {n * 10}").count
            for n in range(deletes)
        ]
        assert max(counts) <= TRIES_MAX, counts
        where = ("--data-dir", str(whole.data_dir), "--json")
        sql = f"DELETE FROM {TOPIC} WHERE offset = 450"
        told = json.loads(lakelog("table", TOPIC, "--sql", sql, *where))
        assert told == [{"num_affected_rows": 1}]
    assert json.loads(lakelog("table", TOPIC, *where))["held_until_ms"] is None
    compact(whole)
    gone = {n * 10 for n in range(deletes)} | {450}
    wanted = [n for n in range(FIRST + flow.count) if n not in gone]
    wait_until(lambda: offsets(whole) == wanted)
    assert [row[1] for row in by_spark(analyst, path)] == wanted
    whole.end()
    assert check_data_directory(whole.data_dir).problems == []


def offsets(whole: WholePart) -> list[int]:
    return [row[1] for row in consumed(whole.bootstrap, TOPIC)]
