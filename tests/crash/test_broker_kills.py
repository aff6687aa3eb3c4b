"""kill -9 of the broker: at each named point, and at random times, under load.

The same clients live through it all. Afterwards nothing that was acknowledged is
missing, nothing of an idempotent producer stands twice, and ``lakelog check`` is clean.
"""

import json
import os
import random
import time

import pytest

from tests.crash.workload import Load, judge, read_everything
from tests.support.process import BrokerPart, lakelog

POINTS = (
    "wal.before_write",
    "wal.after_write",
    "wal.after_sync",
    "wal.before_done",
    "wal.seal",
    "wal.checkpoint",
)
HITS = int(os.environ.get("LAKELOG_CRASH_HITS", "2"))
KILLS = int(os.environ.get("LAKELOG_CRASH_KILLS", "5"))
PARTITIONS = 3

pytestmark = [pytest.mark.crash, pytest.mark.timeout(900)]


@pytest.fixture
def broker(tmp_path):
    # small segments, so that sealing and checkpoints happen all the time
    part = BrokerPart(tmp_path / "data", "wal.segment_bytes=1Mi", "wal.roll_ms=500")
    part.start()
    yield part
    part.end()


def start_load(broker: BrokerPart) -> list[Load]:
    lakelog(
        "topic", "create", "t", "--partitions", str(PARTITIONS),
        "--bootstrap", broker.bootstrap,
    )  # fmt: skip
    loads = [
        Load(broker.bootstrap, "t", PARTITIONS, "exact", idempotent=True),
        Load(broker.bootstrap, "t", PARTITIONS, "plain", idempotent=False),
    ]
    for load in loads:
        load.start()
    return loads


def end_and_judge(broker: BrokerPart, loads: list[Load]) -> None:
    for load in loads:
        load.finish()
        assert not load.refused, load.refused[:3]
        assert load.acknowledged
    judge(loads, read_everything(broker.bootstrap, "t", PARTITIONS))
    report = json.loads(lakelog("check", "--data-dir", str(broker.data_dir), "--json"))
    assert report["problems"] == []


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_a_named_point_loses_nothing(broker, point):
    loads = start_load(broker)
    for hit in range(HITS):
        broker.kill()
        broker.start(failpoints=f"{point}={3 + 7 * hit}", wait=False)
        assert broker.died(30), f"{point} was not passed"
        broker.start()
    end_and_judge(broker, loads)


def test_kills_at_random_times_lose_nothing(broker):
    loads = start_load(broker)
    chance = random.Random(20)
    for _ in range(KILLS):
        time.sleep(chance.uniform(0.05, 1.0))
        broker.kill()
        broker.start()
    end_and_judge(broker, loads)


def test_a_kill_during_recovery_loses_nothing(broker):
    loads = start_load(broker)
    time.sleep(0.5)
    for _ in range(3):
        broker.kill()
        broker.start(wait=False)
        time.sleep(0.25)
    broker.kill()
    broker.start()
    end_and_judge(broker, loads)
