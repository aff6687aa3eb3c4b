"""Merges and cleans take turns, one at a time."""

from pathlib import Path
from typing import Any

import pytest

from jobs.cleaning.rewrite import CleanTask
from jobs.maintain import delete_files
from jobs.merging.rewrite import stop_file
from jobs.rows import Failed
from jobs.sweep import Sweep
from lakehouse.log.delta_log import load
from tests.jobs.world import DELAY, MergesHere, World, some

COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}


class Slow(MergesHere):
    """Done only once somebody says so."""

    is_done = False

    def take(self) -> Any:
        return super().take() if self.is_done else None


def fill(world: World, topics: list[Any], steps: Any) -> None:
    records = [r for r in some(60) if r.key is not None]
    for _ in range(18):
        for topic in topics:
            world.produce(topic, records)
        world.flush(steps)


def test_who_had_the_slot_last_is_asked_second(world: World) -> None:
    tasks = MergesHere()
    steps = world.compactor(merges=tasks, merge=True)
    topics = [world.topic("a", 2, COMPACT), world.topic("b", 2)]
    fill(world, topics, steps)
    tasks.tasks.clear()
    world.clock.advance(60_000)
    for _ in range(4):
        for topic in topics:
            world.produce(topic, [r for r in some(9) if r.key is not None], 1)
        world.flush(steps)
        world.clock.advance(60_000)
        steps.step()
    kinds = [isinstance(task, CleanTask) for task in tasks.tasks]
    assert True in kinds
    totals = steps.counters.totals()
    assert totals["merges_total"] > 0
    assert totals["cleans_total"] > 0


def test_one_at_a_time_and_its_files_are_nobodys_orphans(world: World) -> None:
    tasks = Slow()
    steps = world.compactor(merges=tasks)
    topic = world.topic("t", 1, COMPACT)
    world.produce(topic, [r for r in some(60) if r.key is not None])
    world.flush(steps)
    world.clock.advance(60_000)
    for _ in range(5):
        world.clock.advance(1_000)
        steps.step()
    assert len(tasks.tasks) == 1
    written = set(world.path(topic).glob("partition=0/*.parquet"))
    assert len(written) == 2
    table = next(iter(steps._tables.all()))
    rewrites = steps._rewrites
    assert rewrites is not None
    for writing in (rewrites.writing, None):
        now_ms = DELAY + max(path.stat().st_mtime_ns for path in written) // 1_000_000
        sweep = Sweep()
        sweep.suspect([topic.number])
        delete_files(table, {}, lambda *a: True, now_ms, 0, 0, sweep, writing)
        left = set(world.path(topic).glob("partition=0/*.parquet"))
        assert (left == written) == (writing is not None)
    assert len(load(str(world.path(topic))).files) == 1


@pytest.mark.parametrize("is_busy", [True, False])
def test_what_is_under_way_ends_with_the_compactor(world: World, is_busy: bool) -> None:
    tasks = Slow()
    steps = world.compactor(merges=tasks)
    topic = world.topic("t", 1, COMPACT if is_busy else None)
    world.produce(topic, [r for r in some(60) if r.key is not None])
    world.flush(steps)
    world.clock.advance(60_000)
    steps.step()
    steps.stop()
    assert Path(stop_file(str(world.data_dir / "spill"))).exists() == is_busy


def test_what_a_killed_one_left_to_sort_is_deleted(world: World) -> None:
    left = world.data_dir / "spill" / "left" / "0.run"
    left.parent.mkdir(parents=True)
    left.touch()
    world.compactor(merges=MergesHere()).step()
    assert not left.parent.exists()


class Dying(MergesHere):
    """As a worker that is killed while it sorts: what it spilled is left."""

    def start(self, task: Any) -> None:
        self.tasks.append(task)
        Path(task.spill, "left").mkdir(parents=True)
        Path(task.spill, "left", "0.run").write_bytes(b"rows")
        self._done.append(Failed(task.path, "its worker died", stale=True))


def test_what_a_killed_worker_had_spilled_goes_before_the_next_begins(
    world: World,
) -> None:
    tasks = Dying()
    steps = world.compactor(merges=tasks)
    topic = world.topic("t", 1, COMPACT)
    world.produce(topic, [r for r in some(60) if r.key is not None])
    world.flush(steps)
    world.clock.advance(60_000)
    steps.step()
    [task] = tasks.tasks
    assert Path(task.spill, "left", "0.run").exists()
    world.clock.advance(1_000)
    steps.step()
    assert not Path(task.spill, "left").exists()
