"""Tables that keep rows longer than the log: their files become large once below it."""

from typing import Any

import pytest

from jobs.check import check_data_directory
from jobs.looks import LOOK_EVERY_MS
from jobs.merging.merger import LOOK_BELOW_MS
from lakehouse.log.delta_log import load
from tests.jobs.world import MergesHere, World, alter_configs, later, start_at
from tests.support.batches import Record

START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
QUARTERS = 18


def live(world: World, topic: Any) -> int:
    return len(load(str(world.path(topic))).files)


def merge_all(world: World, steps: Any) -> None:
    later(world, steps, LOOK_BELOW_MS)
    for _ in range(4):
        later(world, steps, LOOK_EVERY_MS)


def of_quarters(world: World, steps: Any, kept_ms: str) -> Any:
    """A topic with a file for each quarter of an hour, whose log keeps an hour."""
    topic = world.topic("t")
    configs = {"retention.ms": str(HOUR_MS), "lake.retention.ms": kept_ms}
    alter_configs(world, topic, configs)
    for number in range(QUARTERS):
        at_ms = START_MS + number * HOUR_MS // 4
        world.produce(topic, [Record(b"k", b"v", (), at_ms + i) for i in range(20)])
        world.flush(steps)
    return topic


@pytest.mark.parametrize("kept_ms", ["-1", str(1000 * HOUR_MS)])
def test_files_below_the_log_start_are_merged_for_the_tables_time(
    world: World, kept_ms: str
) -> None:
    merges = MergesHere()
    steps = world.compactor(merges=merges, merge=True)
    topic = of_quarters(world, steps, kept_ms)
    merge_all(world, steps)
    assert merges.tasks == []  # each is as long as the log lets a file be
    start_at(world, topic, 20 * (QUARTERS - 1))
    merge_all(world, steps)  # and nothing is committed before it
    assert live(world, topic) == 2
    world.check_rows()
    assert check_data_directory(world.data_dir).problems == []


def test_files_that_leave_with_the_log_are_not_merged_first(world: World) -> None:
    merges = MergesHere()
    steps = world.compactor(merges=merges, merge=True)
    topic = of_quarters(world, steps, "-2")
    start_at(world, topic, 20 * (QUARTERS - 1))
    merge_all(world, steps)
    assert (merges.tasks, live(world, topic)) == ([], 1)
