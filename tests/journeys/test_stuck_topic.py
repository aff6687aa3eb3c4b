"""An owner's change stops one topic: the disk is not filled by everybody's segments.

``stuck`` gets a few records in every segment and a table that takes no commits;
``busy`` gets the rest. Each of the steps at which what is needed of old segments is
carried into one is a place to kill the broker.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import deltalake
import pytest
from deltalake import TableFeatures

from broker.storage.files import PosixFiles
from broker.storage.store import LocalSegmentStore
from jobs.extent import Extents
from tests.support.confluent import create, produce_all
from tests.support.patience import STUCK_S, becomes_true, wait_until
from tests.support.process import BrokerPart, Part, lakelog
from tests.support.readers import by_deltalake, consumed

pytestmark = [
    pytest.mark.spark,
    pytest.mark.shared_out("owners", 4, whole=True),
]

SETTINGS = (
    "wal.segment_bytes=1Mi",
    "wal.keep_ms=0",
    "wal.idle_seal_ms=100",
    "wal.hot_bytes=0",
    "lake.flush_ms=200",
    "lake.flush_max_ms=200",
    "lake.follow_ms=50",
    "groups.initial_rebalance_delay_ms=100",
)
POINTS = [
    "carry.listed",
    *(
        pytest.param(point, marks=pytest.mark.slow)
        for point in ("carry.begun", "carry.written", "carry.sealed", "carry.moved")
    ),
]
SEGMENTS_A_ROUND = 6


class House:
    """A broker and a compactor with Spark, and what was produced."""

    def __init__(self, directory: Path) -> None:
        self.broker = BrokerPart(directory / "data", *SETTINGS)
        self.broker.start()
        self.compactor = Part("compactor", directory / "data", *SETTINGS)
        self.compactor.start()
        self.produced = {"stuck": 0, "busy": 0}

    def close(self) -> None:
        self.compactor.end()
        self.broker.end()

    def produce(self, topic: str, count: int, size: int) -> None:
        first = self.produced[topic]
        rows = [
            (b"%d" % n, (b"%d " % n).ljust(size, b"x"), None, 0)
            for n in range(first, first + count)
        ]
        once = {"enable.idempotence": True}
        produce_all(self.broker.bootstrap, topic, rows, **once)
        self.produced[topic] = first + count

    def fill(self, segments: int = SEGMENTS_A_ROUND) -> None:
        """So many segments of others' records, with some of the stuck topic in each."""
        for _ in range(segments):
            self.produce("stuck", 5, 500)
            self.produce("busy", 12, 90_000)

    def path(self, topic: str) -> Path:
        with closing(Extents(self.broker.data_dir)) as extents:
            return Path(extents.of([topic])[0].path)

    def segments(self) -> int:
        store = LocalSegmentStore(PosixFiles(), self.broker.data_dir / "wal")
        return len(store.live())

    def check_stuck(self) -> None:
        """A client reads every record once and in order."""
        keys = [row[4] for row in consumed(self.broker.bootstrap, "stuck")]
        assert keys == [b"%d" % n for n in range(self.produced["stuck"])]


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    made = House(tmp_path_factory.mktemp("stuck"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def change(house) -> list[Path]:
    """The owner's change; the log entries that are to go when he thinks again."""
    for topic in house.produced:
        create(house.broker.bootstrap, topic)
    house.fill(1)
    data_dir = str(house.broker.data_dir)
    lakelog("compact", "--data-dir", data_dir, "--timeout", "600")
    path = house.path("stuck")
    before = set((path / "_delta_log").iterdir())
    features = [TableFeatures.RowTracking, TableFeatures.DomainMetadata]
    table = deltalake.DeltaTable(str(path))
    table.alter.add_feature(features, allow_protocol_versions_increase=True)
    made = sorted(set((path / "_delta_log").iterdir()) - before)
    assert made
    return made


def test_the_others_segments_go(house, change):
    house.fill(2 * SEGMENTS_A_ROUND)
    wait_until(lambda: house.segments() < SEGMENTS_A_ROUND, STUCK_S)
    busy = str(house.path("busy"))  # the last of them may be in a segment still
    wait_until(lambda: len(by_deltalake(busy)) == house.produced["busy"], STUCK_S)
    assert len(by_deltalake(str(house.path("stuck")))) < house.produced["stuck"]
    house.check_stuck()


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_step_loses_nothing(house, change, point):
    house.broker.stop()
    house.broker.start(failpoints=point)
    with ThreadPoolExecutor(1) as pool:
        filling = pool.submit(house.fill)  # it goes on when the broker is back
        died = becomes_true(lambda: not house.broker.alive, STUCK_S)
        if died:
            house.broker.start()
        filling.result()
    assert died, f"{point} was not passed"
    house.check_stuck()
    wait_until(lambda: house.segments() < SEGMENTS_A_ROUND, STUCK_S)
    house.check_stuck()


def test_when_the_owner_thinks_again_every_record_is_in_the_table_once(house, change):
    house.broker.stop()  # it would not look again at a log entry that it has read
    for entry in change:
        entry.unlink()
    house.broker.start()
    data_dir = str(house.broker.data_dir)
    lakelog("compact", "--data-dir", data_dir, "--timeout", "600")
    for topic, count in house.produced.items():
        rows = by_deltalake(str(house.path(topic)))
        assert [row[4] for row in rows] == [b"%d" % n for n in range(count)]
    house.check_stuck()
    wait_until(lambda: house.segments() <= 1, STUCK_S)
    house.check_stuck()
    lakelog("check", "--data-dir", data_dir)
