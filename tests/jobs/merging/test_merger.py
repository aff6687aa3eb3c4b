"""Merges over a real log and real tables, with the workers' part done in-process."""

import json
import os
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import deltalake
import pytest

from broker.catalog import dynamic_configs
from broker.catalog import topics as catalog_topics
from broker.settings import TopicSettings
from jobs.check import check_data_directory
from jobs.compactor import Compactor
from jobs.looks import LOOK_EVERY_MS
from jobs.merging import merger
from jobs.merging.merger import LOOK_AGAIN_MS
from jobs.merging.rewrite import MergeTask
from jobs.rows import Failed, Written
from lakehouse.log.actions import parse_commit
from lakehouse.log.delta_log import entry_versions, load, read_entry
from tests.jobs.world import MergesHere, World, alter_configs, move_elsewhere, some
from tests.support.batches import Record

ROUNDS = 18
NOISE = Random(1).randbytes(20_000)
"""Beside it the footers of an owner's tool, which are larger than ours, are little."""


def compactor(world: World, merges: MergesHere | None = None, **lake: Any) -> Compactor:
    return world.compactor(merges=merges or MergesHere(), **{"merge": True} | lake)


def fill(world: World, topic: Any, steps: Compactor, rounds: int = ROUNDS) -> None:
    for _ in range(rounds):
        world.produce(topic, some(20, NOISE))
        world.flush(steps)


def later(world: World, steps: Compactor, ms: int = LOOK_EVERY_MS) -> None:
    world.clock.advance(ms)
    steps.step()


def settle(world: World, steps: Compactor, times: int = 6) -> None:
    later(world, steps, LOOK_AGAIN_MS)
    for _ in range(times):
        later(world, steps)


def live(world: World, topic: Any) -> int:
    return len(load(str(world.path(topic))).files)


def on_disk(world: World, topic: Any) -> set[Path]:
    return set(world.path(topic).glob("partition=*/*.parquet"))


def operations(world: World, topic: Any) -> list[str]:
    path = str(world.path(topic))
    return [
        parse_commit(version, read_entry(path, version)).info.get("operation", "")
        for version in entry_versions(path)
    ]


def is_well(world: World) -> None:
    world.check_rows()
    assert check_data_directory(world.data_dir).problems == []


def test_small_files_become_one_and_no_row_is_lost(world: World) -> None:
    topic = world.topic("t", 2)
    steps = compactor(world)
    for _ in range(ROUNDS):
        world.produce(topic, some(20, NOISE), 0)
        world.produce(topic, some(7, NOISE), 1)
        world.flush(steps)
    settle(world, steps)
    assert live(world, topic) <= 8
    is_well(world)
    totals = steps.counters.totals()
    assert totals["merges_total"] == 2
    assert totals["merged_files_total"] >= 32
    assert totals["merges_failed_total"] == 0
    status = steps.status()
    assert 100 < status.write_amplification_percent <= 400
    assert status.left_alone == {}
    fill(world, topic, steps, 2)
    is_well(world)


def test_it_does_nothing_where_it_is_turned_off(world: World) -> None:
    topic, merges = world.topic("t"), MergesHere()
    steps = compactor(world, merges, merge=False)
    fill(world, topic, steps)
    settle(world, steps)
    assert (merges.tasks, live(world, topic)) == ([], ROUNDS)


def test_nothing_begins_while_records_are_late(world: World) -> None:
    topic, merges = world.topic("t"), MergesHere()
    steps = compactor(world, merges)
    fill(world, topic, steps)
    merges.tasks.clear()
    world.produce(topic, some(20, NOISE))
    steps.step()
    world.clock.advance(60_000)
    steps.step()
    assert merges.tasks == []
    settle(world, steps)
    assert len(merges.tasks) == 1
    is_well(world)


def test_only_who_has_the_lease_commits(world: World) -> None:
    topic, held = world.topic("t"), [True]

    def lose(task: MergeTask) -> None:
        held[0] = False

    steps = world.compactor(
        merges=MergesHere(lose), merge=True, holds_lease=lambda: held[0]
    )
    fill(world, topic, steps)
    settle(world, steps)
    assert live(world, topic) == ROUNDS
    is_well(world)


def owner(world: World, topic: Any) -> deltalake.DeltaTable:
    return deltalake.DeltaTable(str(world.path(topic)))


