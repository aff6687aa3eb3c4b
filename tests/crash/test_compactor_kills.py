"""kill -9 of the compactor, of the broker, and of both, with tables being written.

The table has each record once, whatever happened; its offsets and bytes are those of
the log.
"""

import json
import os
import random
import time

import pytest

from tests.crash.workload import Load, judge, read_everything
from tests.support.process import BrokerPart, Part, lakelog

POINTS = (
    "compact.before_files",
    "compact.after_files",
    "compact.before_commit",
    "compact.after_commit",
    "compact.after_sync",
)
HITS = int(os.environ.get("LAKELOG_CRASH_HITS", "1"))
KILLS = int(os.environ.get("LAKELOG_CRASH_KILLS", "2"))
PARTITIONS = 2

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.timeout(1800)]


@pytest.fixture
def parts(tmp_path):
    data_dir = tmp_path / "data"
    small = ("wal.segment_bytes=1Mi", "wal.keep_ms=0", "lake.flush_ms=500")
    broker, compactor = (
        BrokerPart(data_dir, *small),
        Part("compactor", data_dir, *small),
    )
    broker.start()
    compactor.start(wait=False)
    yield broker, compactor
    compactor.end()
    broker.end()


def start_load(broker: BrokerPart) -> Load:
    lakelog(
        "topic", "create", "t", "--partitions", str(PARTITIONS),
        "--bootstrap", broker.bootstrap,
    )  # fmt: skip
    load = Load(broker.bootstrap, "t", PARTITIONS, "exact", pause_s=0.02)
    load.start()
    return load


def in_table(broker: BrokerPart) -> dict:
    """(partition, offset) -> value of every row, read by a Delta reader."""
    from deltalake import DeltaTable

    told = json.loads(
        lakelog("table", "t", "--data-dir", str(broker.data_dir), "--json")
    )
    table = DeltaTable(told["path"]).to_pyarrow_table(["partition", "offset", "value"])
    rows = zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
    found: dict = {}
    for partition, offset, value in rows:
        assert (partition, offset) not in found, f"row {partition}/{offset} twice"
        found[partition, offset] = value
    return found


def end_and_judge(broker: BrokerPart, compactor: Part, load: Load) -> None:
    load.finish()
    assert load.acknowledged
    if not compactor.alive:
        compactor.start()
    lakelog("compact", "t", "--data-dir", str(broker.data_dir), "--timeout", "60")
    found = read_everything(broker.bootstrap, "t", PARTITIONS)
    judge([load], found)
    assert in_table(broker) == found
    report = json.loads(lakelog("check", "--data-dir", str(broker.data_dir), "--json"))
    assert report["problems"] == []


def test_a_kill_of_the_compactor_at_any_named_point_writes_nothing_twice(parts):
    broker, compactor = parts
    load = start_load(broker)
    for point in POINTS:
        for hit in range(HITS):
            compactor.end()
            compactor.start(failpoints=f"{point}={1 + hit % 3}", wait=False)
            assert compactor.died(60), f"{point} was not passed"
    end_and_judge(broker, compactor, load)


def test_kills_of_both_at_random_times_lose_and_double_nothing(parts):
    broker, compactor = parts
    load = start_load(broker)
    chance = random.Random(4)
    for _ in range(KILLS):
        time.sleep(chance.uniform(3.0, 8.0))
        victims = chance.choice([[broker], [compactor], [broker, compactor]])
        for part in victims:
            part.kill()
        for part in victims:
            part.start()
    end_and_judge(broker, compactor, load)


def test_two_compactors_at_once_write_each_record_once(parts):
    broker, compactor = parts
    load = start_load(broker)
    second = Part("compactor", broker.data_dir, *compactor.settings)
    second.log = second.log.with_suffix(".second.log")
    second.start(wait=False)
    time.sleep(12)
    second.end()
    end_and_judge(broker, compactor, load)
