"""The table of owners' acts in ``lakehouse/README.md``, walked with a real Spark.

A real broker and its clients; the compactor is stepped by hand, so that nothing waits
for a clock.
"""

import re
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from broker.catalog.catalog import Catalog
from broker.settings import LakeSettings, Settings
from broker.status.file import read
from broker.status.schema import BrokerStatus
from broker.storage.files import PosixFiles
from broker.storage.store import LocalSegmentStore
from jobs.backlog import Backlog
from jobs.compactor import Compactor
from jobs.extent import Extents, TopicExtent
from lakehouse.location import table_path
from tests.jobs.world import here
from tests.support.acts_table import ROWS, Row, changed, is_as_said
from tests.support.batches import Record, make_batch
from tests.support.clock import ManualClock
from tests.support.confluent import create
from tests.support.owners_acts import (
    BEFORE,
    NAMES,
    REFUSED_BY_DELTA,
    VALUE_COLUMN,
    Records,
    act,
)
from tests.support.patience import IDLE_S, Patience, wait_until
from tests.support.peer import Peer, values_by_offset
from tests.support.process import BrokerPart
from tests.support.spark_reader import SparkReader

pytestmark = [
    pytest.mark.spark,
    pytest.mark.shared_out("owners", 4, whole=True),
]

AT_ONCE = ("DELETE", "UPDATE", "RENAME COLUMN", "deletion vectors, and a DELETE")
"""The others are walked where long forms are."""
END, PAUSE_MS = 30, 60_000
LATER: Records = {n: b"v%d" % n for n in range(len(BEFORE), END)}


def consumed_after(said: str) -> Records | None:
    """What consumers get, in the words of the table; None: an error."""
    if said == "an error":
        return None
    wanted = BEFORE | LATER
    for offset, value in changed(said, len(BEFORE)).items():
        if value is None:
            del wanted[offset]
        else:
            wanted[offset] = value
    return wanted


class House:
    """A broker that runs, and a compactor that is stepped."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.broker = BrokerPart(
            data_dir, "wal.keep_ms=0", "wal.idle_seal_ms=100", "lake.follow_ms=50"
        )
        self.broker.start()
        (data_dir / "tables").mkdir(exist_ok=True)
        self.catalog = Catalog.open(data_dir / "catalog.db", upgrades=False)
        self.clock = ManualClock(int(time.time() * 1000))
        lake = LakeSettings(flush_ms=1_000, flush_max_ms=1_000)
        self.compactor = Compactor(
            Settings(data_dir=data_dir, lake=lake), self.catalog,
            Backlog(LocalSegmentStore(PosixFiles(), data_dir / "wal")), here,
            lambda: 2, self.clock, lambda: True,
        )  # fmt: skip

    def close(self) -> None:
        self.compactor.stop()
        self.catalog.close()
        self.broker.end()

    def produce(self, topic: str, first: int, end: int) -> None:
        records = [Record(value=b"v%d" % n) for n in range(first, end)]
        with Peer(self.broker.bootstrap) as peer:
            assert peer.produce(topic, make_batch(records, 0)).error_code == 0

    def compact(self, times: int = 1) -> None:
        for _ in range(times):
            self.compactor.step()
            self.clock.advance(PAUSE_MS)
            while self.compactor.step():
                pass

    def extent(self, topic: str) -> TopicExtent:
        with closing(Extents(self.data_dir)) as extents:
            return extents.of([topic])[0]

    def told(self, topic: str) -> list[str]:
        """What compactor and broker say of a topic's table."""
        problems = self.compactor.status().problems
        said = [one for one in problems if one.startswith((f"{topic} ", f"{topic}-0 "))]
        status = read(self.data_dir, BrokerStatus, time.time())
        tables = () if status is None else status.tables
        return said + [state.why for state in tables if state.topic == topic]

    def delete(self, *topics: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        for deleted in admin.delete_topics(list(topics)).values():
            deleted.result(IDLE_S)

    def begin(self, topic: str) -> str:
        """A topic whose first records stand in its table alone; the table's path."""
        create(self.broker.bootstrap, topic, **{"retention.ms": "-1"})
        for first in (0, 10):
            self.produce(topic, first, first + 10)
            self.compact()
        wait_until(lambda: not self.extent(topic).partitions[0].segment_bytes)
        return table_path(str(self.data_dir / "tables"), topic)

    def consumed(self, topic: str, at: int = 0) -> Records | None:
        """Offset -> value of all that a consumer gets; None: he gets an error."""
        return values_by_offset(self.broker.bootstrap, topic, at, END)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    house = House(tmp_path_factory.mktemp("acts") / "data")
    yield house
    house.close()


@pytest.fixture
def topic(house: House, row: Row) -> Iterator[str]:
    """Its name, and another's that has it in front: both are gone afterwards, since
    what waits in the log holds segments of the next ones."""
    name = re.sub(r"\W+", "-", row.act)
    yield name
    house.delete(name, f"{name}-other")


def test_the_table_names_each_act_once() -> None:
    assert [row.act for row in ROWS] == list(NAMES)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(
            row, id=row.act, marks=() if row.act in AT_ONCE else pytest.mark.slow
        )
        for row in ROWS
    ],
)
def test_what_an_owner_does_has_the_effect_that_the_table_says(
    house: House, analyst: SparkReader, topic: str, row: Row
) -> None:
    path = house.begin(topic)
    refused = act(row.act, analyst, path)
    assert (refused is not None) == (row.act in REFUSED_BY_DELTA), refused
    create(house.broker.bootstrap, f"{topic}-other")
    house.produce(topic, len(BEFORE), END)
    house.produce(f"{topic}-other", 0, 5)
    house.compact(3)
    goes_on = row.compaction == "goes on"
    assert goes_on or row.compaction == "stops"
    assert (house.extent(topic).pending() == 0) == goes_on, house.told(topic)
    assert house.extent(f"{topic}-other").pending() == 0
    if goes_on:
        value = VALUE_COLUMN.get(row.act, "value")
        asked = f"SELECT offset, {value} FROM delta.`{path}` WHERE offset >= 20"
        assert dict(map(tuple, analyst.ask(asked))) == LATER
    wanted, patience = consumed_after(row.consumers), Patience()
    while (found := house.consumed(topic)) != wanted:
        assert patience.lasts(found), found
        time.sleep(0.05)
    assert house.consumed(topic, len(BEFORE)) == LATER
    wait_until(lambda: is_as_said(row.told, house.told(topic)))