def test_a_row_that_its_owner_deleted_meanwhile_does_not_come_back(
    world: World,
) -> None:
    topic, acts = world.topic("t"), [1]

    def delete(task: MergeTask) -> None:
        if acts:
            acts.pop()
            owner(world, topic).delete("offset = 33")

    steps = compactor(world, MergesHere(delete))
    fill(world, topic, steps)
    settle(world, steps)
    assert acts == []
    assert 33 not in [record.offset for record in world.rows(topic)]
    assert steps.counters.merges_failed == 1
    before = on_disk(world, topic)
    assert len(before) == ROUNDS + 1, "the merge left none, and its owner one"
    fill(world, topic, steps, 2)
    settle(world, steps)
    assert live(world, topic) < 10
    found = [record.offset for record in world.rows(topic)]
    assert found == [offset for offset in range((ROUNDS + 2) * 20) if offset != 33]
    assert check_data_directory(world.data_dir).problems == []


def test_what_its_owner_updated_stays_so(world: World) -> None:
    topic, steps = world.topic("t"), compactor(world)
    fill(world, topic, steps, 4)
    owner(world, topic).update({"value": "'theirs'"}, predicate="offset = 33")
    fill(world, topic, steps)
    settle(world, steps)
    assert live(world, topic) < 10
    [row] = [record for record in world.rows(topic) if record.offset == 33]
    assert row.value == b"theirs"
    assert len(world.rows(topic)) == (ROUNDS + 4) * 20


def test_an_owners_column_and_its_values_survive(world: World) -> None:
    topic, steps = world.topic("t"), compactor(world)
    fill(world, topic, steps, 4)
    table = owner(world, topic)
    field = deltalake.Field("theirs", deltalake.schema.PrimitiveType("string"))
    table.alter.add_columns([field])
    owner(world, topic).update({"theirs": "'x'"}, predicate="offset < 30")
    fill(world, topic, steps)
    settle(world, steps)
    assert live(world, topic) < 10
    rows = owner(world, topic).to_pyarrow_table(columns=["offset", "theirs"])
    found = {row["offset"]: row["theirs"] for row in rows.to_pylist()}
    assert found == {o: "x" if o < 30 else None for o in range((ROUNDS + 4) * 20)}
    is_well(world)


def test_files_in_no_order_are_repaired(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merger, "WHOLE_ROWS_MAX", 50)
    topic, steps = world.topic("t"), compactor(world)
    fill(world, topic, steps, 5)
    owner(world, topic).optimize.z_order(["value"])
    world.produce(topic, some(20, NOISE))
    world.flush(steps)
    settle(world, steps)
    assert operations(world, topic).count("LAKELOG MERGE") == 1
    is_well(world)


def test_a_repair_makes_files_that_retention_can_let_go(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merger, "WHOLE_ROWS_MAX", 50)
    topic, merges = world.topic("t"), MergesHere()
    few = {"retention.bytes": str(32 << 20)}
    alter_configs(world, topic, few)
    steps = compactor(world, merges)
    fill(world, topic, steps, 3)
    owner(world, topic).optimize.z_order(["value"])
    world.produce(topic, some(20, NOISE))
    world.flush(steps)
    settle(world, steps)
    assert [task.bytes_max for task in merges.tasks] == [2 << 20]
    is_well(world)


def test_a_table_whose_owner_asks_for_more_is_left_alone(world: World) -> None:
    topic, merges = world.topic("t"), MergesHere()
    steps = compactor(world, merges)
    fill(world, topic, steps)
    path = str(world.path(topic))
    entry = world.path(topic) / "_delta_log" / f"{load(path).version + 1:020d}.json"
    protocol = '{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures"'
    entry.write_text(protocol + ':["rowTracking","domainMetadata"]}}\n')
    merges.tasks.clear()
    settle(world, steps)
    later(world, steps, LOOK_AGAIN_MS)
    steps.step()
    assert steps.status().left_alone == {"t": "it has rowTracking"}


def test_files_with_odd_rows_are_left_alone_and_the_others_are_not(
    world: World,
) -> None:
    topic, steps = world.topic("t"), compactor(world)
    fill(world, topic, steps, 1)
    row = owner(world, topic).to_pyarrow_table().slice(0, 1)
    deltalake.write_deltalake(str(world.path(topic)), row, mode="append")
    fill(world, topic, steps)
    settle(world, steps)
    assert "is there twice" in steps.status().left_alone["t"]
    assert steps.counters.merges_failed == 1
    assert steps.counters.merges == 1
    assert live(world, topic) < 10


