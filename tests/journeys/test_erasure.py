"""``lakelog erase``: afterwards no byte of a person is in the data directory.

A real broker, a real compactor, and a search that opens every Parquet page and every
record batch that lies anywhere in a segment file.
"""

import json
import secrets
import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import deltalake
import pytest

from jobs.check import check_data_directory
from jobs.erasing import records
from jobs.extent import Extents
from lakehouse.location import table_path
from tests.support.confluent import create, produce_all
from tests.support.patience import STUCK_S
from tests.support.process import WholePart, lakelog, told
from tests.support.readers import consumed
from tests.support.traces import traces
from tests.support.transactions import transactional, write

pytestmark = [
    pytest.mark.spark,
    pytest.mark.shared_out("tables", 4, whole=True),
]

SETTINGS = (
    "wal.segment_bytes=1Mi",
    "lake.flush_ms=60000",
    "lake.flush_max_ms=60000",
    "lake.follow_ms=50",
)
OFFSET, KEY, VALUE, PARTITIONS = 1, 4, 5, 2


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholePart]:
    part = WholePart(tmp_path_factory.mktemp("erasure") / "data", *SETTINGS)
    part.start()
    part.hear("compactor ready")
    yield part
    assert part.stop() == 0


@dataclass
class Topic:
    """A topic with the records of a person among those of others."""

    whole: WholePart
    name: str
    codec: str
    person: bytes = field(default_factory=lambda: secrets.token_hex(16).encode())
    produced: dict[tuple[int, int], tuple[bytes, bytes]] = field(default_factory=dict)

    def produce(self, count: int = 40) -> None:
        """Records with random keys and values, some of them the person's."""
        rows: list[tuple[bytes, bytes, list[tuple[str, bytes]], int]] = []
        for n in range(count):
            key = self.person if n % 7 == 3 else secrets.token_hex(16).encode()
            rows.append((key, secrets.token_hex(24).encode(), [], n % PARTITIONS))
        bootstrap, codec = self.whole.bootstrap, {"compression.type": self.codec}
        for message in produce_all(bootstrap, self.name, rows, **codec):
            place = message.partition(), message.offset()
            self.produced[place] = message.key(), message.value()

    @property
    def path(self) -> str:
        return table_path(self.whole.data_dir / "tables", self.name)

    @property
    def needles(self) -> list[bytes]:
        values = [v for key, v in self.produced.values() if key == self.person]
        return [self.person, *values]

    @property
    def others(self) -> dict[tuple[int, int], tuple[bytes, bytes]]:
        return {at: r for at, r in self.produced.items() if r[0] != self.person}

    def consumed(self) -> dict[tuple[int, int], tuple[bytes, bytes]]:
        rows = consumed(self.whole.bootstrap, self.name, PARTITIONS)
        found = {(row[0], row[OFFSET]): (row[KEY], row[VALUE]) for row in rows}
        assert len(found) == len(rows)
        return found


def compact(whole: WholePart, *topics: str) -> None:
    with closing(Extents(whole.data_dir)) as extents:
        extents.compact(topics, STUCK_S)


def where(whole: WholePart, topic: Topic) -> set[str]:
    """The first directories below which the person is."""
    return {path.split("/")[0] for path in traces(whole.data_dir, topic.needles)}


def rows_of_erasures(topic: Topic) -> list[dict[str, object]]:
    table = deltalake.DeltaTable(records.place(topic.whole.data_dir))
    rows = table.to_pyarrow_table().to_pylist()
    return [row for row in rows if row["topic"] == topic.name]


