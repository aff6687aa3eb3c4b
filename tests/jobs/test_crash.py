"""A compactor killed at each of its points: the next one goes on, exactly once."""

import signal
from collections.abc import Callable

import pytest

from jobs.check import check_data_directory
from lakehouse.log.delta_log import load
from tests.jobs.compactions import compaction
from tests.jobs.world import World
from tests.support.batches import Record

pytestmark = [pytest.mark.crash]

Compact = Callable[..., int]

POINTS = [
    "compact.before_files",
    "compact.after_files",
    "compact.before_commit",
    "compact.after_entry",
    "compact.after_commit",
    "compact.after_sync",
]
MERGE_POINTS = [
    "merge.before_file",
    "merge.writing",
    "merge.after_file",
    "merge.before_commit",
    "merge.after_entry",
    "merge.after_commit",
    "merge.after_sync",
]
CLEAN_POINTS = [
    "clean.before_file",
    "clean.after_group",
    "clean.after_group=2",
    "clean.after_file",
    "clean.before_commit",
    "clean.after_entry",
    "clean.after_commit",
    "clean.after_sync",
]


@pytest.fixture
def compact(world: World) -> Compact:
    """Runs a compactor until all is done or it dies at a point; its exit code."""

    def compacted(points: str = "") -> int:
        code = compaction(world.data_dir, points)
        assert code in (0, -signal.SIGKILL)
        return code

    return compacted


def some(count: int) -> list[Record]:
    return [Record(b"k%d" % i, b"v" * i) for i in range(count)]


@pytest.mark.parametrize("point", POINTS)
def test_killed_there_then_each_record_is_in_its_table_once(
    world: World, compact: Compact, point: str
) -> None:
    one, two = world.topic("one", 2), world.topic("two")
    for topic, partition in ((one, 0), (one, 1), (two, 0)):
        world.produce(topic, some(30), partition)
    # First in the very first round, then in one that finds a table there.
    assert compact(point) == -signal.SIGKILL
    world.produce(one, some(10), 1)
    assert compact(f"{point}=2") in (0, -signal.SIGKILL)
    world.produce(one, some(10), 1)
    world.produce(two, some(10))
    assert compact() == 0
    world.check_rows()
    report = check_data_directory(world.data_dir)
    assert report.problems == []
    assert report.counts["rows"] == 120


@pytest.mark.parametrize("point", MERGE_POINTS)
def test_killed_in_a_merge_then_each_record_is_in_its_table_once(
    world: World, compact: Compact, point: str
) -> None:
    topic, steps = world.topic("one"), world.compactor()
    for _ in range(18):
        world.produce(topic, some(10))
        world.flush(steps)
    assert compact(point) == -signal.SIGKILL
    world.check_rows()
    world.produce(topic, some(10))
    assert compact() == 0
    assert len(load(str(world.path(topic))).files) <= 2
    world.check_rows()
    report = check_data_directory(world.data_dir)
    assert report.problems == []
    assert report.counts["rows"] == 190
    assert report.counts["merges"] == 1


@pytest.mark.parametrize("point", CLEAN_POINTS)
def test_killed_in_a_clean_then_each_key_has_its_last_record(
    world: World, compact: Compact, point: str
) -> None:
    configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
    topic, steps = world.topic("one", 1, configs), world.compactor()
    world.produce(topic, some(30))
    world.flush(steps)
    assert compact() == 0
    world.produce(topic, some(20))
    world.flush(steps)
    assert compact(point) == -signal.SIGKILL
    world.produce(topic, some(10))
    world.flush(steps)
    assert compact() == 0
    produced = world.produced[topic.number, 0]
    assert world.rows(topic) == [*produced[20:30], *produced[40:]]
    report = check_data_directory(world.data_dir)
    assert report.problems == []
    assert report.counts["rows_superseded"] == 30
