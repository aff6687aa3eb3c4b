"""Ten minutes of load, with everybody's settings: an owner deletes nine times.

Two megabytes a second go into four partitions, one consumer follows them live, and an
analyst's real Spark deletes old records, one statement a minute. None may need more
than two tries, nothing is lost or doubled for anybody, and ``lakelog check`` finds
nothing. ``LAKELOG_LOAD_S`` makes it longer or shorter.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from jobs.check import check_data_directory
from jobs.extent import Extents
from lakehouse.location import table_path
from tests.support.confluent import create
from tests.support.goes_on import GoesOn
from tests.support.owners_tries import Tried, tried
from tests.support.patience import STUCK_S, Patience
from tests.support.process import WholePart
from tests.support.readers import consumed
from tests.support.spark_reader import SparkReader

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

LOAD_S = float(os.environ.get("LAKELOG_LOAD_S", "600"))
TOPIC, PARTITIONS, DELETES, TRIES_MAX = "live", 4, 9, 2
BATCH, SIZE, PAUSE_S = 100, 1_000, 0.05
Place = tuple[int, int]


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[WholePart]:
    part = WholePart(tmp_path / "data")
    part.start()
    part.hear("compactor ready")
    yield part
    part.end()


class Load(GoesOn):
    """Two megabytes a second; ``delivered``: where each record stands."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self.delivered = Counter[Place]()
        self.sent = 0

    def work(self) -> None:
        value = b"x" * SIZE
        while not self.ends.wait(PAUSE_S):
            for _ in range(BATCH):
                self._producer.produce(
                    TOPIC, value, partition=self.sent % PARTITIONS, callback=self._done
                )
                self.sent += 1
            self._producer.poll(0)
        assert self._producer.flush(STUCK_S) == 0

    def _done(self, error: object, message: object) -> None:
        assert error is None, error
        self.delivered[message.partition(), message.offset()] += 1  # type: ignore[attr-defined]


class Follower(GoesOn):
    """Reads from the beginning on, live; ``read``: what it got, and how often."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "live"})
        self._consumer.assign(
            [TopicPartition(TOPIC, n, OFFSET_BEGINNING) for n in range(PARTITIONS)]
        )
        self.read = Counter[Place]()

    def work(self) -> None:
        while not self.ends.is_set():
            for message in self._consumer.consume(1000, timeout=0.1):
                assert message.error() is None, message.error()
                self.read[message.partition(), message.offset()] += 1
        self._consumer.close()


def compact(whole: WholePart) -> None:
    with closing(Extents(whole.data_dir)) as extents:
        extents.compact([TOPIC], STUCK_S)


def test_nine_deletes_during_ten_minutes_of_load(
    whole: WholePart, analyst: SparkReader
) -> None:
    create(whole.bootstrap, TOPIC, PARTITIONS)
    path = table_path(str(whole.data_dir / "tables"), TOPIC)
    with Follower(whole.bootstrap) as follower:
        with Load(whole.bootstrap) as load:
            found = list(_deletes(whole, analyst, path))
        patience = Patience()
        while sum(follower.read.values()) < load.sent:
            assert patience.lasts(sum(follower.read.values()))
            time.sleep(0.1)
    for one in found:
        print(f"tries {one.count}, {one.seconds:.1f} s")
    assert max(one.count for one in found) <= TRIES_MAX, found
    assert set(load.delivered.values()) == {1}
    assert len(load.delivered) == load.sent
    assert follower.read == load.delivered, "the one that followed missed or doubled"
    _judge(whole, analyst, path, set(load.delivered))


def _deletes(whole: WholePart, analyst: SparkReader, path: str) -> Iterator[Tried]:
    """Nine statements at even times; the first once there is a table with rows."""
    began = time.monotonic()
    compact(whole)
    for n in range(DELETES):
        time.sleep(
            max(0.0, began + (n + 1) * LOAD_S / (DELETES + 1) - time.monotonic())
        )
        yield tried(
            analyst,
            f"DELETE FROM delta.`{path}` WHERE offset = {n * 10} AND partition = 1",
        )
    time.sleep(max(0.0, began + LOAD_S - time.monotonic()))


def _judge(whole: WholePart, analyst: SparkReader, path: str, kept: set[Place]) -> None:
    compact(whole)
    wanted = kept - {(1, n * 10) for n in range(DELETES)}
    places = [one[:2] for one in consumed(whole.bootstrap, TOPIC, PARTITIONS)]
    assert len(places) == len(wanted)
    assert set(places) == wanted
    rows = analyst.ask(f"SELECT partition, offset FROM delta.`{path}`")
    assert len(rows) == len(wanted)
    assert {(p, o) for p, o in rows} == wanted
    whole.end()
    assert check_data_directory(whole.data_dir).problems == []