def rows_erased(whole: WholePart) -> int:
    """As `lakelog check` counts them in all tables; it finds nothing wrong."""
    report = check_data_directory(whole.data_dir)
    assert report.problems == []
    return report.counts.get("rows_erased", 0)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_no_byte_is_left_and_everything_else_is(whole: WholePart, codec: str) -> None:
    topic = Topic(whole, f"people-{codec}", codec)
    other = Topic(whole, f"other-{codec}", codec)
    for one in (topic, other):
        create(whole.bootstrap, one.name, PARTITIONS)
    for _ in range(2):
        for one in (topic, other):
            one.produce()
        compact(whole)
    deltalake.DeltaTable(topic.path).optimize.compact()  # its owner's: older files stay
    for one in (topic, other):
        one.produce()
    assert topic.consumed() == topic.produced
    assert where(whole, topic) == {"tables", "wal"}

    command = ("erase", topic.name, "--key", topic.person.decode())
    place = ("--data-dir", str(whole.data_dir), "--json")
    before = deltalake.DeltaTable(topic.path).version()
    counted = json.loads(lakelog(*command, "--dry-run", *place))
    assert sum(one["rows"] for one in counted) == 12
    assert sum(one["older_files"] for one in counted) == 4
    assert sum(one["not_in_table"] for one in counted) == 40
    assert deltalake.DeltaTable(topic.path).version() == before
    erased = rows_erased(whole)

    said = json.loads(lakelog(*command, *place))
    assert (said["rows"], said["left"]) == (18, [])
    assert traces(whole.data_dir, topic.needles) == {}
    assert topic.consumed() == topic.others
    assert other.consumed() == other.produced
    assert rows_erased(whole) == erased + 18
    history = deltalake.DeltaTable(topic.path).history()
    told_of = [one for one in history if one["operation"] == "LAKELOG ERASE"]
    assert sum(int(one["operationMetrics"]["numDeletedRows"]) for one in told_of) == 18
    [row] = rows_of_erasures(topic)
    assert (row["rows"], row["is_proven"]) == (18, True)
    assert row["digest"] == records.digest_of(row["topic_id"], "key", topic.person)

    topic.produce()  # and it goes on, also for a key that was erased
    compact(whole)
    assert topic.person in {key for key, _ in topic.consumed().values()}


POINTS = ("after_file", "after_entry", "after_commit", "after_delete", "after_segments")


def test_killed_anywhere_it_is_finished_by_the_next(
    whole: WholePart, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topic(whole, "killed", "none")
    # and none of the person's older rows leaves by its key meanwhile: nobody counts it
    configs = {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"}
    create(whole.bootstrap, topic.name, PARTITIONS, **configs)
    key = topic.person.decode()
    command = ("erase", topic.name, "--key", key, "--data-dir", str(whole.data_dir))
    for point in POINTS:
        topic.produce(14)
        monkeypatch.setenv("LAKELOG_FAILPOINTS", f"erase.{point}")
        assert told(*command).code == -signal.SIGKILL, point
        others = {at for at, row in topic.consumed().items() if row[0] != topic.person}
        assert others == set(topic.others), point
    monkeypatch.delenv("LAKELOG_FAILPOINTS")
    said = json.loads(lakelog(*command, "--json"))
    assert said["left"] == []
    assert said["rows"] == len(topic.needles) - 1  # each was counted, by whichever run
    assert traces(whole.data_dir, topic.needles) == {}
    assert topic.consumed() == topic.others
    assert check_data_directory(whole.data_dir).problems == []
    [row] = rows_of_erasures(topic)
    assert row["rows"] == said["rows"]


def test_an_open_transaction_stops_it_before_anything_is_changed(
    whole: WholePart,
) -> None:
    topic = Topic(whole, "open", "none")
    create(whole.bootstrap, topic.name, PARTITIONS)
    topic.produce()
    compact(whole)
    producer = transactional(whole.bootstrap, "open")
    producer.begin_transaction()
    write(producer, topic.name, topic.person)
    files = sorted(Path(topic.path).rglob("*.parquet"))
    command = ("erase", topic.name, "--key", topic.person.decode(), "--timeout", "2")
    done = told(*command, "--data-dir", str(whole.data_dir))
    assert done.code == 1
    assert "open transaction" in done.errors
    assert "nothing was changed" in done.errors
    assert sorted(Path(topic.path).rglob("*.parquet")) == files
    producer.abort_transaction()