def test_a_worker_that_fails_costs_nothing(world: World) -> None:
    topic = world.topic("t")

    class Failing(MergesHere):
        def take(self) -> Written | Failed | None:
            return Failed(self.tasks[-1].path, "killed", stale=False)

    merges = Failing()
    steps = compactor(world, merges)
    fill(world, topic, steps)
    settle(world, steps)
    assert len(merges.tasks) == 1, "it is not tried at each look"
    assert "killed" in steps.status().left_alone["t"]
    is_well(world)


def test_what_its_owner_took_away_is_no_fault(world: World) -> None:
    topic = world.topic("t")
    steps = compactor(world, MergesHere(lambda task: owner(world, topic).delete()))
    fill(world, topic, steps)
    settle(world, steps)
    assert steps.counters.merges == 0
    assert world.rows(topic) == []


def test_a_topic_that_is_deleted_meanwhile_is_forgotten(world: World) -> None:
    topic, acts = world.topic("t"), [1]

    def delete(task: MergeTask) -> None:
        if acts:
            acts.pop()
            world.catalog.change(
                lambda c: catalog_topics.delete(c, topic.number, world.clock.now_ms())
            )

    steps = compactor(world, MergesHere(delete))
    fill(world, topic, steps)
    settle(world, steps)
    later(world, steps, 120_000)
    assert not world.path(topic).exists()


def test_what_was_replaced_stays_for_time_travel_and_then_goes(world: World) -> None:
    topic, steps = world.topic("t"), compactor(world)
    fill(world, topic, steps)
    before = on_disk(world, topic)
    settle(world, steps)
    assert live(world, topic) == 1
    version = operations(world, topic).index("LAKELOG MERGE")
    later(world, steps, 6 * 24 * 3_600_000)
    assert before <= on_disk(world, topic)
    old = deltalake.DeltaTable(str(world.path(topic)), version=version - 1)
    assert old.to_pyarrow_table().num_rows == ROUNDS * 20
    later(world, steps, 25 * 3_600_000)
    later(world, steps, 60_000)
    assert len(on_disk(world, topic)) == 1
    is_well(world)


def test_it_goes_too_where_the_log_has_forgotten_it(world: World) -> None:
    topic, steps = world.topic("t"), compactor(world)
    fill(world, topic, steps)
    settle(world, steps)
    path = str(world.path(topic))
    brief = {"delta.deletedFileRetentionDuration": "interval 1 milliseconds"}
    owner(world, topic).alter.set_table_properties(brief)
    owner(world, topic).create_checkpoint()
    assert not load(path).removed
    again = compactor(world)
    for found in on_disk(world, topic):
        os.utime(found, (world.clock.now_ms() / 1000,) * 2)
    again.step()
    later(world, again, 60_000)
    assert len(on_disk(world, topic)) == live(world, topic) == 1
    is_well(world)


def test_what_its_owner_replaced_stays_though_it_was_merged_since(world: World) -> None:
    topic, steps = world.topic("t"), compactor(world)
    fill(world, topic, steps, 3)
    theirs = on_disk(world, topic)
    owner(world, topic).optimize.compact()
    fill(world, topic, steps)
    settle(world, steps)
    assert "LAKELOG MERGE" in operations(world, topic)
    for _ in range(3):
        later(world, steps, 10 * 24 * 3_600_000)
    assert theirs <= on_disk(world, topic)
    is_well(world)


@pytest.mark.parametrize("point", ["start", "take"])
def test_a_file_that_is_being_written_is_no_orphan(world: World, point: str) -> None:
    topic = world.topic("t")

    class Slow(MergesHere):
        def take(self) -> Written | Failed | None:
            if point == "take" and len(self.tasks) == 1 and waits:
                waits.pop()
                return None
            return super().take()

    waits: list[int] = [1, 1, 1]
    steps = compactor(world, Slow())
    fill(world, topic, steps)
    for _ in range(6):
        later(world, steps, 3_600_000)
    assert waits == ([] if point == "take" else [1, 1, 1])
    assert steps.counters.merges == 1
    assert live(world, topic) == 1
    is_well(world)


