"""kill -9 of the compactor, of the broker, and of both, with tables being written.

The table has each record once, whatever happened; its offsets and values are those of
the log. Most of it runs without Spark, whose workers do nothing that survives them;
one life has the real thing.
"""

import random
import time

import pytest

from tests.crash.house import (
    HITS,
    KILLS,
    House,
    sleeps_through_the_work_of_another,
)
from tests.crash.workload import (
    Load,
    Watcher,
    judge,
    read_everything,
    running,
    tell,
)
from tests.support.patience import STUCK_S
from tests.support.process import Part

POINTS = (
    "compact.before_files",
    "compact.after_files",
    "compact.before_commit",
    "compact.after_entry",
    "compact.after_commit",
    "compact.after_sync",
)

MERGE_POINTS = (
    "merge.before_file",
    "merge.writing",
    "merge.after_file",
    "merge.before_commit",
    "merge.after_entry",
    "merge.after_commit",
    "merge.after_sync",
)

pytestmark = [pytest.mark.crash, pytest.mark.shared_out("kills of a compactor", 6)]


def judge_table(
    house: House,
    loads: list[Load],
    test: str,
    kills: int,
    watcher: Watcher | None = None,
) -> None:
    """Log, table and what was acknowledged are the same. A compactor must run."""
    house.flush()
    found = read_everything(house.broker.bootstrap, "t", house.partitions)
    judge(loads, found, watcher)
    assert house.in_table() == found
    house.check()
    tell(test, kills, loads)


def kill_at_random(house: House, kills: int, pauses: tuple[float, float]) -> None:
    chance = random.Random(4)
    broker, compactor = house.broker, house.compactor
    for number in range(kills):
        time.sleep(chance.uniform(*pauses))
        victims = ([compactor], [broker], [broker, compactor])[number % 3]
        kill(*victims)


def kill(*victims: Part) -> None:
    """All of them at once; they run again when this returns."""
    for part in victims:
        part.kill()
    for part in victims:
        part.start()


def test_a_kill_of_the_compactor_at_a_named_point_writes_nothing_twice(build):
    house = build().start()
    chance, load = random.Random(1), house.load("exact", pause_s=0.02)
    with running(load):
        for hit in range(HITS * len(POINTS)):
            point = POINTS[hit % len(POINTS)]
            points = f"{point}={chance.randint(1, 2)}"
            house.compactor.start(failpoints=points, wait=False)
            assert house.compactor.died(STUCK_S), f"{point} was not passed"
    house.compactor.start()
    judge_table(house, [load], "compact", HITS * len(POINTS))


def test_a_kill_in_a_merge_loses_and_doubles_nothing(build):
    """While a consumer reads along."""
    house = build(altered="merges_eagerly").start()
    load, watcher = house.load("exact", pause_s=0.02), house.watcher()
    with running(load, watcher):
        for point in MERGE_POINTS * HITS:
            house.compactor.start(failpoints=point, wait=False)
            assert house.compactor.died(STUCK_S), f"{point} was not passed"
        house.compactor.start()
    judge_table(house, [load], "merge", HITS * len(MERGE_POINTS), watcher)


def test_kills_of_both_at_random_times_lose_and_double_nothing(build):
    house = build().start()
    load = house.load("exact", pause_s=0.01)
    house.compactor.start()
    with running(load):
        kill_at_random(house, KILLS, (0.3, 2.0))
    judge_table(house, [load], "both", KILLS)


@pytest.mark.slow  # the short form is in tests/jobs/test_compactor_spark.py
@pytest.mark.spark
def test_with_spark_kills_of_both_lose_and_double_nothing(build):
    house = build(spark=True).start()
    load = house.load("exact", pause_s=0.02)
    house.compactor.start()
    with running(load):
        time.sleep(2)
        kill(house.compactor, house.broker)
        time.sleep(2)
    judge_table(house, [load], "spark", 1)


@pytest.mark.parametrize("altered", ["", "without_lease"])
def test_two_compactors_at_once_write_each_record_once(build, altered):
    """Without the lease, too: it saves work, the commits keep the promise."""
    house = build(altered=altered).start()
    load = house.load("exact", pause_s=0.02)
    second = house.another_compactor()
    with running(load):
        house.compactor.start(wait=False)
        second.start()
        time.sleep(4)
        second.kill()
        time.sleep(1)
    judge_table(house, [load], f"two {altered}", 1)


def test_a_compactor_that_slept_writes_nothing_twice(build):
    """It slept for longer than its lease, and believes that it holds it."""
    house = build(altered="stops_at_points").start()
    load = house.load("exact", pause_s=0.02)
    with running(load):
        sleeps_through_the_work_of_another(house)
    judge_table(house, [load], "slept", 1)
