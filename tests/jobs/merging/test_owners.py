"""Stories of an owner and of merges, by seed: the table holds what it should."""

import random
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from broker.topics.topic import Topic
from jobs.check import check_data_directory
from jobs.merging import merger, order, plan, rewrite
from jobs.merging.background import Task
from jobs.merging.names import span_of
from jobs.merging.rewrite import Merged, MergeTask
from tests.jobs.world import WEEK, MergesHere, World, later, some, start_at

STEPS = 25
SEEDS = 8
FILE_BYTES = 1_000
"""What is repaired becomes some files."""


class SmallMerges(MergesHere):
    """Repairs make files of a row group or two, and count themselves."""

    cut = 0

    def start(self, task: Task) -> None:
        if isinstance(task, MergeTask) and task.bytes_max:
            task = task._replace(bytes_max=FILE_BYTES)
        super().start(task)
        made = self._done[-1]
        self.cut += isinstance(made, Merged) and len(made.files) > 1


class Story:
    """A topic, its owner, and what its table should hold: offset -> value."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.chance = world, random.Random(seed)
        self.topic = world.topic("t")
        self.wanted: dict[int, bytes | None] = {}
        self.acts: list[str] = []
        self._seen = 0
        self.merges = SmallMerges(self._between)
        self.compactor = world.compactor(merges=self.merges, merge=True)

    def produce(self) -> None:
        self.world.produce(self.topic, some(self.chance.randint(1, 20)))
        self.world.flush(self.compactor)
        records = self.world.produced[self.topic.number, 0]
        self.wanted |= {one.offset: one.value for one in records[self._seen :]}
        self._seen = len(records)

    def sort_anew(self) -> None:
        """By value, of rows that make several row groups, and wait for the repair."""
        while len(self.wanted) < 80:
            self.produce()
        while not self.merges.cut:
            self._z_order(deltalake.DeltaTable(str(self.world.path(self.topic))))
            self.world.clock.advance(61_000)
            self.compactor.step()
            self.look()

    def look(self) -> None:
        self.world.clock.advance(self.chance.choice([1_000, 2_000, 61_000]))
        self.compactor.step()

    def act(self) -> None:
        path = self.world.path(self.topic)
        if not (path / "_delta_log").exists():
            return
        act = self.chance.choice(["delete", "update", "compact", "z_order", "column"])
        self.acts.append(act)
        getattr(self, f"_{act}")(deltalake.DeltaTable(str(path)))

    def _between(self, task: MergeTask) -> None:
        if self.chance.random() < 0.4:
            self.act()

    def _delete(self, table: deltalake.DeltaTable) -> None:
        low = self.chance.randint(0, max(self.wanted, default=0))
        high = low + self.chance.randint(0, 15)
        table.delete(f"offset >= {low} and offset <= {high}")
        for offset in range(low, high + 1):
            self.wanted.pop(offset, None)

    def _update(self, table: deltalake.DeltaTable) -> None:
        offset = self.chance.randint(0, max(self.wanted, default=0))
        text = f"theirs-{len(self.acts)}"
        table.update({"value": f"'{text}'"}, predicate=f"offset = {offset}")
        if offset in self.wanted:
            self.wanted[offset] = text.encode()

    def _compact(self, table: deltalake.DeltaTable) -> None:
        table.optimize.compact()

    def _z_order(self, table: deltalake.DeltaTable) -> None:
        table.optimize.z_order(["value"])

    def _column(self, table: deltalake.DeltaTable) -> None:
        name = f"theirs_{len(self.acts)}"
        kind = deltalake.schema.PrimitiveType("string")
        table.alter.add_columns([deltalake.Field(name, kind)])


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_an_owner_does_the_table_holds_what_it_should(
    world: World, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(plan, "GROWTH", 3)
    monkeypatch.setattr(merger, "LOOK_AGAIN_MS", 1_000)
    for module in (merger, order):  # all is large, and in many runs
        monkeypatch.setattr(module, "WHOLE_ROWS_MAX", 30)
    monkeypatch.setattr(order, "RUN_BYTES", 3_000)
    monkeypatch.setattr(order, "RUNS_MAX", 3)
    monkeypatch.setattr(rewrite, "GROUP_BYTES", 2_000)
    story = Story(world, seed)
    for _ in range(STEPS):
        if story.chance.random() < 0.6:
            story.produce()
        if story.chance.random() < 0.3:
            story.act()
        story.look()
    story.sort_anew()
    rows = world.rows(story.topic)
    assert {row.offset: row.value for row in rows} == story.wanted, story.acts
    assert len(rows) == len(story.wanted)
    assert check_data_directory(world.data_dir).problems == []
    assert story.compactor.counters.merges


def test_what_retention_lets_go_of_a_repair_goes_before_the_rest_of_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewrite, "GROUP_BYTES", 2_000)
    for module in (merger, order):
        monkeypatch.setattr(module, "WHOLE_ROWS_MAX", 30)
    topic, merges = world.topic("t"), SmallMerges()
    compactor = world.compactor(merges=merges, merge=True)
    world.produce(topic, some(200))
    world.flush(compactor)
    deltalake.DeltaTable(str(world.path(topic))).optimize.z_order(["key"])
    while not merges.cut:
        later(world, compactor, 61_000)
    later(world, compactor)
    repaired = files_of(world, topic)
    assert len(repaired) > 2
    start_at(world, topic, 199)
    later(world, compactor)
    assert len(files_of(world, topic)) == 1
    later(world, compactor, 2 * WEEK)
    there = world.path(topic).glob("partition=*/*.parquet")
    assert set(there) & repaired == files_of(world, topic)


def test_an_owners_row_below_offset_0_holds_up_no_maintenance(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A merge has a name that its file can have, as long as it is under way."""
    for module in (merger, order):
        monkeypatch.setattr(module, "WHOLE_ROWS_MAX", 3)
    topic, merges = world.topic("t"), MergesHere()
    compactor = world.compactor(merges=merges, merge=True)
    world.produce(topic, some(6))
    world.flush(compactor)
    table = deltalake.DeltaTable(str(world.path(topic)))
    row = table.to_pyarrow_table().slice(0, 1)
    at = row.schema.get_field_index("offset")
    theirs = row.set_column(at, "offset", pa.array([-5], pa.int64()))
    deltalake.write_deltalake(table, theirs, mode="append")
    deltalake.DeltaTable(str(world.path(topic))).optimize.z_order(["value"])
    later(world, compactor, 61_000)
    assert [task.path for task in merges.tasks if span_of(task.path) is None] == []
    assert [record.offset for record in world.rows(topic)] == [-5, *range(6)]


def files_of(world: World, topic: Topic) -> set[Path]:
    table = deltalake.DeltaTable(str(world.path(topic)))
    return {Path(uri.removeprefix("file://")) for uri in table.file_uris()}