def test_keys_of_all_kinds_are_as_they_were(world: World) -> None:
    """Each shape of record, merged twice over."""
    topic, steps = world.topic("t"), compactor(world)
    fill(world, topic, steps, 16 * 16 + 40)
    settle(world, steps, 80)
    assert live(world, topic) < 40
    assert steps.counters.merges >= 2
    is_well(world)


def test_a_compactor_that_ends_waits_for_no_merge(world: World) -> None:
    topic = world.topic("t")

    class Endless(MergesHere):
        stopped = False

        def take(self) -> Written | Failed | None:
            return None

        def wait(self, timeout_s: float | None = None) -> None:
            self.stopped = (world.data_dir / "spill" / "stop").exists()

    merges = Endless()
    steps = compactor(world, merges)
    steps.stop()
    assert not merges.stopped
    fill(world, topic, steps)
    settle(world, steps)
    steps.stop()
    assert merges.stopped
    again = compactor(world)
    settle(world, again)
    assert live(world, topic) == 1, "the next one merges"
    is_well(world)


def test_columns_that_nobody_understands_stop_no_other_table(world: World) -> None:
    odd, merges = world.topic("t"), MergesHere()
    topic, steps = world.topic("other"), compactor(world, merges)
    for _ in range(ROUNDS):
        world.produce(odd, some(20, NOISE))
        world.produce(topic, some(20, NOISE))
        world.flush(steps)
    merges.tasks.clear()
    log = world.path(odd) / "_delta_log"
    [metadata] = [
        json.loads(line)
        for line in (log / f"{0:020d}.json").read_text().splitlines()
        if "metaData" in line
    ]
    schema = json.loads(metadata["metaData"]["schemaString"])
    column = {"name": "x", "type": "decimal(99,2)", "nullable": True, "metadata": {}}
    schema["fields"].append(column)
    metadata["metaData"]["schemaString"] = json.dumps(schema)
    version = load(str(world.path(odd))).version + 1
    (log / f"{version:020d}.json").write_text(json.dumps(metadata) + "\n")
    settle(world, steps)
    assert "cannot be understood" in steps.status().left_alone["t"]
    assert live(world, topic) < 10


def test_a_file_that_lies_elsewhere_is_none_to_merge(world: World) -> None:
    topic, merges = world.topic("t"), MergesHere()
    steps = compactor(world, merges, merge=False)
    fill(world, topic, steps, ROUNDS + 4)
    path = str(world.path(topic))
    first, second = sorted(load(path).files.values(), key=lambda f: f.first_offset)[:2]
    elsewhere = move_elsewhere(world, topic, second)
    settle(world, compactor(world, merges))
    assert len(merges.tasks) == 1
    assert str(elsewhere) not in merges.tasks[0].sources
    assert str(elsewhere) in load(path).files
    assert first.path in load(path).files


HOUR_MS = 3_600_000
NAMED = {"all brokers": "", "this broker": "1", "another broker": "2"}


def configure(world: World, name: str) -> None:
    """As clients do, of a broker or of all ("")."""
    configs = {"log.retention.ms": str(HOUR_MS)}
    world.catalog.change(
        partial(dynamic_configs.store, resource=(4, name), configs=configs)
    )


@pytest.mark.parametrize(
    ("said_by", "is_merged"),
    [
        ("nobody", True), ("topic", False), ("start", False), ("all brokers", False),
        ("this broker", False), ("another broker", True),
    ],
)  # fmt: skip
def test_a_file_spans_a_share_of_the_time_that_is_kept_whoever_says_it(
    world: World, said_by: str, is_merged: bool
) -> None:
    topic = world.topic("t")
    hour = {"retention.ms": str(HOUR_MS)}
    if said_by == "topic":
        alter_configs(world, topic, hour)
    elif said_by in NAMED:
        configure(world, NAMED[said_by])
    started = TopicSettings(retention_ms=HOUR_MS) if said_by == "start" else None
    steps = world.compactor(merges=MergesHere(), topics=started, merge=True)
    for number in range(ROUNDS):
        at_ms = 1_700_000_000_000 + number * HOUR_MS // 4
        world.produce(topic, [Record(b"k", b"v", (), at_ms + i) for i in range(20)])
        world.flush(steps)
    settle(world, steps)
    assert (live(world, topic) < ROUNDS) is is_merged
    is_well(world)
